import type pg from "pg";
import { watchMachines } from "../operations/mail/machine-watch.ts";
import type { Config } from "../platform/config/config.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { type Db, openDb, openListenConnection } from "../platform/postgres/db.ts";
import { StatementsUnderWay } from "../platform/postgres/statements-under-way.ts";
import type { ServiceName } from "../platform/service.ts";

/** A service's way to the database, or that of one of its threads. */
export interface ServiceDatabase {
  readonly db: Db;
  /** A connection beside the pool, and past a pooler. */
  openConnection(): Promise<pg.Client>;
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
  const db = openDb(url, { ...options, pooled, byIndex, ...(statements && { statements }) });
  const openConnection = () => openListenConnection(listenDatabaseUrl ?? url, options.name);
  const watch = statements && watchMachines({ db, statements, openConnection, observe });
  const stop = async () => {
    await Promise.all([watch?.stop(), db.destroy()]);
  };
  return { db, openConnection, stop };
}
