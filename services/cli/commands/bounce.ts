import { statSync } from "node:fs";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { interpret } from "../../bounce/interpret.ts";
import { listUnexplained } from "../../store/mail/inbound/inbound-retention.ts";
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
          const { kind, results } = await interpret(await readFile(file).catch(cannotRead(runtime, file)));
          const finding = { file: basename(file), kind, results };
          runtime.print(finding, JSON.stringify(finding));
        }
      }
    });
  bounce
    .command("unexplained")
    .option("--out <folder>", "write the beginning of each message to a file there, for bounce classify")
    .description("list the newest messages from which nothing followed, and why")
    .action((options: { readonly out?: string }) => listSample(runtime, options.out));
}

async function listSample(runtime: CommandRuntime, folder: string | undefined): Promise<void> {
  const found = await runtime.withDatabase(({ db }) => listUnexplained(db));
  if (folder !== undefined) {
    const cannotWrite = (error: Error) => runtime.refuse(`${folder} cannot be written: ${error.message}`);
    await mkdir(folder, { recursive: true, mode: 0o700 }).catch(cannotWrite);
    for (const { id, octets } of found) {
      await writeFile(join(folder, `${id}.eml`), octets, { mode: 0o600 }).catch(cannotWrite);
    }
  }
  const listed = found.map(({ id, reason, mailFrom, clientAddress, feedbackAddress, receivedAt, octets }) => ({
    id,
    reason,
    from: mailFrom,
    client: clientAddress,
    feedback_address: feedbackAddress,
    received: receivedAt.toISOString(),
    octets: octets.length,
  }));
  const lines = listed.map(({ id, reason, from, client, received }) =>
    [received, id, reason, client ?? "mailbox", `<${from}>`].join("  "),
  );
  runtime.print(listed, lines.length === 0 ? "nothing" : lines.join("\n"));
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
