import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import type { PacePins } from "../../core/mail/pace/allowance.ts";
import type { Result } from "../../core/result.ts";
import {
  forgetLearnt,
  type KeyRefusal,
  keptPaceKey,
  type PaceView,
  paceKeyOf,
  pinLimits,
  unpinLimits,
  viewPace,
  viewPaces,
} from "../../operations/mail/paces.ts";
import type { ProviderProgress } from "../../operations/mail/warm-ups.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { PaceKey } from "../../store/mail/pace/source-paces.ts";
import type { CommandRuntime } from "../runtime.ts";
import { noteOutsidePools } from "../source-pools.ts";

const DAY_MS = 86_400_000;

export function registerPaceCommand(program: Command, runtime: CommandRuntime): void {
  const pace = program.command("pace").description("how much each source sends to each provider");
  pace
    .command("list")
    .description("what is learnt or pinned, by source and provider")
    .action(async () => {
      const found = await runtime.withDatabase(({ db }) => viewPaces(db));
      runtime.print(found, found.length === 0 ? "nothing" : found.map(lineOf).join("\n"));
    });
  const about = (command: Command) =>
    command
      .argument("<source>", "an address of ours, or system where the system chooses it")
      .argument(
        "<provider>",
        "a group of config/domain-groups.json, by its name or a domain of it, or a domain that is in none",
      );
  about(pace.command("show"))
    .description("what is known of one, and what became of its messages in the last day, five minutes a line")
    .action((source: string, provider: string) => show(runtime, { source, provider }));
  about(pace.command("pin"))
    .option("--rate <messages>", "messages an hour")
    .option("--connections <sessions>", "sessions at once, of all workers together")
    .option("--messages <messages>", "messages of one session")
    .description(
      "fix limits: what is learnt does not change them; at a fixed rate no refusal is waited for longer than 15 seconds",
    )
    .action((source: string, provider: string, options: PinOptions) => pin(runtime, { source, provider }, options));
  const change = (
    command: Command,
    make: (db: Db, key: PaceKey) => Promise<boolean>,
    doneText: (key: PaceKey) => string,
  ) =>
    about(command).action(async (source: string, provider: string) => {
      const key = await runtime.withDatabase(async ({ db }) => {
        const kept = await keyOf(runtime, { source, provider }, (written) => keptPaceKey(db, written));
        return (await make(db, kept)) ? kept : unknown(runtime, kept);
      });
      runtime.print(key, doneText(key));
    });
  change(
    pace.command("unpin").description("let what is learnt go again"),
    unpinLimits,
    ({ source, provider }) => `${source} at ${provider} goes by what is learnt`,
  );
  change(
    pace.command("reset").description("forget what was learnt, and let what waits for it go; what is pinned stays so"),
    forgetLearnt,
    ({ source, provider }) => `what was learnt of ${provider} from ${source} is forgotten`,
  );
}

async function show(runtime: CommandRuntime, written: PaceKey): Promise<void> {
  const since = new Date(Date.now() - DAY_MS);
  const found = await runtime.withDatabase(async ({ db }) => {
    const key = await keyOf(runtime, written, (given) => keptPaceKey(db, given));
    return (await viewPace(db, key, since)) ?? unknown(runtime, key);
  });
  const counts = found.counts.map(({ at, allowed, tried, delivered, deferred }) =>
    [
      at.toISOString(),
      allowed === null ? "no limit" : `allowed ${Math.round(allowed)} an hour`,
      `tried ${tried}`,
      `delivered ${delivered}`,
      `deferred ${deferred}`,
    ].join("\t"),
  );
  const plan = found.warmUp === null ? [] : [planOf(found.warmUp)];
  runtime.print(found, [lineOf(found), ...plan, ...counts].join("\n"));
}

/** The key that is meant; a word on standard error where it is another than was written. */
async function keyOf(
  runtime: CommandRuntime,
  written: PaceKey,
  find: (written: PaceKey) => Result<PaceKey, KeyRefusal> | Promise<Result<PaceKey, KeyRefusal>>,
): Promise<PaceKey> {
  const found = await find(written);
  if (!found.ok) {
    return runtime.misused(
      found.error === "no-source"
        ? `${written.source} is no address`
        : `${written.provider} is neither a group of config/domain-groups.json nor a domain`,
    );
  }
  const { provider } = found.value;
  if (provider !== written.provider) runtime.note(`${written.provider} counts as ${provider}`);
  return found.value;
}

function planOf({ day, planned, sent, pausedUntil }: ProviderProgress): string {
  const pause = pausedUntil === null ? "" : `, paused until ${pausedUntil.toISOString()}`;
  return `sends by a plan: day ${day}, ${sent} of ${planned} sent${pause} (palomar warm-up show)`;
}

interface PinOptions {
  readonly rate?: string;
  readonly connections?: string;
  readonly messages?: string;
}

async function pin(
  runtime: CommandRuntime,
  written: PaceKey,
  { rate, connections, messages }: PinOptions,
): Promise<void> {
  const limits: Partial<PacePins> = {
    ...(rate === undefined ? {} : { ratePerHour: Number(rate) }),
    ...(connections === undefined ? {} : { connections: Number(connections) }),
    ...(messages === undefined ? {} : { messagesPerConnection: Number(messages) }),
  };
  const key = await keyOf(runtime, written, paceKeyOf);
  const pinned = await runtime.withDatabase(({ db }) => pinLimits(db, key, limits, "command line"));
  if (!pinned.ok) return runtime.misused("give --rate, --connections or --messages, each a whole number from 1 on");
  noteOutsidePools(runtime, key.source);
  runtime.print({ ...key, pins: pinned.value }, `${key.source} at ${key.provider} is pinned`);
}

function unknown(runtime: CommandRuntime, { source, provider }: PaceKey): never {
  return runtime.refuse(`nothing is known of ${source} at ${provider}`);
}

function lineOf({
  source,
  provider,
  ratePerHour,
  connections,
  messagesPerConnection,
  pinnedBy,
  waitSeconds,
}: PaceView): string {
  const limits = [
    ratePerHour === null ? "no rate" : `${Math.round(ratePerHour)} an hour`,
    connections === null ? undefined : counted(connections, "session"),
    messagesPerConnection === null ? undefined : `${counted(messagesPerConnection, "message")} a session`,
    waitSeconds > 0 ? `waits ${waitSeconds} s` : undefined,
    pinnedBy === null ? undefined : `pinned by ${pinnedBy}`,
  ];
  return [source, provider, limits.filter((limit) => limit !== undefined).join(", ")].join("\t");
}
