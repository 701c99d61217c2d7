import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, mkdir, mkdtemp, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { type Account, locatePostgresBinaries, PROGRAM_ENVIRONMENT } from "./embedded-postgres-binaries.ts";
import { EmbeddedPostgresError, errorCode, explainProgramOutput } from "./embedded-postgres-error.ts";

/** The role that owns everything in the embedded database, and its name. */
export const ROLE = "palomar";

/** A database cluster on disk, with what is needed to run it and to log in. */
export type Cluster = {
  /** The folder with PostgreSQL's own files. */
  readonly folder: string;
  /** The file that the server's log is appended to. */
  readonly logFile: string;
  readonly password: string;
  readonly account: Account;
  /** Path of the server program. */
  readonly postgres: string;
};

/**
 * Opens the cluster of a data folder, creating password and cluster when they are not there, or refusing to.
 * Who has it created must hold the data folder's start lock.
 *
 *     <data dir>/postgres/                   the cluster, owned by the account that runs the server
 *     <data dir>/secrets/postgres-password   mode 0600
 *     <data dir>/postgres.log
 */
export async function openCluster(dataDir: string, absent: "create" | "must-exist"): Promise<Cluster> {
  const folder = join(dataDir, "postgres");
  const exists = await hasCluster(dataDir);
  if (!exists && absent === "must-exist") {
    throw new EmbeddedPostgresError("data-folder-unusable", `${folder} is gone, and with it the database`);
  }
  const account = await chooseAccount(folder);
  const binaries = await locatePostgresBinaries(account, dataDir);
  const password = await readPassword(dataDir, exists);
  if (!exists) await initialise(folder, { account, initdb: binaries.initdb, password });
  await requireMajorVersion(folder, binaries.majorVersion);
  return { folder, logFile: join(dataDir, "postgres.log"), password, account, postgres: binaries.postgres };
}

/** Whether a data folder has a cluster. One that is being created has none yet. */
export async function hasCluster(dataDir: string): Promise<boolean> {
  return isPresent(join(dataDir, "postgres"));
}

/**
 * The arguments and options that make a PostgreSQL program, run by the cluster's account, work in its folder.
 *
 * The account may be barred from a folder above (a clone in /root). The working directory is entered before the
 * account changes, and on Linux `/proc/self/cwd` then names it without passing through the folders above.
 */
export function inFolder(folder: string, account: Account) {
  return {
    dataFolderArguments: ["-D", process.platform === "linux" ? "/proc/self/cwd" : folder],
    processOptions: { ...account, cwd: folder, env: PROGRAM_ENVIRONMENT },
  };
}

/** PostgreSQL refuses to run as root; it also insists that its account owns the cluster. */
async function chooseAccount(folder: string): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await stat(folder).catch(() => undefined);
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  return (await findUser("postgres")) ?? (await findUser("nobody")) ?? refuseRoot();
}

async function findUser(name: string): Promise<Account> {
  try {
    const id = async (option: string) => Number((await promisify(execFile)("id", [option, name])).stdout);
    return { uid: await id("-u"), gid: await id("-g") };
  } catch {
    return undefined;
  }
}

function refuseRoot(): never {
  throw new EmbeddedPostgresError(
    "no-unprivileged-user",
    "PostgreSQL does not run as root, and this machine has neither a user postgres nor a user nobody: run Palomar as an ordinary user, or set DATABASE_URL",
  );
}

async function readPassword(dataDir: string, clusterExists: boolean): Promise<string> {
  const file = join(dataDir, "secrets", "postgres-password");
  const found = await readFile(file, "utf8").catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return "";
    throw error;
  });
  if (found !== "") return found.trim();
  if (clusterExists) {
    throw new EmbeddedPostgresError("password-missing", `${file} is missing: without it ${dataDir}/postgres is locked`);
  }
  const password = randomBytes(24).toString("base64url");
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeDurably(file, `${password}\n`);
  return password;
}

async function writeDurably(file: string, content: string): Promise<void> {
  const handle = await open(`${file}.new`, "w", 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.new`, file);
}

type Initialisation = { readonly account: Account; readonly initdb: string; readonly password: string };

/** Creates the cluster under another name first: a cluster that has its name is complete. */
async function initialise(folder: string, { account, initdb, password }: Initialisation): Promise<void> {
  await removeDrafts(folder);
  const draft = await mkdtemp(`${folder}.incomplete-`);
  try {
    const cluster = join(draft, "cluster");
    await mkdir(cluster, { mode: 0o700 });
    // initdb reads the password as the account, so it lies beside the cluster, and for that long only.
    await writeFile(join(draft, "password"), password, { mode: 0o600 });
    for (const path of [draft, cluster, join(draft, "password")]) {
      if (account !== undefined) await chown(path, account.uid, account.gid);
    }
    await runInitdb(initdb, cluster, account);
    await rename(cluster, folder);
  } finally {
    await removeDrafts(folder);
  }
}

/** Also those of a process that was killed. Its initdb may still be writing there, hence the retries. */
async function removeDrafts(folder: string): Promise<void> {
  for (const name of await readdir(dirname(folder))) {
    if (!name.startsWith(`${basename(folder)}.incomplete-`)) continue;
    await rm(join(dirname(folder), name), { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

async function runInitdb(initdb: string, cluster: string, account: Account): Promise<void> {
  const { dataFolderArguments, processOptions } = inFolder(cluster, account);
  const settings = ["--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", `--username=${ROLE}`];
  try {
    await promisify(execFile)(initdb, [...dataFolderArguments, ...settings, "--pwfile=../password"], processOptions);
  } catch (error) {
    const output = error instanceof Error && "stderr" in error ? String(error.stderr) : String(error);
    throw explainProgramOutput("initialisation-failed", "initdb failed", output, dirname(dirname(cluster)));
  }
}

async function requireMajorVersion(folder: string, majorVersion: number): Promise<void> {
  const found = (await readFile(join(folder, "PG_VERSION"), "utf8")).trim();
  if (found === String(majorVersion)) return;
  throw new EmbeddedPostgresError(
    "other-major-version",
    `${folder} was made by PostgreSQL ${found}, and this version of Palomar brings PostgreSQL ${majorVersion}: dump the database with the version that made it and load it into a new data folder, or set DATABASE_URL`,
  );
}

async function isPresent(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}
