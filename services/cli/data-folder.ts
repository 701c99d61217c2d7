import { statSync } from "node:fs";
import type { Config } from "../platform/config/config.ts";
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
