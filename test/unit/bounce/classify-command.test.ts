import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, beforeEach, expect, test } from "vitest";
import { registerBounceCommand } from "../../../services/cli/commands/bounce.ts";
import type { CommandRuntime } from "../../../services/cli/runtime.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "palomar-bounce-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Runs `palomar bounce classify …`; only what the command uses of its runtime is there. */
async function run(...paths: string[]) {
  const lines: string[] = [];
  const notes: string[] = [];
  let status = 0;
  const runtime: Pick<CommandRuntime, "print" | "note" | "exitWith"> = {
    print: (_, text) => void lines.push(String(text)),
    note: (text) => void notes.push(text),
    exitWith: (given) => {
      status = given;
    },
  };
  const program = new Command().exitOverride();
  registerBounceCommand(program, runtime as CommandRuntime);
  await program.parseAsync(["bounce", "classify", ...paths], { from: "user" });
  return { lines, notes, status };
}

async function classify(...paths: string[]): Promise<string[]> {
  const { lines, notes, status } = await run(...paths);
  expect({ notes, status }).toEqual({ notes: [], status: 0 });
  return lines;
}

const notice =
  "From: MAILER-DAEMON@example.org\r\nSubject: failure notice\r\n\r\nundeliverable:\r\n<jane@example.net>:\r\n550 5.1.1 no such user\r\n";

test("a folder stands for its files, sorted, folders in it left out", async () => {
  await writeFile(join(folder, "b.eml"), "Subject: hello\r\n\r\nhello\r\n");
  await writeFile(join(folder, "a.eml"), notice);
  await mkdir(join(folder, "c"));
  expect(await classify(folder)).toEqual([
    '{"file":"a.eml","kind":"dsn","results":[{"recipient":"jane@example.net","action":"failed","status":"5.1.1","replycode":"550","hard":true,"reason":"userunknown"}]}',
    '{"file":"b.eml","kind":"not-bounce","results":[]}',
  ]);
});

test("files in the order given", async () => {
  await writeFile(join(folder, "b.eml"), notice);
  await writeFile(join(folder, "a.eml"), notice);
  const lines = await classify(join(folder, "b.eml"), join(folder, "a.eml"));
  expect(lines.map((line) => JSON.parse(line).file)).toEqual(["b.eml", "a.eml"]);
});

test("links count as what they lead to; one that leads nowhere is told", async () => {
  await writeFile(join(folder, "a.eml"), "Subject: hello\r\n\r\nhello\r\n");
  await mkdir(join(folder, "b"));
  await symlink(join(folder, "a.eml"), join(folder, "c"));
  await symlink(join(folder, "b"), join(folder, "d"));
  expect((await classify(folder)).map((line) => JSON.parse(line).file)).toEqual(["a.eml", "c"]);
  await symlink(join(folder, "nowhere"), join(folder, "e"));
  const { lines, notes, status } = await run(folder);
  expect([lines.length, notes, status]).toEqual([2, [expect.stringMatching(/\/e cannot be read: ENOENT/)], 1]);
});

test("a path that is not there is told, and the others are judged", async () => {
  await writeFile(join(folder, "a.eml"), notice);
  await writeFile(join(folder, "b.eml"), notice);
  const { lines, notes, status } = await run(...["a.eml", "missing.eml", "b.eml"].map((name) => join(folder, name)));
  expect(lines.map((line) => JSON.parse(line).file)).toEqual(["a.eml", "b.eml"]);
  expect(notes).toEqual([expect.stringMatching(/missing\.eml cannot be read: ENOENT/)]);
  expect(status).toBe(1);
});
