import { randomUUID } from "node:crypto";
import { constants, createReadStream, createWriteStream } from "node:fs";
import { access, open, rename, rm, stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { Command } from "commander";
import { type BackupRefusal, BackupRefused } from "../../core/backup-format.ts";
import { counted } from "../../core/counted.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { findKeys, hasKeys } from "../../platform/config/secret.ts";
import { makeLogger } from "../../platform/observability/logger.ts";
import { packageVersion } from "../../platform/package-folder.ts";
import { type Db, openDb } from "../../platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../platform/postgres/embedded-postgres.ts";
import { migrate } from "../../platform/postgres/migrations.ts";
import { type RowCounts, restoreBackup, type WrittenBackup, writeBackup } from "../../store/backup.ts";
import { openBackup, type VerifiedBackup, verifyBackup } from "../../store/backup-content.ts";
import { requireDataFolder } from "../data-folder.ts";
import { undoneAfterwards } from "../ending.ts";
import { cannotRead, refuseFolder } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

/** In the place of a file: standard input, or output. */
const STANDARD_STREAM = "-";

export function registerBackupCommand(program: Command, runtime: CommandRuntime): void {
  const backup = program
    .command("backup")
    .argument("<file>", "where to; - is standard output")
    .description("write the whole content of the database as it is now, while everything goes on")
    .action(async (file: string) => {
      refuseFolder(runtime, file);
      const { rows, leftOut } = await runtime
        .withDatabase(({ db, keyRing }) => backUp(db, keyRing, file, runtime))
        .catch(inWords(runtime, file));
      if (leftOut.length > 0) runtime.note(`left out, as they are not of this product: ${leftOut.join(", ")}`);
      const text = `${counted(sum(rows), "row")} in ${file}; without the secret, which belongs elsewhere`;
      if (file === STANDARD_STREAM) runtime.note(text);
      else runtime.print({ file, rows }, text);
    });
  backup
    .command("verify")
    .argument("<file>", "a backup; - for standard input")
    .description(
      "check that a backup is whole and as it was written; takes the secret and no database; - is standard input",
    )
    .action(async (file: string) => {
      await refuseUnreadable(runtime, file);
      const { head, tail } = await verify(file, runtime).catch(inWords(runtime, file));
      runtime.print(
        {
          file,
          rows: tail.rows,
          taken_at: head.takenAt,
          release: head.palomar,
          incarnation: head.incarnation,
          migration: head.migrations.at(-1),
        },
        `${file} is whole and as it was written: ${counted(sum(tail.rows), "row")} of ${head.takenAt}, release ${head.palomar}, ` +
          `database ${head.incarnation}`,
      );
    });
}

export function registerRestoreCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("restore")
    .argument("<file>", "a backup; - for standard input")
    .description("fill an empty database from a backup, and bring it up to date; - is standard input")
    .action(async (file: string) => {
      await refuseUnreadable(runtime, file);
      // Of a file nothing is used before all of it has been verified; a stream is verified on its way.
      const unchanged = inWords(runtime, file, "; nothing was restored");
      if (await isRegularFile(file)) await verify(file, runtime).catch(unchanged);
      const rows = await restore(file, runtime).catch(unchanged);
      runtime.print({ file, rows }, `${counted(sum(rows), "row")} from ${file}`);
    });
}

/** Whole or not at all: the file appears when it is complete and on the disk, for its owner's eyes alone. */
async function backUp(db: Db, keyRing: KeyRing, file: string, runtime: CommandRuntime): Promise<WrittenBackup> {
  const about = { version: packageVersion, keyRing, now: new Date() };
  if (file === STANDARD_STREAM) {
    // Unless all of it is written.
    runtime.exitWith(1);
    const written = await writeBackup(db, process.stdout, about);
    runtime.exitWith(0);
    return written;
  }
  // Of its own: two commands that write to one file do not meet in it.
  const draft = `${file}.${randomUUID()}.new`;
  let unwritable: Error | undefined;
  const write = async () => {
    // Made here, so that neither its rights nor where it leads are somebody else's choice.
    const out = createWriteStream(draft, { flags: "wx", mode: 0o600 }).on("error", (error) => (unwritable = error));
    const written = await writeBackup(db, out, about);
    const handle = await open(draft, "r+");
    await handle.sync();
    await handle.close();
    await rename(draft, file);
    return written;
  };
  try {
    return await undoneAfterwards(() => rm(draft, { force: true }), write);
  } catch (error) {
    if (unwritable !== undefined) return runtime.refuse(`${file} cannot be written: ${unwritable.message}`);
    throw error;
  }
}

function verify(file: string, runtime: CommandRuntime): Promise<VerifiedBackup> {
  return withSource(file, (source) => verifyBackup(source, keysOf(runtime)));
}

function restore(file: string, runtime: CommandRuntime): Promise<RowCounts> {
  return withSource(file, async (source) => {
    const content = await openBackup(source, keysOf(runtime));
    return withEmptyDatabase(runtime, async (db) => {
      const rows = await restoreBackup(db, content);
      await migrate(db);
      await db.raw("analyze");
      return rows;
    });
  });
}

async function withSource<T>(file: string, use: (source: Readable) => Promise<T>): Promise<T> {
  const source = file === STANDARD_STREAM ? process.stdin : createReadStream(file, { highWaterMark: 256 * 1024 });
  try {
    return await use(source);
  } finally {
    source.destroy();
  }
}

/** Ends the command where a backup is not written or not restored: with why, and what became of it. */
function inWords(runtime: CommandRuntime, file: string, consequence = ""): (error: unknown) => never {
  return (error) => {
    if (error instanceof BackupRefused) runtime.refuse(explain(error.refusal, file) + consequence);
    throw error;
  };
}

async function refuseUnreadable(runtime: CommandRuntime, file: string): Promise<void> {
  if (file === STANDARD_STREAM) return;
  refuseFolder(runtime, file);
  await access(file, constants.R_OK).catch(cannotRead(runtime, file));
}

async function isRegularFile(file: string): Promise<boolean> {
  return file !== STANDARD_STREAM && (await stat(file)).isFile();
}

function keysOf(runtime: CommandRuntime): KeyRing {
  if (!hasKeys(runtime.config)) runtime.refuse(`there is no secret here: ${WHERE_SECRETS_GO}`);
  return findKeys(runtime.config);
}

const WHERE_SECRETS_GO = "set PALOMAR_SECRET, or put the secret file into the data folder";

function explain(refusal: BackupRefusal, file: string): string {
  switch (refusal.kind) {
    case "spread":
      return "Citus spreads the tables over machines that have no moment in common: archive the WAL of each and call citus_create_restore_point on the coordinator instead, as docs/scaling.md says under Backups";
    case "migrating":
      return "a migration is under way, or was interrupted: let `palomar migrate` end first";
    case "no-backup":
      return `${file} is no backup`;
    case "other-format":
      return `${file} is of format ${refusal.version}, which this release does not know`;
    case "other-secret":
      return `${file} was written under another secret, by another deployment or before a change of secret: ${WHERE_SECRETS_GO}, or name the one before in PALOMAR_SECRET_PREVIOUS`;
    case "altered":
      return `${file} was altered or damaged after it was written`;
    case "truncated":
      return `${file} is not whole`;
    case "damaged":
      return `${file} is damaged (${refusal.reason})`;
    case "not-empty":
      return "the database is not empty: a restore fills an empty one";
    case "newer":
      return `${file} is of a newer release: ${refusal.migrations.join(", ")}`;
    case "unknown-table":
      return `${file} has rows of the table ${refusal.table}, which its release did not have, or has them twice`;
    case "other-columns":
      return `${file} has other columns of the table ${refusal.table} than its release had: ${refusal.columns.join(", ")}`;
    case "missing-tables":
      return `${file} lacks the rows of ${refusal.tables.join(", ")}`;
    case "unknown-sequence":
      return `${file} has a number of the sequence ${refusal.sequence}, which its release did not have`;
    case "other-count":
      return `${file} says another number of rows of the table ${refusal.table} than it has`;
    case "not-taken":
      return `${file}: the database does not take what it has of ${refusal.place}: ${refusal.reason}`;
  }
}

async function withEmptyDatabase<T>({ config }: CommandRuntime, use: (db: Db) => Promise<T>): Promise<T> {
  const logger = makeLogger("command", "error");
  if (config.databaseUrl === null) requireDataFolder(config);
  const server =
    config.databaseUrl === null ? await openEmbeddedPostgres({ dataDir: config.dataDir, logger }) : undefined;
  const url = server?.url ?? config.listenDatabaseUrl ?? (config.databaseUrl as string);
  const db = openDb(url, { connections: 2, name: "restore" });
  const used = () => use(db).finally(() => db.destroy());
  return server ? undoneAfterwards(server.release, used) : used();
}

function sum(rows: RowCounts): number {
  return Object.values(rows).reduce((total, count) => total + count, 0);
}
