import { lookForMachines } from "../operations/mail/machine-watch.ts";
import type { Config } from "../platform/config/config.ts";
import { type Db, openListenConnection } from "../platform/postgres/db.ts";
import { listAwayInstances } from "../store/mail/machines.ts";

/**
 * Looks which machines of a Citus do not answer, so that a command does without their instances.
 * @returns what to say of them; undefined where all are there, or there is one PostgreSQL
 */
export async function describeMissingMachines(
  db: Db,
  { databaseUrl, listenDatabaseUrl }: Config,
): Promise<string | undefined> {
  const url = listenDatabaseUrl ?? databaseUrl;
  // The embedded database is no Citus.
  if (url === null) return undefined;
  const { machines, away } = await lookForMachines(db, () => openListenConnection(url, "command"));
  if (away.length === 0) return undefined;
  const names = await listAwayInstances(db);
  const waiting = names.length > 0 ? `: its instances wait: ${names.join(", ")}` : "";
  return `${away.length} of ${machines.length} machines ${away.length === 1 ? "is" : "are"} away${waiting}`;
}
