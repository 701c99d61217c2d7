import { type Finding, judgeBehaviour } from "../core/mail/guard/behaviour.ts";
import { type GuardNotice, type NoticeSettings, sendGuardNotice } from "../operations/mail/guard-notice.ts";
import { holdInstance } from "../operations/mail/instance-hold.ts";
import type { Clock } from "../platform/clock.ts";
import type { GuardPolicy } from "../platform/config/guard-policy.ts";
import { EachByItself } from "../platform/each-by-itself.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { repeatTasks } from "../platform/repeated-work.ts";
import { isSpread } from "../store/mail/by-instance.ts";
import {
  foldOutcomes,
  listWatched,
  noteTold,
  readBehaviour,
  settlePlaces,
  takeWatch,
  type WatchedInstance,
} from "../store/mail/guard/behaviour.ts";

export interface GuardWatchOptions {
  readonly db: Db;
  readonly clock: Clock;
  readonly policy: GuardPolicy;
  readonly notices: NoticeSettings;
  readonly observe: Observe;
  /** Off: outcomes are counted, and nobody is judged by them. */
  readonly judges: boolean;
}

/** Where a look asks every machine, so many are left out after one that found nobody to watch. */
const LEFT_OUT_WHERE_SPREAD = 5;

/**
 * Looks at what instances do, and holds those that do what they should not, or tells of them. Any number of processes run
 * one; one at a time looks.
 */
export function startGuardWatch(options: GuardWatchOptions): { stop(): Promise<void> } {
  const { db, policy, observe } = options;
  let leftOut = 0;
  const each = new EachByItself<string>((instance, err) =>
    observe({ kind: "guard-failed", level: "error", err, instance }),
  );
  const run = async () => {
    if (leftOut > 0) {
      leftOut -= 1;
      return;
    }
    const isQuiet = !(await watchInstances(options, each));
    if (isQuiet && (await isSpread(db))) leftOut = LEFT_OUT_WHERE_SPREAD;
  };
  return repeatTasks([{ name: "guard", everyMs: policy.everySeconds * 1_000, run }], (_, err) =>
    observe({ kind: "guard-failed", level: "error", err }),
  );
}

/** One look at all of them. @param each by the instance's name @returns whether there was somebody to watch */
export async function watchInstances(options: GuardWatchOptions, each: EachByItself<string>): Promise<boolean> {
  const { db, policy } = options;
  const { complaints, hardBounces, unknownAddresses, rise } = policy;
  // What is done beside this connection takes one more at a time. There are two at least, and nobody else in the process asks
  // for a second one while it has one: whoever waits for it here gets it.
  return db.transaction(async (transaction) => {
    if (!(await takeWatch(transaction))) return false;
    // By itself: who counts outcomes waits for nobody who looks.
    await db.transaction(foldOutcomes);
    if (!options.judges) return false;
    const watched = await listWatched(db, {
      sentInAnHour: rise.leastSent,
      bouncesInADay: Math.min(hardBounces.leastWrong, unknownAddresses.leastWrong),
      complaintsInADay: complaints.leastWrong,
    });
    for (const instance of watched) await each.attempt(instance.name, () => watchInstance(options, instance));
    return watched.length > 0;
  });
}

async function watchInstance(options: GuardWatchOptions, instance: WatchedInstance): Promise<void> {
  const { db, policy } = options;
  const behaviour = await readBehaviour(db, instance, {
    complaints: policy.complaints.windowMinutes,
    hardBounces: policy.hardBounces.windowMinutes,
    unknownAddresses: policy.unknownAddresses.windowMinutes,
    historyDays: policy.rise.historyDays,
  });
  const findings = judgeBehaviour(behaviour, policy, instance.detectors);
  const worst = findings.find(({ action }) => action === "hold");
  if (worst !== undefined) await hold(options, instance, worst);
  else await tellAnew(options, instance, findings);
  // Last: whoever dies before finds the same again.
  await settlePlaces(db, instance.instanceId, behaviour.newPlaces);
}

async function hold(options: GuardWatchOptions, { instanceId, name }: WatchedInstance, found: Finding): Promise<void> {
  const instance = { id: instanceId, name };
  const { reason, detector } = found;
  const change = { instance, reason, by: "guard", address: "", audited: true, now: new Date(options.clock.nowMs()) };
  if (!(await holdInstance(options.db, change))) return;
  options.observe({ kind: "instance-held", level: "warn", instance: name, detector, reason: reason.message });
  await tell(options, { instance, kind: "held", reason });
}

/** Tells what was not told within the last while. */
async function tellAnew(
  options: GuardWatchOptions,
  { instanceId, name, told }: WatchedInstance,
  findings: readonly Finding[],
): Promise<void> {
  const { db, clock, policy, observe } = options;
  const now = clock.nowMs();
  const isNew = ({ detector }: Finding) =>
    detector === "newCountry" || now - Date.parse(told[detector] ?? "1970-01-01") > policy.tellAgainMinutes * 60_000;
  const fresh = findings.filter(isNew);
  if (fresh.length === 0) return;
  const at = new Date(now).toISOString();
  await noteTold(db, instanceId, { ...told, ...Object.fromEntries(fresh.map(({ detector }) => [detector, at])) });
  for (const { detector, reason } of fresh) {
    observe({ kind: "instance-suspicious", level: "warn", instance: name, detector, reason: reason.message });
    await tell(options, { instance: { id: instanceId, name }, kind: "suspicious", reason });
  }
}

/** A notice that cannot be sent does not undo what it is about. */
async function tell({ db, notices, observe }: GuardWatchOptions, notice: GuardNotice): Promise<void> {
  await sendGuardNotice(db, notices, notice).catch((err: unknown) =>
    observe({ kind: "guard-notice-failed", level: "warn", instance: notice.instance.name, err }),
  );
}
