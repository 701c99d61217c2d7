import { statSync } from "node:fs";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import { readOwnWording } from "../../core/mail/bounce/own-wording.ts";
import { OWN_REASONS, SMTP_COMMANDS } from "../../core/mail/bounce/reason.ts";
import {
  listUnknownWordings,
  makeWording,
  tryWording,
  type WordingTrial,
} from "../../operations/mail/bounce-wordings.ts";
import { interpret } from "../../operations/mail/interpret.ts";
import { listUnexplained } from "../../store/mail/inbound/inbound-retention.ts";
import { listWordings, removeWording } from "../../store/mail/inbound/wordings.ts";
import { cannotBeRead, orRefuse } from "../input.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";

export function registerBounceCommand(program: Command, runtime: CommandRuntime): void {
  const bounce = program.command("bounce").description("messages that came back");
  bounce
    .command("classify")
    .argument("<path...>", "files of one message each; a folder stands for its files")
    .description("say what each message means, one JSON object a line")
    .action((paths: string[]) => classify(runtime, paths));
  bounce
    .command("unexplained")
    .option("--out <folder>", "write the beginning of each message to a file there, for bounce classify")
    .description("list the newest messages from which nothing followed, and why")
    .action((options: { readonly out?: string }) => listSample(runtime, options.out));
  bounce
    .command("unknown")
    .description("words of the newest 10,000 messages and refusals that no table knows, most often said first")
    .action(() => listUnknown(runtime));
  registerWordings(bounce, runtime);
}

/** Judges each file; those that cannot be read are told, and end the command with 1 after all others. */
async function classify(runtime: CommandRuntime, paths: readonly string[]): Promise<void> {
  const unread = (path: string) => (error: Error) => {
    runtime.note(cannotBeRead(path, error));
    runtime.exitWith(1);
    return undefined;
  };
  for (const path of paths) {
    for (const file of (await filesOf(path).catch(unread(path))) ?? []) {
      const octets = await readFile(file).catch(unread(file));
      if (octets === undefined) continue;
      const { kind, results } = await interpret(octets);
      const told = results.map(({ isGivenUp: _, ...result }) => result);
      const finding = { file: basename(file), kind, results: told };
      runtime.print(finding, JSON.stringify(finding));
    }
  }
}

/** `palomar bounce wording`: what an operator says that words mean. */
function registerWordings(bounce: Command, runtime: CommandRuntime): void {
  const wording = bounce.command("wording").description("what words of mail systems mean, before what the tables say");
  const told = (command: Command) =>
    command
      .argument("<words>", "as the mail system says it; * stands for what varies")
      .requiredOption("--reason <reason>", `one of ${OWN_REASONS.join(", ")}`)
      .option("--command <command>", `only in a reply to it: ${SMTP_COMMANDS.join(", ")}`);
  told(wording.command("try"))
    .description("say what a wording would change in the newest 10,000 messages")
    .action(async (words: string, options: WordingOptions) => {
      const phrase = orRefuse(runtime, readOwnWording({ words, ...options }));
      const trial = await runtime.withDatabase(({ db }) => tryWording(db, phrase));
      runtime.print(trial, describeTrial(trial));
    });
  told(wording.command("add"))
    .description("try a wording and have it in force at once")
    .action(async (words: string, options: WordingOptions) => {
      const made = await runtime.withDatabase(({ db }) => makeWording(db, { words, ...options }, COMMAND_ACTOR));
      const { id, trial } = orRefuse(runtime, made);
      runtime.print({ id, trial }, `wording ${id} is in force\n${describeTrial(trial)}`);
    });
  wording
    .command("list")
    .description("the wordings in force, newest first")
    .action(async () => {
      const found = await runtime.withDatabase(({ db }) => listWordings(db));
      const lines = found.map(({ id, words, reason, at }) => [id, reason, at ?? "-", words].join("\t"));
      runtime.print(found, lines.length === 0 ? "nothing" : lines.join("\n"));
    });
  wording
    .command("remove")
    .argument("<id>")
    .description("take a wording out of force")
    .action(async (id: string) => {
      const isId = /^[1-9]\d{0,14}$/.test(id);
      const removed = isId && (await runtime.withDatabase(({ db }) => removeWording(db, Number(id))));
      if (!removed) runtime.refuse(`there is no wording ${id}`);
      runtime.print({ id: Number(id) }, `wording ${id} is removed`);
    });
}

interface WordingOptions {
  readonly reason: string;
  readonly command?: string;
}

async function listUnknown(runtime: CommandRuntime): Promise<void> {
  const unknown = await runtime.withDatabase(({ db }) => listUnknownWordings(db));
  const lines = unknown.map(({ count, latest, shape }) => [count, latest.toISOString(), shape].join("\t"));
  runtime.print(unknown, lines.length === 0 ? "nothing" : lines.join("\n"));
}

function describeTrial({ messages, matches, changes }: WordingTrial): string {
  const lines = changes.map(
    ({ from, to, count, newlyHard }) =>
      `${count}\t${from} becomes ${to}${newlyHard > 0 ? `, ${counted(newlyHard, "address", "addresses")} newly dead` : ""}`,
  );
  return [`said in ${matches} of the newest ${messages} messages`, ...lines].join("\n");
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
async function filesOf(path: string): Promise<string[]> {
  const found = await stat(path);
  if (!found.isDirectory()) return [path];
  const entries = await readdir(path, { withFileTypes: true });
  const files = entries.filter(
    (entry) => entry.isFile() || (entry.isSymbolicLink() && !isFolder(join(path, entry.name))),
  );
  return files.map(({ name }) => join(path, name)).sort();
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
