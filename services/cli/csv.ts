import { once } from "node:events";
import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import type { ImportReport } from "../operations/mail/contact-import.ts";
import { cannotRead, refuseFolder } from "./input.ts";
import type { CommandRuntime } from "./runtime.ts";

/** A file, or with `-` the standard input. */
export async function openInput(runtime: CommandRuntime, file: string): Promise<Readable> {
  if (file === "-") return process.stdin;
  refuseFolder(runtime, file);
  const stream = createReadStream(file);
  await once(stream, "open").catch(cannotRead(runtime, file));
  return stream;
}

export async function printCsv(lines: AsyncIterable<string>): Promise<void> {
  for await (const line of lines) {
    if (!process.stdout.write(line)) await once(process.stdout, "drain");
  }
}

export async function readAll(lines: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const line of lines) text += line;
  return text;
}

/** Says what became of the lines of a CSV; the command ends with 1 where some were left out. */
export function printImport(runtime: CommandRuntime, report: ImportReport): void {
  const { created, updated, rejected } = report;
  const errors = report.errors.map(({ line, reason }) => ({ line, on: reason.message }));
  const lines = [
    `${created} created, ${updated} updated, ${rejected} rejected`,
    ...errors.map(({ line, on }) => `line ${line}: ${on}`),
  ];
  runtime.print({ ...report, errors }, lines.join("\n"));
  if (errors.length > 0) runtime.exitWith(1);
}
