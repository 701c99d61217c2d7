import type { Command } from "commander";
import { LIMIT_SCOPES, OVER_LIMIT, readLimitSubject, type SendingLimit } from "../../core/mail/guard/sending-limits.ts";
import { readSendingOverview, type SendingOverview, type ShownLimit } from "../../operations/mail/sending-overview.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { releaseWaiting, removeSendingLimit, setRamp, setSendingLimit } from "../../store/mail/guard/sending-limits.ts";
import type { CommandRuntime } from "../runtime.ts";
import { readSwitch, withInstance } from "./instance.ts";

/** `palomar instance limits|limit|ramp …`: how much an instance may send. */
export function registerInstanceGuardCommand(program: Command, runtime: CommandRuntime): void {
  const instance = program.commands.find((command) => command.name() === "instance") ?? program.command("instance");
  instance
    .command("limits")
    .argument("<name>")
    .option("--release-waiting", "let go at once what waits for a window", false)
    .description("show how much an instance may send, and has sent in this hour and day (UTC)")
    .action(async (name: string, { releaseWaiting: release }: { readonly releaseWaiting: boolean }) => {
      const overview = await withInstance(runtime, name, async ({ db }, { id }) => {
        if (release) await releaseWaiting(db, id);
        return readSendingOverview(db, id, new Date());
      });
      printOverview(runtime, name, overview);
    });
  registerLimit(instance, runtime);
  instance
    .command("ramp")
    .argument("<name>")
    .argument("<on|off>")
    .description("begin the daily limits of a new instance now (config/sending-limits.json), or end them")
    .action((name: string, value: string) => {
      const from = readSwitch(runtime, value) ? new Date() : null;
      return change(runtime, name, (db, id) => setRamp(db, id, from));
    });
}

interface LimitOptions {
  readonly hour?: string;
  readonly day?: string;
  readonly over: string;
  readonly remove: boolean;
}

function registerLimit(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("limit")
    .argument("<name>")
    .argument(`<${LIMIT_SCOPES.join("|")}>`, "what the limit is of")
    .argument("[subject]", "the campaign's numid, or the sender's address; each of them unless given")
    .option("--hour <recipients>", "within an hour of the clock (UTC)")
    .option("--day <recipients>", "within a day (UTC)")
    .option("--over <refuse|wait>", "what becomes of what is above", "refuse")
    .option("--remove", "remove the limit", false)
    .description("limit how much an instance may send")
    .action((name: string, scope: string, subject: string | undefined, options: LimitOptions) => {
      const of = readSubject(runtime, scope, subject);
      if (options.remove) {
        return change(runtime, name, async (db, id) => {
          if (!(await removeSendingLimit(db, id, of))) runtime.refuse(`${name} has no such limit`);
        });
      }
      const over = OVER_LIMIT.find((one) => one === options.over) ?? runtime.misused("--over is refuse or wait");
      const perHour = readBound(runtime, options.hour);
      const perDay = readBound(runtime, options.day);
      if (perHour === null && perDay === null) runtime.misused("give --hour, --day, or --remove");
      return change(runtime, name, (db, id) => setSendingLimit(db, id, { ...of, perHour, perDay, over }));
    });
}

async function change(
  runtime: CommandRuntime,
  name: string,
  act: (db: Db, id: number) => Promise<void>,
): Promise<void> {
  const overview = await withInstance(runtime, name, async ({ db }, { id }) => {
    await act(db, id);
    return readSendingOverview(db, id, new Date());
  });
  printOverview(runtime, name, overview);
}

function readSubject(runtime: CommandRuntime, given: string, subject = ""): Pick<SendingLimit, "scope" | "subject"> {
  const scope = LIMIT_SCOPES.find((one) => one === given) ?? runtime.misused(`${given} is none of ${LIMIT_SCOPES}`);
  const read = readLimitSubject(scope, subject);
  return read === undefined ? runtime.misused(`${subject} is no ${scope}`) : { scope, subject: read };
}

function readBound(runtime: CommandRuntime, given: string | undefined): number | null {
  if (given === undefined) return null;
  return /^\d{1,12}$/.test(given) ? Number(given) : runtime.misused(`${given} is no number of recipients`);
}

function printOverview(runtime: CommandRuntime, name: string, overview: SendingOverview): void {
  const waiting = overview.waiting === 0 ? [] : [`waiting\t${overview.waiting}\tuntil ${overview.goes_on_at}`];
  const lines = [...overview.limits.map(describeLimit), ...waiting];
  runtime.print({ name, ...overview }, lines.length === 0 ? "no limits" : lines.join("\n"));
}

function describeLimit(limit: ShownLimit): string {
  const whose = limit.subject === "" ? limit.scope : `${limit.scope} ${limit.subject}`;
  const bound = (allowed: number | null, used: number | null, unit: string) =>
    allowed === null ? [] : [`${used === null ? "" : `${used} of `}${allowed} an ${unit}`.replace("an day", "a day")];
  return [
    whose,
    ...bound(limit.per_hour, limit.used_hour, "hour"),
    ...bound(limit.per_day, limit.used_day, "day"),
    limit.over,
    ...(limit.default ? ["default"] : []),
  ].join("\t");
}
