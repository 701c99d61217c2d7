import { userInfo } from "node:os";
import type { Command } from "commander";
import {
  changeWarmUp,
  startWarmUp,
  viewWarmUp,
  viewWarmUps,
  type WarmUpVerb,
  type WarmUpView,
} from "../../operations/mail/warm-ups.ts";
import { warmUpPlan } from "../../platform/config/warm-up-policy.ts";
import type { CommandRuntime } from "../runtime.ts";
import { noteOutsidePools } from "../source-pools.ts";

const SOURCE = ["<source>", "an address of ours, or system where the system chooses it"] as const;

/** `palomar warm-up …`: source addresses that are new, and send by a plan. */
export function registerWarmUpCommand(program: Command, runtime: CommandRuntime): void {
  const warmUp = program.command("warm-up").description("source addresses that are new, and send by a plan");
  warmUp
    .command("list")
    .description("all that send by a plan, or did")
    .action(async () => {
      const found = await runtime.withDatabase(({ db }) => viewWarmUps(db));
      runtime.print(found, found.length === 0 ? "nothing" : found.flatMap(linesOf).join("\n"));
    });
  warmUp
    .command("start")
    .argument(...SOURCE)
    .option("--day <day>", "the day of the plan that it begins with", "1")
    .description("have an address send by the plan of config/warm-up.json from now on")
    .action((source: string, { day }: { readonly day: string }) => start(runtime, source, Number(day)));
  warmUp
    .command("show")
    .argument(...SOURCE)
    .description("what is planned and was sent, a day of a provider a line")
    .action(async (source: string) => {
      const found = await runtime.withDatabase(({ db }) => viewWarmUp(db, source));
      if (found === undefined) return runtime.refuse(`${source} sends by no plan`);
      const days = found.courses.flatMap(({ provider, days }) =>
        days.map(({ at, day, planned, sent, deferred, complained }) =>
          [
            provider,
            at.toISOString(),
            `day ${day}`,
            `planned ${planned}`,
            ...(sent === null ? [] : [`sent ${sent}`, `deferred ${deferred}`, `complaints ${complained}`]),
          ].join("\t"),
        ),
      );
      runtime.print(found, [...linesOf(found), ...days].join("\n"));
    });
  const change = (verb: WarmUpVerb, description: string, done: string, missing: string) =>
    warmUp
      .command(verb)
      .argument(...SOURCE)
      .description(description)
      .action(async (source: string) => {
        const isChanged = await runtime.withDatabase(({ db }) => changeWarmUp(db, orderOf(source), verb));
        if (!isChanged) runtime.refuse(`${source} ${missing}`);
        runtime.print({ source, state: verb }, `${source} ${done}`);
      });
  change("pause", "send nothing from an address until it is resumed", "sends nothing for now", "follows no plan now");
  change("resume", "let an address go on where it was paused", "goes on with its plan", "is not paused");
  change("stop", "end the plan: the address sends without one", "sends without a plan", "follows no plan");
}

async function start(runtime: CommandRuntime, source: string, day: number): Promise<void> {
  const started = await runtime.withDatabase(({ db }) => startWarmUp(db, orderOf(source), { plan: warmUpPlan, day }));
  if (!started.ok) {
    if (started.error === "warm-up-runs") runtime.refuse(`${source} sends by a plan already`);
    runtime.misused(started.error === "no-source" ? `${source} is no address` : `--day ${day} is no day of the plan`);
  }
  noteOutsidePools(runtime, source);
  runtime.print({ source, day }, `${source} sends by the plan from day ${day} on`);
}

function orderOf(source: string) {
  return { source, by: `command line (${userInfo().username})`, audited: true };
}

function linesOf({ source, state, day, days, endsAt, changedBy, providers }: WarmUpView): string[] {
  const by = changedBy === null ? "" : ` by ${changedBy}`;
  const until = state === "running" ? `day ${Math.min(day, days)} of ${days}, until ${endsAt.toISOString()}` : "";
  return [
    [source, `${state}${by}`, until].filter((part) => part !== "").join("\t"),
    ...(state === "running" || state === "paused" ? providers : []).map((one) =>
      [
        source,
        one.provider,
        `day ${one.day}`,
        `sent ${one.sent} of ${one.planned}`,
        `deferred ${one.deferred}`,
        `complaints ${one.complained}`,
        ...(one.pausedFor === null ? [] : [`waits until ${one.pausedUntil!.toISOString()} for ${one.pausedFor}`]),
      ].join("\t"),
    ),
  ];
}
