import { constants, createReadStream, createWriteStream } from "node:fs";
import { access, open, rename, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import type { Command } from "commander";
import { type Db, openDb } from "../../platform/db.ts";
import { openEmbeddedPostgres } from "../../platform/embedded-postgres.ts";
import { makeLogger } from "../../platform/logger.ts";
import { migrate, migrateTo } from "../../platform/migrations.ts";
import { packageVersion } from "../../platform/package-folder.ts";
import { findSecret } from "../../platform/secret.ts";
import { BackupRefused, type RestoreRefusal, type RowCounts, restoreBackup, writeBackup } from "../../store/backup.ts";
import { cannotRead, refuseFolder } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

export function registerBackupCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("backup")
    .argument("<file>", "where to; the content is compressed with gzip")
    .description("write the whole content of the database as it is now, while everything goes on")
    .action(async (file: string) => {
      refuseFolder(runtime, file);
      const rows = await runtime.withDatabase(({ db, secret }) => backUp(db, secret, file, runtime));
      runtime.print({ file, rows }, `${sum(rows)} rows in ${file}; without the secret, which belongs elsewhere`);
    });
}

export function registerRestoreCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("restore")
    .argument("<file>", "a backup")
    .description("fill an empty database from a backup, and bring it up to date")
    .action(async (file: string) => {
      refuseFolder(runtime, file);
      await access(file, constants.R_OK).catch(cannotRead(runtime, file));
      const rows = await withEmptyDatabase(runtime, async (db) => {
        const restored = await restore(db, findSecret(runtime.config), file, runtime);
        await migrate(db);
        await db.raw("analyze");
        return restored;
      });
      runtime.print({ file, rows }, `${sum(rows)} rows from ${file}`);
    });
}

/** Whole or not at all: the file appears when it is complete and on the disk. */
async function backUp(db: Db, secret: string, file: string, runtime: CommandRuntime): Promise<RowCounts> {
  const draft = `${file}.new`;
  const gzip = createGzip({ level: 6 });
  const written = pipeline(gzip, createWriteStream(draft, { mode: 0o600 }));
  let unwritable: Error | undefined;
  written.catch((error: Error) => {
    unwritable = error;
  });
  try {
    const rows = await Promise.race([
      writeBackup(db, gzip, { version: packageVersion, secret, now: new Date() }),
      // A disk that is full ends the writing long before the database has ended.
      written.then(() => Promise.reject(new Error("the backup ended early"))),
    ]);
    gzip.end();
    await written;
    const handle = await open(draft, "r+");
    await handle.sync();
    await handle.close();
    await rename(draft, file);
    return rows;
  } catch (error) {
    const reason = unwritable?.message;
    gzip.destroy();
    await written.catch(() => {});
    await rm(draft, { force: true });
    if (reason !== undefined) return runtime.refuse(`${file} cannot be written: ${reason}`);
    throw error;
  }
}

async function restore(db: Db, secret: string, file: string, runtime: CommandRuntime): Promise<RowCounts> {
  const gunzip = createGunzip();
  // What goes wrong with the file is seen where the lines are read.
  pipeline(createReadStream(file), gunzip).catch(() => {});
  try {
    return await restoreBackup(db, gunzip, { secret, migrateTo });
  } catch (error) {
    const { errored } = gunzip;
    if (errored) runtime.refuse(`${file} is damaged or not whole (${errored.message}); nothing was restored`);
    if (error instanceof BackupRefused) runtime.refuse(explain(error.refusal, file));
    throw error;
  }
}

function explain(refusal: RestoreRefusal, file: string): string {
  switch (refusal.kind) {
    case "no-backup":
      return `${file} is no backup`;
    case "truncated":
      return `${file} is not whole; nothing was restored`;
    case "not-empty":
      return "the database is not empty: a restore fills an empty one";
    case "other-secret":
      return "the backup belongs to another secret: set PALOMAR_SECRET, or put the secret file into the data folder";
    case "newer":
      return `the backup is of a newer release: ${refusal.migrations.join(", ")}`;
  }
}

async function withEmptyDatabase<T>({ config }: CommandRuntime, use: (db: Db) => Promise<T>): Promise<T> {
  const logger = makeLogger("command", "error");
  const server =
    config.databaseUrl === null ? await openEmbeddedPostgres({ dataDir: config.dataDir, logger }) : undefined;
  const url = server?.url ?? config.listenDatabaseUrl ?? (config.databaseUrl as string);
  const db = openDb(url, { connections: 2, name: "restore" });
  try {
    return await use(db);
  } finally {
    await db.destroy();
    await server?.release();
  }
}

function sum(rows: RowCounts): number {
  return Object.values(rows).reduce((total, count) => total + count, 0);
}
