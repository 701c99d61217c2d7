import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import type { Logger } from "../observability/logger.ts";
import { acquireProcessLock } from "../process-lock.ts";
import { type Cluster, hasCluster, openCluster, ROLE } from "./embedded-postgres-cluster.ts";
import { EmbeddedPostgresError, errorCode, explainFileError } from "./embedded-postgres-error.ts";
import { ensureServer, findServer, type PostgresServer, stopServer } from "./embedded-postgres-server.ts";

/** This process's use of the embedded PostgreSQL. */
export type EmbeddedPostgres = {
  /** Where the database `palomar` is; it stays the same when the server is restarted. */
  readonly url: string;
  /** Calls `listener` each time the server was lost and runs again: every connection has to be opened anew. */
  onRestart(listener: () => void): void;
  /** Ends the use, and stops the server when nobody else uses it. Connections must be closed before. */
  release(): Promise<void>;
};

export type EmbeddedPostgresOptions = {
  readonly dataDir: string;
  readonly logger: Pick<Logger, "info" | "warn" | "error">;
};

/** Shared by the users of the server, exclusive to the one that stops it; on the database `postgres`, any constant does. */
const USERS_LOCK_KEY = 0x70616c6f;

/** A user that starts while another stops the server waits for that; so do two that start at once. */
const ATTACH_DEADLINE_MS = 90_000;
const ATTACH_RETRY_MS = 50;
const RESTART_RETRY_MS = 1_000;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Makes the PostgreSQL of a data folder available: creates it, starts it, or joins the one that runs already
 * (another process uses it, or a stack was killed and left it), and brings it back whenever it dies.
 *
 * Several processes may use it at once; the last one to release it stops it. Works as root and as any user.
 * Rejects with EmbeddedPostgresError, whose message tells the operator what to do.
 */
export async function openEmbeddedPostgres({ dataDir, logger }: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const folder = resolve(dataDir);
  const first = await attach(folder);
  const supervisor = supervise(first, (port) => attach(folder, port), logger);
  const { password } = first.cluster;
  const { port } = first.server;
  logger.info({ port, serverPid: first.server.pid }, "embedded PostgreSQL is ready");
  return {
    url: `postgres://${ROLE}:${password}@127.0.0.1:${port}/${ROLE}?sslmode=disable`,
    onRestart: supervisor.onRestart,
    release: supervisor.release,
  };
}

/** A use of a running server. It ends with the connection, hence also with this process. */
type Attachment = {
  readonly cluster: Cluster;
  readonly server: PostgresServer;
  readonly connection: Client;
  /** Fulfilled when the connection ends, for whatever reason. */
  readonly lost: Promise<void>;
};

/** @param port where the server was before; undefined: it may be anywhere, or be new */
async function attach(dataDir: string, port?: number): Promise<Attachment> {
  const deadline = Date.now() + ATTACH_DEADLINE_MS;
  while (Date.now() < deadline) {
    const attachment = await tryToAttach(dataDir, port).catch((error: unknown) => {
      throw explainFileError(error, dataDir);
    });
    if (attachment !== undefined) return attachment;
    await delay(ATTACH_RETRY_MS);
  }
  throw new EmbeddedPostgresError(
    "start-failed",
    `the embedded PostgreSQL in ${dataDir} did not become available: another process is starting or stopping it`,
  );
}

/**
 * A server that runs is joined without the start lock, whose file a full disk has no room for.
 * @returns undefined when another process is at it
 */
async function tryToAttach(dataDir: string, port?: number): Promise<Attachment | undefined> {
  return (await joinRunning(dataDir, port)) ?? (await startAndJoin(dataDir, port));
}

/** @returns undefined when none runs, or it is being started or stopped */
async function joinRunning(dataDir: string, port?: number): Promise<Attachment | undefined> {
  if (!(await hasCluster(dataDir))) return undefined;
  const cluster = await openCluster(dataDir, "must-exist");
  const server = await findServer(cluster);
  return server && joinAt(port, cluster, server);
}

/** @returns undefined when another process starts it, or it is being stopped */
async function startAndJoin(dataDir: string, port?: number): Promise<Attachment | undefined> {
  const startLock = await acquireProcessLock(join(dataDir, "postgres-start.lock"));
  if (!startLock.ok) return undefined;
  try {
    const cluster = await openCluster(dataDir, port === undefined ? "create" : "must-exist");
    return await joinAt(port, cluster, await ensureServer(cluster, port));
  } finally {
    await startLock.value.release();
  }
}

/** @param port where the server has to be; undefined: anywhere */
async function joinAt(
  port: number | undefined,
  cluster: Cluster,
  server: PostgresServer,
): Promise<Attachment | undefined> {
  if (port !== undefined && server.port !== port) {
    throw new EmbeddedPostgresError("start-failed", `PostgreSQL moved from port ${port} to ${server.port}`);
  }
  return joinUsers(cluster, server);
}

/** @returns undefined when the server is being stopped, or went away */
async function joinUsers(cluster: Cluster, server: PostgresServer): Promise<Attachment | undefined> {
  const connection = new Client({
    host: "127.0.0.1",
    port: server.port,
    user: ROLE,
    password: cluster.password,
    database: "postgres",
    ssl: false,
    application_name: "palomar embedded-postgres",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
  });
  connection.on("error", () => {}); // "end" follows, and says the same
  const lost = new Promise<void>((resolve) => connection.once("end", resolve));
  let isUser = false;
  try {
    await connection.connect();
    if (await ask(connection, "select pg_try_advisory_lock_shared($1) as answer")) {
      await createDatabase(connection);
      isUser = true;
    }
  } catch (error) {
    if (!isConnectionLoss(error)) throw error;
  } finally {
    if (!isUser) await connection.end();
  }
  return isUser ? { cluster, server, connection, lost } : undefined;
}

async function ask(connection: Client, question: string): Promise<boolean> {
  const { rows } = await connection.query<{ answer: boolean }>(question, [USERS_LOCK_KEY]);
  return rows[0]?.answer === true;
}

async function createDatabase(connection: Client): Promise<void> {
  const { rowCount } = await connection.query("select from pg_database where datname = $1", [ROLE]);
  if (rowCount !== 0) return;
  await connection.query(`create database ${ROLE}`).catch((error: unknown) => {
    // Another user made it at the same moment.
    if (!ALREADY_MADE.includes(errorCode(error))) throw error;
  });
}

/** SQLSTATEs of a database that is there: duplicate_database, or at the very moment unique_violation. */
const ALREADY_MADE: readonly (string | undefined)[] = ["42P04", "23505"];

/** Class 57P is the server starting up, shutting down or crashing; the client's own findings have no code. */
function isConnectionLoss(error: unknown): boolean {
  const code = errorCode(error);
  if (code !== undefined) return code.startsWith("57P") || ["ECONNREFUSED", "ECONNRESET", "EPIPE"].includes(code);
  return error instanceof Error && /^(Connection terminated|Client (has|was)|timeout expired)/.test(error.message);
}

type Reattach = (port: number) => Promise<Attachment>;

/** Keeps the server running until the release, whether this process started it or found it. */
function supervise(first: Attachment, reattach: Reattach, logger: EmbeddedPostgresOptions["logger"]) {
  const listeners: Array<() => void> = [];
  const { port } = first.server;
  let current: Promise<Attachment | undefined> = Promise.resolve(first);
  let released: Promise<void> | undefined;

  const watch = async ({ lost }: Attachment) => {
    await lost;
    if (released === undefined) current = restore();
  };

  const restore = async (): Promise<Attachment | undefined> => {
    logger.warn({ port }, "the embedded PostgreSQL was lost");
    while (released === undefined) {
      try {
        const attachment = await reattach(port);
        watch(attachment);
        logger.info({ port, serverPid: attachment.server.pid }, "the embedded PostgreSQL is back");
        for (const listener of listeners) queueMicrotask(listener); // one that throws is no failed restart
        return attachment;
      } catch (error) {
        logger.error({ err: error }, "the embedded PostgreSQL does not come back yet");
        await delay(RESTART_RETRY_MS);
      }
    }
    return undefined;
  };

  watch(first);
  return {
    onRestart: (listener: () => void) => void listeners.push(listener),
    release: () => {
      released ??= current.then((attachment) => attachment && detach(attachment));
      return released;
    },
  };
}

/**
 * Leaves the users of the server, and stops it when that was the last one. The own share is given up first: of two
 * users that leave at once, then at least one finds nobody left.
 */
async function detach({ server, connection }: Attachment): Promise<void> {
  try {
    await ask(connection, "select pg_advisory_unlock_shared($1) as answer");
    if (await ask(connection, "select pg_try_advisory_lock($1) as answer")) await stopServer(server);
  } catch (error) {
    if (!isConnectionLoss(error)) throw error;
  } finally {
    await connection.end();
  }
}
