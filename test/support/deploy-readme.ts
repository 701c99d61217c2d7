import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../../services/platform/package-folder.ts";

/** @returns the blocks of commands below a heading of deploy/README.md, as printed */
export function blocksOf(heading: string): string[] {
  const readme = readFileSync(join(packageFolder, "deploy/README.md"), "utf8");
  const section = readme.split(/^## /m).find((text) => text.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`deploy/README.md has no section "${heading}"`);
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, commands]) => commands!);
}
