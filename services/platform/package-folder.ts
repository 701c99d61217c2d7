import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of package.json: `config/` and `migrations/` stand beside it, whether this runs from dist/ or from source. */
export const packageFolder: string = findUpwards(dirname(fileURLToPath(import.meta.url)));

/** This release's version, from package.json. */
export const packageVersion: string = JSON.parse(readFileSync(join(packageFolder, "package.json"), "utf8")).version;

/** What the build makes of a program that runs in a process or a thread of its own, such as `cli/service-thread`. */
export const programFile = (name: string): string => join(packageFolder, "dist", "services", `${name}.cjs`);

/** Runs such a program, which is its first argument, from code that is compiled already. */
export const programRunner: string = join(packageFolder, "bin", "run.cjs");

function findUpwards(folder: string): string {
  if (existsSync(join(folder, "package.json"))) return folder;
  if (dirname(folder) === folder) throw new Error("package.json not found above the program");
  return findUpwards(dirname(folder));
}
