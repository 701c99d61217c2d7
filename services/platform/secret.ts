import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { makeKeyring } from "../core/secret-box.ts";
import type { Config } from "./config.ts";

/**
 * The secret in force: PALOMAR_SECRET, or with the embedded database the one kept in `<data dir>/secret` (mode 0600),
 * made on first use. Those of PALOMAR_SECRET_PREVIOUS come with it (`core/secret-box.ts` reads them all).
 */
export function findSecret(config: Config): string {
  return makeKeyring([config.secret ?? keptSecret(join(config.dataDir, "secret")), ...config.previousSecrets]);
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
