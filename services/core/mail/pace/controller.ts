/**
 * How much a source may send to a provider, learnt from what the provider says: additive increase, multiplicative
 * decrease. Pure: time comes as a parameter, memory goes in and out as data.
 */
import type { PaceSignal } from "./replies.ts";

/** What is known of a source at a provider. Times are milliseconds of one clock, the database's. */
export interface PaceMemory {
  /** Messages an hour; null: no limit was found. */
  readonly ratePerHour: number | null;
  /** The rate that was refused last. */
  readonly refusedPerHour: number | null;
  /** The rate that it goes back to after a refusal. */
  readonly goodPerHour: number | null;
  /** The highest rate that went well for long; null: none did yet. */
  readonly heldPerHour: number | null;
  /** Refusals since it last went well for long. */
  readonly misses: number;
  /** Sessions at once; null: no limit was found. */
  readonly connections: number | null;
  /** Null: no limit was found. */
  readonly messagesPerConnection: number | null;
  /** Nothing is sent before. */
  readonly waitsUntilMs: number;
  /** When each was last reduced, and last raised; 0: never. */
  readonly rateReducedAtMs: number;
  readonly rateRaisedAtMs: number;
  readonly connectionsChangedAtMs: number;
  readonly messagesChangedAtMs: number;
  /** When sessions were last reduced, and how often in turn one more was one too many. */
  readonly connectionsReducedAtMs: number;
  readonly connectionMisses: number;
  /** What the last refusal had it wait for. */
  readonly waitedMs: number;
  /** Steps above what was refused that went well, one after another: they grow. */
  readonly probes: number;
}

/** What happened since the last time, on all workers or on one. */
export interface PaceEvidence {
  readonly nowMs: number;
  /** Messages an hour that were really tried, over the last step or so, where a limit goes already. */
  readonly triedPerHour: number;
  /** Messages an hour that the provider took over the last minute, of the worker that reports. */
  readonly acceptedPerHour: number;
  /** The same of a worker that sent without a limit up to now, beside those who found one; else 0. */
  readonly joiningPerHour: number;
  /** Sessions that were open, together. */
  readonly sessions: number;
  readonly signals: readonly (PaceSignal & {
    /** Messages that had gone over the session, this one included. */
    readonly messages: number;
    /** How long before `nowMs` the attempt began that it replies to. */
    readonly ageMs: number;
  })[];
}

/** Nothing learnt. */
export const UNTAUGHT: PaceMemory = {
  ratePerHour: null,
  refusedPerHour: null,
  goodPerHour: null,
  heldPerHour: null,
  misses: 0,
  connections: null,
  messagesPerConnection: null,
  waitsUntilMs: 0,
  rateReducedAtMs: 0,
  rateRaisedAtMs: 0,
  connectionsChangedAtMs: 0,
  messagesChangedAtMs: 0,
  connectionsReducedAtMs: 0,
  connectionMisses: 0,
  waitedMs: 0,
  probes: 0,
};

/** Workers that sent beside the one that was refused first are counted in for so long after. */
const JOIN_MS = 30_000;
/** Wait after a refusal that does not say how long. */
const WAIT_MS = 15_000;
/** The same where more was tried than is known to go well: sending goes on soon. */
const PROBE_WAIT_MS = 5_000;
/** Replies to what had begun by so long after the first tell nothing new: it was on its way, or leave for it was. */
const SETTLE_MS = 10_000;
/** A rate that went well for so long is raised. */
const STEP_MS = 15_000;
/** A step back up to where it goes well, as a part of what was refused, and how long each lasts. */
const RETURN_STEP = 0.4;
const RETURN_MS = 8_000;
/** A rate that goes well is relied on after so long, and more is asked for: the longest of this and the next two. */
const HOLD_MS = 390_000;
/** A multiple of the wait that the last refusal brought. */
const HOLD_WAITS = 25;
/** The time of so many messages at that rate: each refusal puts some off. */
const HOLD_MESSAGES = 400;
/** The same where nothing is relied on yet: the longer of the two. */
const FIRST_HOLD_MS = 45_000;
const FIRST_HOLD_WAITS = 3;
/** The first steps above, doubled with each that goes well, and the largest. */
const PROBE = 0.02;
const MOST_PROBE = 0.25;
/** What is relied on is as good as what was refused from this part of it on. */
const NEAR = 0.93;
/** A limit that lets so much more pass is another one; and what was refused once may be a little too low the next time. */
const ELSEWHERE = 1.5;
const DRIFT = 1.04;
/** A refusal is dear that has it wait for longer: then what was refused is tried again more carefully. */
const DEAR_MS = 30_000;
const DEAR_DRIFT = 1.005;
const MOST_DEAR_PROBE = 0.05;
/** After so many refusals it goes back to what is relied on. */
const BETWEEN = 3;
/** What went well and then does not is relied on no more: it goes back to this part of it first. */
const RETREAT = 0.9;
/** Who sends less than this part of what it may does not learn whether more would go well. */
const USED = 0.7;
const JUST_MS = 60_000;
/** One more session is tried after so long. */
const SESSION_STEP_MS = 300_000;
/** Where one more was one too many that time doubles, up to so many times it. */
const MOST_SESSION_STEPS = 6;
/** A tenth more messages of a session are tried after so long. */
const MESSAGES_STEP_MS = 3_600_000;
/** Limits that nobody insisted on for so long are forgotten. */
export const FORGET_MS = 7 * 86_400_000;
const HOUR_MS = 3_600_000;
/** The lowest limit: a message every ten minutes asks often enough. */
const LEAST_PER_HOUR = 6;
/** A first refusal halves this rate, or what was accepted where that is more. */
const FIRST_LEAST_PER_HOUR = 120;
/** Where so many steps went well, the last of them large, `PROVEN` of the rate is relied on. */
const PROVEN_PROBES = 6;
/** Part of a rate that is relied on after `PROVEN_PROBES`: a provider that saves up leave hides a few refusals. */
const PROVEN = 0.5;

/** What is known after the evidence. */
export function learn(memory: PaceMemory, evidence: PaceEvidence): PaceMemory {
  let next = join(memory, evidence);
  for (const signal of evidence.signals) next = heed(next, signal, evidence);
  return raise(forget(next, evidence.nowMs), evidence);
}

/** Whether nothing is known any more. */
export function isUntaught(
  { ratePerHour, connections, messagesPerConnection, waitsUntilMs }: PaceMemory,
  nowMs: number,
): boolean {
  return ratePerHour === null && connections === null && messagesPerConnection === null && waitsUntilMs <= nowMs;
}

function heed(memory: PaceMemory, signal: PaceEvidence["signals"][number], evidence: PaceEvidence): PaceMemory {
  const { nowMs } = evidence;
  const isOnTrial = signal.concerns === "rate" && memory.probes > 0;
  const ownWaitMs = isOnTrial ? PROBE_WAIT_MS : WAIT_MS;
  const waitMs = signal.waitSeconds === undefined ? ownWaitMs : signal.waitSeconds * 1000;
  const waiting = { ...memory, waitsUntilMs: Math.max(memory.waitsUntilMs, nowMs + waitMs) };
  switch (signal.concerns) {
    case "rate":
      return halve(waiting, signal.ageMs, evidence);
    case "connections": {
      if (nowMs - signal.ageMs - memory.connectionsReducedAtMs < SETTLE_MS && memory.connections !== null)
        return waiting;
      const had = Math.min(memory.connections ?? Number.POSITIVE_INFINITY, Math.max(2, evidence.sessions));
      // A limit that was raised just before was one too high, no more.
      const isOneTooMany = memory.connections !== null && nowMs - memory.connectionsChangedAtMs < JUST_MS;
      const connections = Math.max(1, isOneTooMany ? memory.connections - 1 : Math.floor(had / 2));
      const connectionMisses = isOneTooMany ? memory.connectionMisses + 1 : 0;
      return {
        ...{ ...waiting, connections, connectionMisses },
        ...{ connectionsChangedAtMs: nowMs, connectionsReducedAtMs: nowMs },
      };
    }
    case "messages-per-connection": {
      // The session is told, and the next one may begin at once: the reply names the limit itself.
      const messagesPerConnection = Math.max(1, signal.messages - 1);
      return { ...memory, messagesPerConnection, messagesChangedAtMs: nowMs };
    }
  }
}

/** What others sent beside was refused as well, and goes on by half. */
function join(memory: PaceMemory, { nowMs, joiningPerHour }: PaceEvidence): PaceMemory {
  const { ratePerHour, refusedPerHour, goodPerHour, misses, rateReducedAtMs } = memory;
  if (ratePerHour === null || refusedPerHour === null || goodPerHour === null) return memory;
  if (joiningPerHour === 0 || misses !== 1 || nowMs - rateReducedAtMs > JOIN_MS) return memory;
  return {
    ...memory,
    ratePerHour: ratePerHour + joiningPerHour / 2,
    refusedPerHour: refusedPerHour + joiningPerHour,
    goodPerHour: goodPerHour + joiningPerHour / 2,
  };
}

function halve(memory: PaceMemory, ageMs: number, evidence: PaceEvidence): PaceMemory {
  const { nowMs } = evidence;
  if (memory.ratePerHour !== null && nowMs - ageMs - memory.rateReducedAtMs < SETTLE_MS) return memory;
  const reached = reachedRate(memory, evidence);
  const refused = lowestRefused(memory, reached, nowMs);
  const target = retreat({ ...memory, heldPerHour: proven(memory, reached) }, refused);
  return {
    ...memory,
    ...target,
    ratePerHour: Math.max(LEAST_PER_HOUR, reached / 2),
    refusedPerHour: refused,
    misses: memory.misses + 1,
    rateReducedAtMs: nowMs,
    rateRaisedAtMs: memory.waitsUntilMs,
    waitedMs: memory.waitsUntilMs - nowMs,
    probes: 0,
  };
}

/** What was really sent: of a limit that is not used up at least half, as the measure is of a short time. */
function reachedRate({ ratePerHour }: PaceMemory, { triedPerHour, acceptedPerHour }: PaceEvidence): number {
  if (ratePerHour === null) return Math.max(FIRST_LEAST_PER_HOUR, acceptedPerHour);
  const isUsed = triedPerHour >= ratePerHour * USED;
  return Math.max(LEAST_PER_HOUR, isUsed ? ratePerHour : Math.max(triedPerHour, ratePerHour / 2));
}

/** What many steps left behind went well, though not for long. */
function proven({ heldPerHour, probes }: PaceMemory, reached: number): number | null {
  return probes < PROVEN_PROBES ? heldPerHour : Math.max(heldPerHour ?? 0, reached * PROVEN);
}

/** What a provider saves up for a source lets it get above what it bears: a lower rate that was refused tells more. */
function lowestRefused({ refusedPerHour: before, waitsUntilMs }: PaceMemory, reached: number, nowMs: number): number {
  const drift = waitsUntilMs - nowMs > DEAR_MS ? DEAR_DRIFT : DRIFT;
  return before === null || reached > before * ELSEWHERE ? reached : Math.min(reached, before * drift);
}

/** Where it goes back to: between what was relied on and what was refused, a few times; then to the former, then below. */
function retreat(
  { heldPerHour, misses }: PaceMemory,
  refused: number,
): Pick<PaceMemory, "goodPerHour" | "heldPerHour"> {
  if (heldPerHour === null) return { heldPerHour, goodPerHour: refused / 2 };
  if (heldPerHour < refused * NEAR && misses < BETWEEN)
    return { heldPerHour, goodPerHour: (heldPerHour + refused) / 2 };
  if (heldPerHour < refused) return { heldPerHour, goodPerHour: heldPerHour };
  return { heldPerHour: null, goodPerHour: Math.max(LEAST_PER_HOUR, refused * RETREAT) };
}

function raise(memory: PaceMemory, evidence: PaceEvidence): PaceMemory {
  return raiseMessages(raiseConnections(raiseRate(memory, evidence), evidence), evidence);
}

function raiseRate(memory: PaceMemory, { nowMs, triedPerHour }: PaceEvidence): PaceMemory {
  const { ratePerHour, goodPerHour, heldPerHour } = memory;
  if (ratePerHour === null || nowMs < memory.waitsUntilMs) return memory;
  const since = Math.max(memory.rateRaisedAtMs, memory.waitsUntilMs);
  const good = goodPerHour ?? ratePerHour;
  const lastsMs = ratePerHour < good ? RETURN_MS : STEP_MS;
  if (nowMs - since < lastsMs || triedPerHour < ratePerHour * USED) return memory;
  const refused = memory.refusedPerHour ?? ratePerHour;
  if (ratePerHour < good) {
    return { ...memory, ratePerHour: Math.min(good, ratePerHour + refused * RETURN_STEP), rateRaisedAtMs: nowMs };
  }
  if (memory.probes === 0 && nowMs - memory.rateReducedAtMs < holdOf(memory, ratePerHour)) return memory;
  const step = stepAfter(memory);
  const held = memory.probes === 0 ? ratePerHour : heldPerHour;
  const probes = memory.probes + 1;
  return {
    ...memory,
    ratePerHour: ratePerHour * (1 + step),
    heldPerHour: held,
    misses: 0,
    probes,
    rateRaisedAtMs: nowMs,
  };
}

/** Steps do not grow before the second: what a provider saves up hides the first ones. */
function stepAfter({ ratePerHour, refusedPerHour, probes, waitedMs }: PaceMemory): number {
  // Far above what was refused nobody knows what there is.
  const isCareful = waitedMs > DEAR_MS && (ratePerHour ?? 0) < (refusedPerHour ?? 0) * ELSEWHERE;
  return Math.min(isCareful ? MOST_DEAR_PROBE : MOST_PROBE, PROBE * 2 ** Math.max(0, probes - 1));
}

/** How long after a refusal it asks for no more. */
function holdOf({ heldPerHour, waitedMs }: PaceMemory, ratePerHour: number): number {
  if (heldPerHour === null) return Math.max(FIRST_HOLD_MS, waitedMs * FIRST_HOLD_WAITS);
  return Math.max(HOLD_MS, (HOLD_MESSAGES * HOUR_MS) / ratePerHour, waitedMs * HOLD_WAITS);
}

function raiseConnections(memory: PaceMemory, { nowMs, sessions }: PaceEvidence): PaceMemory {
  const { connections, connectionsChangedAtMs } = memory;
  const since = Math.max(connectionsChangedAtMs, memory.waitsUntilMs);
  // Where the one before went well, the limit is another one by now.
  const connectionMisses = connectionsChangedAtMs > memory.connectionsReducedAtMs ? 0 : memory.connectionMisses;
  const stepMs = SESSION_STEP_MS * Math.min(MOST_SESSION_STEPS, 2 ** connectionMisses);
  if (connections === null || nowMs - since < stepMs || sessions < connections) return memory;
  return { ...memory, connections: connections + 1, connectionMisses, connectionsChangedAtMs: nowMs };
}

function raiseMessages(memory: PaceMemory, { nowMs, triedPerHour }: PaceEvidence): PaceMemory {
  const { messagesPerConnection: messages } = memory;
  if (messages === null || triedPerHour === 0 || nowMs - memory.messagesChangedAtMs < MESSAGES_STEP_MS) return memory;
  return { ...memory, messagesPerConnection: messages + Math.ceil(messages / 10), messagesChangedAtMs: nowMs };
}

function forget(memory: PaceMemory, nowMs: number): PaceMemory {
  const isOld = (changedAtMs: number) => nowMs - changedAtMs >= FORGET_MS;
  const rate = isOld(memory.rateReducedAtMs)
    ? { ratePerHour: null, refusedPerHour: null, goodPerHour: null, heldPerHour: null }
    : {};
  const connections = isOld(memory.connectionsChangedAtMs) ? { connections: null } : {};
  const messages = isOld(memory.messagesChangedAtMs) ? { messagesPerConnection: null } : {};
  return { ...memory, ...rate, ...connections, ...messages };
}
