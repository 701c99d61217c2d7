import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../platform/config/config.ts";
import type { AddressName } from "../platform/service.ts";
import { CommandMisused } from "./command-errors.ts";

/**
 * Makes sure that the data folder is one, or is still to be made.
 * @throws CommandMisused that names the variable, when something else stands there or it cannot be looked at
 */
export function requireDataFolder({ dataDir }: Pick<Config, "dataDir">): void {
  try {
    if (statSync(dataDir).isDirectory()) return;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return;
    throw new CommandMisused(`PALOMAR_DATA_DIR: ${message}`);
  }
  throw new CommandMisused(`PALOMAR_DATA_DIR: ${dataDir} is no folder`);
}

/** What `addresses.json` says: null of a listener that is off. */
export type WrittenAddresses = { readonly [name in AddressName]?: string | null };

/** The addresses of the stack that runs from the folder; undefined where none has written them. */
export function readAddresses({ dataDir }: Pick<Config, "dataDir">): WrittenAddresses | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, "addresses.json"), "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
