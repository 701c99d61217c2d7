import { randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { KeyRing } from "../../core/key-ring.ts";
import type { Config } from "./config.ts";

/**
 * The keys of this process: those of PALOMAR_KEYS, or all, derived from PALOMAR_SECRET, or with the embedded database from
 * the secret kept in `<data dir>/secret` (mode 0600), made on first use. PALOMAR_SECRET_PREVIOUS comes with the secret.
 */
export function findKeys({ keys, secret, previousSecrets, dataDir }: Config): KeyRing {
  return keys ?? KeyRing.ofSecret(secret ?? keptSecret(join(dataDir, "secret")), previousSecrets);
}

/**
 * Files of secrets that more users can read than need to: everybody, or the group of a file that is this user's own. (One
 * that belongs to somebody else is read through its group.)
 * @returns a sentence for each, naming its variable
 */
export function listExposedFiles(files: readonly (readonly [variable: string, path: string])[]): string[] {
  return files.flatMap(([variable, path]) => {
    const { mode, uid } = statSync(path);
    if ((mode & 0o004) !== 0) return [`${variable}: every user of this machine may read ${path}: chmod 600`];
    const isOwn = uid === process.getuid?.();
    return isOwn && (mode & 0o040) !== 0 ? [`${variable}: the group may read ${path}: chmod 600`] : [];
  });
}

/** Whether there are keys already: `findKeys` makes a secret where there are none. */
export function hasKeys(config: Config): boolean {
  return config.keys !== null || config.secret !== null || existsSync(join(config.dataDir, "secret"));
}

function keptSecret(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileOnce(file, `${randomBytes(32).toString("base64url")}\n`);
  return readFileSync(file, "utf8").trim();
}

/**
 * Makes a private file whole or not at all: written and synced under another name, then linked into place.
 * Where another process was first, its file stays.
 */
export function writeFileOnce(file: string, content: string): void {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const descriptor = openSync(draft, "wx", 0o600);
  try {
    writeSync(descriptor, content);
    fsyncSync(descriptor);
    linkSync(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  }
}
