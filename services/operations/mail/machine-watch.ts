import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { StatementsUnderWay } from "../../platform/postgres/statements-under-way.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import { canBeReached, listMachines, type Machine, setAway } from "../../store/mail/machines.ts";

export interface MachineWatchOptions {
  readonly db: Db;
  /** Those of this database. */
  readonly statements: StatementsUnderWay;
  /** A connection beside the pool, whose own may all be waiting. */
  openConnection(): Promise<pg.Client>;
  readonly observe: Observe;
}

const LOOK_MS = 500;
/** A statement that takes this long is a reason to ask whether the machines are there, */
const SLOW_MS = 2_000;
/** and while one is not, waiting for longer than this is given up. */
const GIVE_UP_MS = 3_000;
/** So long a machine may take to answer. */
const ANSWER_MS = 2_000;
/** They are asked again after this, while one is away or statements are slow. */
const AGAIN_MS = 2_000;
/** The same where there are none. */
const RARELY_MS = 60_000;

/**
 * Keeps a machine of a Citus that is dead, or hangs, from holding up the instances of the others: as soon as a statement has
 * failed for a machine, or waits for long, all are asked whether they are there. While one is not, what waits for long is given
 * up, and what is about its instances refused at once. On one PostgreSQL it finds no machines, and that is all.
 */
export function watchMachines(options: MachineWatchOptions): RepeatedWork {
  const { statements, observe } = options;
  let known: readonly Machine[] = [];
  return new RepeatedWork({
    take: async () => {
      if (known.length === 0 && !statements.isInTrouble(SLOW_MS)) return LOOK_MS;
      const { machines, away } = await ask(options);
      if (machines.length === 0) return RARELY_MS;
      if (away.length !== known.length) {
        const level = away.length > 0 ? "error" : "info";
        observe({ kind: "machines-away", level, machines: away.map(({ name, port }) => `${name}:${port}`) });
      }
      known = away;
      if (away.length > 0) statements.giveUp(GIVE_UP_MS);
      return AGAIN_MS;
    },
    failed: (err) => {
      observe({ kind: "machines-not-asked", level: "warn", err });
      return AGAIN_MS;
    },
  });
}

/** Asks all machines at once, and notes which are away. */
async function ask({ db, openConnection }: MachineWatchOptions): Promise<Asked> {
  const client = await openConnection();
  try {
    const machines = await listMachines(client);
    const there = await Promise.all(machines.map((machine) => isThere(openConnection, machine)));
    const away = machines.filter((_, index) => !there[index]);
    await setAway(db, client, away);
    return { machines, away };
  } finally {
    await client.end();
  }
}

interface Asked {
  readonly machines: readonly Machine[];
  readonly away: readonly Machine[];
}

/** Over a connection of its own: one that had asked before would ask, and wait for, a connection of before. */
async function isThere(openConnection: MachineWatchOptions["openConnection"], machine: Machine): Promise<boolean> {
  const client = await openConnection();
  const late = new AbortController();
  try {
    const none = sleep(2 * ANSWER_MS, false, { signal: late.signal });
    return await Promise.race([canBeReached(client, machine, ANSWER_MS), none]);
  } finally {
    late.abort();
    await client.end();
  }
}
