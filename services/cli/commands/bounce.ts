import { statSync } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { interpret } from "../../bounce/interpret.ts";
import { cannotRead } from "../input.ts";
import type { CommandRuntime } from "../runtime.ts";

export function registerBounceCommand(program: Command, runtime: CommandRuntime): void {
  const bounce = program.command("bounce").description("messages that came back");
  bounce
    .command("classify")
    .argument("<path...>", "files of one message each; a folder stands for its files")
    .description("say what each message means, one JSON object a line")
    .action(async (paths: string[]) => {
      for (const path of paths) {
        for (const file of await filesOf(path, runtime)) {
          const { kind, results } = interpret(await readFile(file).catch(cannotRead(runtime, file)));
          const finding = { file: basename(file), kind, results };
          runtime.print(finding, JSON.stringify(finding));
        }
      }
    });
}

/** The file itself, or the files directly in a folder, sorted by name. */
async function filesOf(path: string, runtime: CommandRuntime): Promise<string[]> {
  const found = await stat(path).catch(cannotRead(runtime, path));
  if (!found.isDirectory()) return [path];
  const entries = await readdir(path, { withFileTypes: true }).catch(cannotRead(runtime, path));
  const files = entries.filter(
    (entry) => entry.isFile() || (entry.isSymbolicLink() && !isFolder(join(path, entry.name))),
  );
  return files.map(({ name }) => join(path, name)).sort();
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
