import type pg from "pg";
import { withDeadline } from "../../platform/deadline.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { StatementsUnderWay } from "../../platform/postgres/statements-under-way.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import { canBeReached, listMachines, type Machine, setAway } from "../../store/mail/machines.ts";

interface MachineWatchOptions {
  readonly db: Db;
  /** Those of this database. */
  readonly statements: StatementsUnderWay;
  /** A connection beside the pool, whose own may all be waiting. */
  openConnection(): Promise<pg.Client>;
  readonly observe: Observe;
}

const LOOK_MS = 500;
/** A statement that takes this long is a reason to ask whether the machines are there. */
const SLOW_MS = 2_000;
/** Longest wait of what was begun before a machine was known to be away. */
const GIVE_UP_MS = 3_000;
/** Longest wait of what is begun while a machine is away: most of it is about machines that are there. */
const GIVE_UP_LATER_MS = 10_000;
/** Longest wait for a machine to answer. */
const ANSWER_MS = 2_000;
/** Longest wait for the coordinator to name the machines. */
const LIST_MS = 10_000;
/** They are asked again after this, while one is away or statements are slow. */
const AGAIN_MS = 2_000;
/** The same where there are none. */
const RARELY_MS = 60_000;

/**
 * Keeps a machine of a Citus that is dead, or hangs, from holding up the instances of the others: as soon as a statement has
 * failed for a machine, or waits for long, all are asked whether they are there. One that does not answer twice is away: then
 * what waits for long is given up, and what is about its instances refused at once. On one PostgreSQL it finds no machines, and
 * that is all.
 */
export function watchMachines(options: MachineWatchOptions): RepeatedWork {
  const { db, statements, openConnection, observe } = options;
  let away: readonly Machine[] = [];
  let awaySince = 0;
  let areThere = false;
  const note = (now: readonly Machine[]) => {
    const names = now.map(nameOf);
    if (names.join() === away.map(nameOf).join()) return;
    if (away.length === 0) awaySince = performance.now();
    away = now;
    observe({ kind: "machines-away", level: names.length > 0 ? "error" : "info", machines: names });
  };
  const giveUp = () => {
    if (away.length === 0) return;
    statements.giveUp(GIVE_UP_MS, awaySince);
    statements.giveUp(GIVE_UP_LATER_MS);
  };
  return new RepeatedWork({
    take: async () => {
      if (away.length === 0 && !statements.isInTrouble(SLOW_MS)) return LOOK_MS;
      try {
        const found = await lookForMachines(db, openConnection);
        areThere = found.machines.length > 0;
        note(found.away);
      } finally {
        giveUp();
      }
      return areThere ? AGAIN_MS : RARELY_MS;
    },
    failed: (err) => {
      giveUp();
      if (areThere) observe({ kind: "machines-not-asked", level: "warn", err });
      return AGAIN_MS;
    },
  });
}

/** What was found of the machines of a Citus. */
interface FoundMachines {
  readonly machines: readonly Machine[];
  /** Those of them that do not answer. */
  readonly away: readonly Machine[];
}

/**
 * Asks all machines whether they are there, and has statements about instances of others refused from now on. On one PostgreSQL
 * there are none.
 * @param openConnection beside the pool, whose own may all be waiting
 */
export async function lookForMachines(
  db: Db,
  openConnection: MachineWatchOptions["openConnection"],
): Promise<FoundMachines> {
  const client = await openConnection();
  try {
    const machines = await withDeadline(listMachines(client), LIST_MS);
    const away = await silentOf(openConnection, await silentOf(openConnection, machines));
    await withDeadline(setAway(db, client, away), LIST_MS);
    return { machines, away };
  } finally {
    // A server that hangs does not end it either.
    void client.end().catch(() => {});
  }
}

const nameOf = ({ name, port }: Machine) => `${name}:${port}`;

/** Those that do not answer, all asked at the same time. */
async function silentOf(
  openConnection: MachineWatchOptions["openConnection"],
  machines: readonly Machine[],
): Promise<Machine[]> {
  const there = await Promise.all(machines.map((machine) => isThere(openConnection, machine)));
  return machines.filter((_, index) => !there[index]);
}

/** Over a connection of its own: one that had asked before would ask, and wait for, a connection of before. */
async function isThere(openConnection: MachineWatchOptions["openConnection"], machine: Machine): Promise<boolean> {
  const client = await openConnection();
  try {
    return await withDeadline(canBeReached(client, machine, ANSWER_MS), 2 * ANSWER_MS).catch(() => false);
  } finally {
    void client.end().catch(() => {});
  }
}
