import { readFileSync } from "node:fs";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";

/** The server that this run makes its databases on. */
export interface TestServer {
  /** Of one database on it, as somebody who may make and drop others. */
  readonly url: string;
  /** The same on each machine that a Citus coordinator spreads its tables over; empty: it is one PostgreSQL. */
  readonly workers: readonly string[];
  /** Its files are in memory: to copy them costs half of what it does to write all pages of a clone to the log first. */
  readonly inMemory?: boolean;
}

export function withDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}

/**
 * Looks at the server that `PALOMAR_TEST_DATABASE_URL` names. Where its database is a coordinator of Citus with workers,
 * the databases of the tests are spread over them as well.
 */
export async function lookAtServer(url: string): Promise<TestServer> {
  const db = openDb(url, { connections: 1, name: "test set-up" });
  try {
    const { rows } = await db.raw("select to_regclass('pg_dist_node') is not null as is_citus");
    if (!rows[0].is_citus) return { url, workers: [] };
    const nodes = await db.raw("select nodename, nodeport from pg_dist_node where groupid <> 0 and isactive");
    return { url, workers: nodes.rows.map((node: Node) => atNode(url, node)) };
  } finally {
    await db.destroy();
  }
}

type Node = { readonly nodename: string; readonly nodeport: number };

function atNode(url: string, { nodename, nodeport }: Node): string {
  const changed = new URL(url);
  changed.hostname = nodename;
  changed.port = String(nodeport);
  return changed.href;
}

/**
 * Makes a migrated database to clone, on Citus a distributed one: a clone of it under one name on every machine is
 * a cluster of its own, since Citus looks for its workers' tables in the database that has the coordinator's name.
 */
export async function makeTemplate(server: TestServer, name: string): Promise<void> {
  await makeDatabase(server, name, "template0");
  await joinWorkers(server, name);
  await withDb(withDatabase(server.url, name), async (db) => {
    await migrate(db);
    if (server.workers.length > 0) await spreadTables(db);
  });
  // Nobody may be connected to what is cloned: what Citus leaves running comes back with the next connection only.
  await onEveryMachine(server, async (db) => {
    await db.raw("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ?", [name]);
  });
}

/** Makes a cluster of the databases of one name, where there are several machines. */
export async function joinWorkers({ url, workers }: TestServer, name: string): Promise<void> {
  if (workers.length === 0) return;
  for (const worker of workers) await withDb(withDatabase(worker, name), (db) => db.raw("create extension citus"));
  await withDb(withDatabase(url, name), async (db) => {
    await db.raw("create extension citus");
    const { hostname, port } = new URL(url);
    await db.raw("select citus_set_coordinator_host(?, ?)", [hostname, Number(port || 5432)]);
    for (const worker of workers) {
      const { hostname: host, port: workerPort } = new URL(worker);
      await db.raw("select citus_add_node(?, ?)", [host, Number(workerPort || 5432)]);
    }
  });
}

/** Does what an operator does to spread a migrated deployment. */
export async function spreadTables(db: Db): Promise<void> {
  await db.raw(readFileSync("deploy/citus.sql", "utf8"));
}

/** @param template of another name than `template0` is a template of `makeTemplate` */
export async function makeDatabase(server: TestServer, name: string, template: string): Promise<void> {
  const strategy = server.inMemory ? "strategy file_copy" : "";
  await onEveryMachine(server, (db) => db.raw(`create database ${name} template ${template} ${strategy}`));
}

export async function dropDatabase({ url, workers }: TestServer, name: string): Promise<void> {
  const drop = async (db: Db) => {
    await db.raw(`drop database if exists ${name} with (force)`);
  };
  // First where Citus has a process for it that connects to the other machines now and then: none could drop it meanwhile.
  await withDb(url, drop);
  await Promise.all(workers.map((worker) => withDb(worker, drop)));
}

async function onEveryMachine(server: TestServer, use: (db: Db) => Promise<unknown>): Promise<void> {
  await Promise.all([server.url, ...server.workers].map((url) => withDb(url, use)));
}

async function withDb(url: string, use: (db: Db) => Promise<unknown>): Promise<void> {
  const db = openDb(url, { connections: 1, name: "test set-up" });
  try {
    await use(db);
  } finally {
    await db.destroy();
  }
}
