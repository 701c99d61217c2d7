import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import {
  forgetLearnt,
  keptPaceKey,
  type PaceView,
  paceKeyOf,
  pinLimits,
  unpinLimits,
  viewPace,
  viewPaces,
} from "../../operations/mail/paces.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { PaceKey } from "../../store/mail/pace/source-paces.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const limit = z.int("whole-number").min(1, "at-least").nullable().optional();
const count = z.number().nullable();

const paceJson = z.object({
  source: z.string().meta({ description: "an address of ours, or `system` where the system chooses it" }),
  provider: z.string().meta({ description: "a group of domains, or a domain that is in none" }),
  rate: count.meta({ description: "messages an hour; null: as configured" }),
  connections: count.meta({ description: "sessions at once of all workers together; null: as configured" }),
  messages_per_connection: count,
  pinned: z.object({ rate: count, connections: count, messages_per_connection: count }),
  pinned_by: z.string().nullable(),
  learnt_rate: count,
  refused_rate: count.meta({ description: "the rate that was refused last" }),
  wait_seconds: z.int().meta({ description: "nothing is sent for so long" }),
  tried_rate: z.number(),
  used_at: z.string().meta({ description: "ISO 8601, UTC" }),
});

const countJson = z.object({
  at: z.string().meta({ description: "beginning of five minutes; ISO 8601, UTC" }),
  allowed: count.meta({ description: "messages an hour, at their end; null: as fast as it goes" }),
  tried: z.int(),
  delivered: z.int(),
  deferred: z.int().meta({ description: "by replies that want less" }),
});

const params = z.object({ source: z.string().max(255), provider: z.string().max(255) });
const keyJson = z.object({
  source: z.string(),
  provider: z.string().meta({ description: "of a domain that is in a group, the group" }),
});
const objectOf = (request: { readonly params: z.output<typeof params> }) =>
  `${request.params.source} ${request.params.provider}`;
const HOUR_MS = 3_600_000;

/** How much each source sends to each provider, what was learnt of that, and the operator's hand on it. */
export const makePaceEndpoints: MakeConsoleEndpoints = ({ db, clock }) => [
  consoleEndpoint({
    method: "GET",
    path: "/paces",
    summary: "What is learnt or pinned, by source and provider",
    authorise: areaOf(),
    reply: z.object({ paces: z.array(paceJson) }),
    act: async () => ok({ paces: (await viewPaces(db)).map(toJson) }),
  }),
  consoleEndpoint({
    method: "GET",
    path: "/paces/:source/:provider",
    summary: "What is known of a source at a provider, and what became of its messages",
    authorise: areaOf(),
    params,
    fields: z.object({ hours: z.int("whole-number").min(1, "at-least").max(336, "at-most").default(24) }),
    reply: paceJson.extend({ counts: z.array(countJson) }),
    act: async ({ params, fields: { hours } }) => {
      const key = await keptPaceKey(db, params);
      if (!key.ok) return refuse(problem(key.error));
      const found = await viewPace(db, key.value, new Date(clock.nowMs() - hours * HOUR_MS));
      if (found === undefined) return refuse(problem("no-such-pace"));
      return ok(withCounts(found));
    },
  }),
  consoleEndpoint({
    method: "POST",
    path: "/paces/:source/:provider/pin",
    summary: "Fix limits: what is learnt does not change them; null lets one go by what is learnt",
    authorise: areaOf(),
    params,
    fields: z.object({ rate: limit, connections: limit, messages_per_connection: limit }),
    change: { action: "pace.pin", object: objectOf, detail: ({ fields }) => fields },
    reply: keyJson,
    act: async ({ params, caller, fields: { rate, connections, messages_per_connection: messagesPerConnection } }) => {
      const given = Object.entries({ ratePerHour: rate, connections, messagesPerConnection });
      const limits = Object.fromEntries(given.filter(([, value]) => value !== undefined));
      const key = paceKeyOf(params);
      if (!key.ok) return refuse(problem(key.error));
      const pinned = await pinLimits(db, key.value, limits, caller.login);
      return pinned.ok ? key : refuse(problem(pinned.error));
    },
  }),
  changeEndpoint(db, { verb: "unpin", summary: "Let what is learnt go again", make: unpinLimits }),
  changeEndpoint(db, {
    verb: "reset",
    summary: "Forget what was learnt, and let what waits for it go; what is pinned stays so",
    make: forgetLearnt,
  }),
];

interface Change {
  readonly verb: string;
  readonly summary: string;
  /** @returns false where nothing is kept */
  make(db: Db, key: PaceKey): Promise<boolean>;
}

function changeEndpoint(db: Db, { verb, summary, make }: Change) {
  return consoleEndpoint({
    method: "POST",
    path: `/paces/:source/:provider/${verb}`,
    summary,
    authorise: areaOf(),
    params,
    change: { action: `pace.${verb}`, object: objectOf },
    reply: keyJson,
    act: async ({ params: written }) => {
      const key = await keptPaceKey(db, written);
      if (!key.ok) return refuse(problem(key.error));
      return (await make(db, key.value)) ? key : refuse(problem("no-such-pace"));
    },
  });
}

function withCounts({ counts, warmUp: _, ...pace }: NonNullable<Awaited<ReturnType<typeof viewPace>>>) {
  return { ...toJson(pace), counts: counts.map((each) => ({ ...each, at: each.at.toISOString() })) };
}

function toJson(pace: PaceView): z.input<typeof paceJson> {
  const { source, provider, connections, pins } = pace;
  return {
    source,
    provider,
    rate: pace.ratePerHour,
    connections,
    messages_per_connection: pace.messagesPerConnection,
    pinned: {
      rate: pins.ratePerHour,
      connections: pins.connections,
      messages_per_connection: pins.messagesPerConnection,
    },
    pinned_by: pace.pinnedBy,
    learnt_rate: pace.learntPerHour,
    refused_rate: pace.refusedPerHour,
    wait_seconds: pace.waitSeconds,
    tried_rate: pace.triedPerHour,
    used_at: pace.usedAt.toISOString(),
  };
}
