import { userInfo } from "node:os";
import type { Command } from "commander";
import { validateAddress } from "../../core/mail/address.ts";
import { DETECTOR_ACTIONS, DETECTORS } from "../../core/mail/guard/behaviour.ts";
import { LIMIT_SCOPES, OVER_LIMIT, readLimitSubject, type SendingLimit } from "../../core/mail/guard/sending-limits.ts";
import { sentence } from "../../core/sentences.ts";
import { sendGuardNotice } from "../../operations/mail/guard-notice.ts";
import { endHeldContent } from "../../operations/mail/held-content.ts";
import { holdInstance, releaseInstance } from "../../operations/mail/instance-hold.ts";
import { readSendingOverview, type SendingOverview, type ShownLimit } from "../../operations/mail/sending-overview.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { listHeldContent } from "../../store/mail/guard/content-verdicts.ts";
import {
  type GuardSettings,
  type HeldSends,
  readInstanceGuard,
  setGuardSettings,
} from "../../store/mail/guard/holds.ts";
import { removeSendingLimit, setRamp, setSendingLimit } from "../../store/mail/guard/sending-limits.ts";
import { releaseWaiting } from "../../store/mail/guard/waiting-recipients.ts";
import { gather } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";
import { withInstance } from "../with-instance.ts";
import { readSwitch } from "./instance.ts";

/** `palomar instance limits|limit|ramp|hold|release|guard …`: how much an instance may send, and whether anything leaves. */
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
  registerHold(instance, runtime);
  registerGuard(instance, runtime);
  registerHeldContent(instance, runtime);
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
      return change(runtime, name, async (db, id) => {
        const isSet = await setSendingLimit(db, id, { ...of, perHour, perDay, over });
        if (!isSet) runtime.refuse(`${name} has no campaign ${of.subject}`);
      });
    });
}

function registerHold(instance: Command, runtime: CommandRuntime): void {
  const turn = (verb: "hold" | "release", name: string, reason: string) =>
    withInstance(runtime, name, async ({ db }, { id }) => {
      const change = { ...byHand(reason), instance: { id, name } };
      const isChanged = await (verb === "hold" ? holdInstance(db, change) : releaseInstance(db, change));
      if (!isChanged) runtime.refuse(verb === "hold" ? `${name} is held already` : `${name} is not held`);
      const kind = verb === "hold" ? "held" : "released";
      const told = await sendGuardNotice(db, runtime.config.notices, { ...change, kind }).catch((error: Error) => {
        runtime.note(`nobody was written to: ${error.message}`);
        return [];
      });
      if (told.length > 0) runtime.note(`written to ${told.join(", ")}`);
      runtime.print({ name, held: verb === "hold", reason }, `${name} ${verb === "hold" ? "is held" : "goes on"}`);
    });
  instance
    .command("hold")
    .argument("<name>")
    .requiredOption("--reason <reason>", "told to its owner, and kept in the audit log")
    .description("hold an instance: nothing of it leaves, its mail stays in the queue")
    .action((name: string, { reason }: { readonly reason: string }) => turn("hold", name, reason));
  instance
    .command("release")
    .argument("<name>")
    .requiredOption("--reason <reason>", "kept in the audit log")
    .description("let a held instance go on; what it did before speaks against it no longer")
    .action((name: string, { reason }: { readonly reason: string }) => turn("release", name, reason));
}

function registerHeldContent(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("held")
    .argument("<name>")
    .argument("[eeid]", "the batch to let go or to take back")
    .option("--release <reason>", "let it leave")
    .option("--discard <reason>", "take it back for good")
    .description("show batches that are held for their content, or decide on one")
    .action(async (name: string, eeid: string | undefined, { release, discard }: HeldOptions) => {
      const reason = release ?? discard;
      if ((reason === undefined) !== (eeid === undefined) || (release !== undefined && discard !== undefined)) {
        runtime.misused("give a batch with --release or --discard, or neither");
      }
      if (eeid !== undefined && !/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(eeid))
        runtime.misused(`${eeid} is no batch`);
      await withInstance(runtime, name, async ({ db }, { id }) => {
        if (eeid === undefined) {
          const held = await listHeldContent(db, id, 1_000);
          const lines = held.map(({ at, score, ...one }) =>
            [one.eeid, at.toISOString(), score ?? "not scanned"].join("\t"),
          );
          return runtime.print(held, lines.join("\n"));
        }
        const end = release === undefined ? "discard" : "release";
        const change = { ...byHand(reason!), instance: { id, name } };
        if (!(await endHeldContent(db, eeid, end, change))) runtime.refuse(`${eeid} is not held`);
        return runtime.print(
          { name, eeid, [end]: reason },
          `${eeid} ${end === "release" ? "leaves" : "is taken back"}`,
        );
      });
    });
}

interface HeldOptions {
  readonly release?: string;
  readonly discard?: string;
}

/** Who changes something by the command line, and why. */
function byHand(reason: string) {
  return {
    reason: sentence("guard-by-hand", { reason }),
    by: `command line (${userInfo().username})`,
    address: "",
    audited: true,
    now: new Date(),
  };
}

interface GuardOptions {
  readonly heldSends?: string;
  readonly notify?: readonly string[];
  readonly detector: readonly string[];
}

function registerGuard(instance: Command, runtime: CommandRuntime): void {
  instance
    .command("guard")
    .argument("<name>")
    .option("--held-sends <accept|refuse>", "what becomes of sends by API while it is held")
    .option("--notify <address...>", "addresses that are written to when it is held; none: `none`")
    .option("--detector <name=action>", `${DETECTORS.join(", ")}: hold, tell, off or default (repeatable)`, gather, [])
    .description("show or change how an instance is guarded (config/guard.json has what goes for all)")
    .action(async (name: string, options: GuardOptions) => {
      const guard = await withInstance(runtime, name, async ({ db }, { id }) => {
        const { detectors } = await readInstanceGuard(db, id);
        const changes = readGuardOptions(runtime, options, detectors);
        if (Object.keys(changes).length > 0) await setGuardSettings(db, id, changes);
        return readInstanceGuard(db, id);
      });
      const { hold, heldSends: held_sends, notify, detectors } = guard;
      const held = hold && { since: hold.since.toISOString(), by: hold.by, reason: hold.reason.message };
      const lines = [
        ...(held ? [`held\t${held.since}\t${held.by}\t${held.reason}`] : []),
        `held-sends\t${held_sends}`,
        ...notify.map((address) => `notify\t${address}`),
        ...Object.entries(detectors).map(([detector, action]) => `detector\t${detector}\t${action}`),
      ];
      runtime.print({ name, held, held_sends, notify, detectors }, lines.join("\n"));
    });
}

function readGuardOptions(
  runtime: CommandRuntime,
  { heldSends, notify, detector: given }: GuardOptions,
  known: GuardSettings["detectors"],
): Partial<GuardSettings> {
  const addresses = notify?.filter((text) => text !== "none");
  const wrong = addresses?.find((text) => !validateAddress(text, { allowSmtputf8: true }).ok);
  if (wrong !== undefined) runtime.misused(`--notify ${wrong} is no address`);
  if (heldSends !== undefined && heldSends !== "accept" && heldSends !== "refuse") {
    runtime.misused("--held-sends is accept or refuse");
  }
  const detectors = { ...known };
  for (const text of given) {
    const [name, action] = text.split("=");
    const detector = DETECTORS.find((one) => one === name) ?? runtime.misused(`--detector ${text}: unknown detector`);
    if (action === "default") delete detectors[detector];
    else {
      detectors[detector] =
        DETECTOR_ACTIONS.find((one) => one === action) ?? runtime.misused(`--detector ${text}: unknown action`);
    }
  }
  return {
    ...(heldSends === undefined ? {} : { heldSends: heldSends as HeldSends }),
    ...(addresses === undefined ? {} : { notify: addresses }),
    ...(given.length === 0 ? {} : { detectors }),
  };
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
  const waiting =
    overview.waiting === 0 ? [] : [`waiting\t${overview.waiting}\tthe first until ${overview.goes_on_at}`];
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
