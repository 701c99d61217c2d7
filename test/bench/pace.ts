/**
 * What a day's mail comes to at models of providers: by what is learnt, and at fixed rates.
 * npm run bench:pace
 */
import { type PacePolicy, simulate } from "../support/pace-model.ts";
import {
  dayAndNight,
  fewSessions,
  greylisting,
  leaky,
  type ProviderModel,
  windowed,
} from "../support/pace-providers.ts";

const HOUR_MS = 3_600_000;
const HOURS = 24;

const MODELS: readonly ProviderModel[] = [
  leaky("600 an hour, silent about the wait", () => 600),
  leaky("36,000 an hour, silent about the wait", () => 36_000),
  leaky("36,000 an hour, wait 5 minutes", () => 36_000, {
    refusal: "421 4.7.28 too much mail, try again in 5 minutes",
  }),
  leaky("60,000 an hour by day, 20,000 by night", dayAndNight(60_000, 20_000)),
  leaky("from 5,000 to 80,000 an hour, as trust grows", (ms) => 5_000 + (75_000 * ms) / (HOURS * HOUR_MS)),
  windowed("500 in each minute", 500, 60_000),
  windowed("20,000 in each hour", 20_000, HOUR_MS),
  fewSessions("5 sessions, 2 messages a second each", 5, 2),
  greylisting("greylisting, 5 minutes, else no limit", 300_000, 40),
];

/** A limit set once for all: as a careful operator sets it, and as a bold one does. */
const POLICIES: readonly { readonly name: string; readonly policy: PacePolicy }[] = [
  { name: "learnt", policy: "learnt" },
  { name: "static 10,000", policy: 10_000 },
  { name: "static 50,000", policy: 50_000 },
];

print("| provider | policy | delivered in 24 h | of what was possible | deferred | oscillation | reductions |");
print("|---|---|---|---|---|---|---|");
const results = MODELS.flatMap((model) =>
  POLICIES.map(({ name, policy }) => {
    const { rates: _, ...day } = simulate(model, policy, HOURS);
    const share = day.deferred / Math.max(1, day.delivered + day.deferred);
    const cells = [
      model.name,
      name,
      day.delivered.toLocaleString("en"),
      `${(day.used * 100).toFixed(1)} %`,
      `${(share * 100).toFixed(2)} %`,
      day.oscillation.toFixed(3),
      day.reductions,
    ];
    print(`| ${cells.join(" | ")} |`);
    return { provider: model.name, policy: name, ...day, deferredShare: share };
  }),
);
print(JSON.stringify({ bench: "pace", results }));

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
