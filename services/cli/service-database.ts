import type pg from "pg";
import { watchMachines } from "../operations/mail/machine-watch.ts";
import type { Config } from "../platform/config/config.ts";
import { inTime } from "../platform/deadline.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { type Db, isRefused, openDb, openListenConnection, SILENT_DATABASE_MS } from "../platform/postgres/db.ts";
import { PoolSockets } from "../platform/postgres/pool-sockets.ts";
import { StatementsUnderWay } from "../platform/postgres/statements-under-way.ts";
import type { ServiceName } from "../platform/service.ts";

/** A service's way to the database, or that of one of its threads. */
export interface ServiceDatabase {
  readonly db: Db;
  /** A connection beside the pool, and past a pooler. */
  openConnection(): Promise<pg.Client>;
  /**
   * To be called before what uses the database is stopped: a pooler whose server is away has whoever asks it wait, for
   * minutes, where the server's own port refuses at once.
   */
  leaveEmptyPooler(): Promise<void>;
  stop(): Promise<void>;
}

/** Opens the database; for a service that has to do with mail its machines are watched, should it have several. */
export function openServiceDatabase(
  { databaseUrl, listenDatabaseUrl }: Config,
  service: ServiceName,
  { observe, ...options }: { name: string; connections: number; patienceMs?: number; observe: Observe },
): ServiceDatabase {
  const url = databaseUrl as string;
  const statements = service.startsWith("dns-") ? undefined : new StatementsUnderWay();
  const pooled = listenDatabaseUrl !== null;
  const byIndex = service === "delivery";
  const sockets = new PoolSockets();
  const db = openDb(url, { ...options, pooled, byIndex, sockets, ...(statements && { statements }) });
  const openConnection = () => openListenConnection(listenDatabaseUrl ?? url, options.name);
  const watch = statements && watchMachines({ db, statements, openConnection, observe });
  let left: Promise<void> | undefined;
  const leaveEmptyPooler = () => {
    left ??= pooled ? isAway(openConnection).then((away) => (away ? sockets.giveUp() : undefined)) : Promise.resolve();
    return left;
  };
  const stop = async () => {
    await leaveEmptyPooler();
    await Promise.all([watch?.stop(), db.destroy()]);
  };
  return { db, openConnection, leaveEmptyPooler, stop };
}

/** Whether nobody is where the server should be. One that is slow, or refuses, is there. */
function isAway(openConnection: () => Promise<pg.Client>): Promise<boolean> {
  const asked = openConnection().then(
    (connection) => connection.end().then(() => false),
    (error) => !isRefused(error),
  );
  return inTime(asked, SILENT_DATABASE_MS, () => false);
}
