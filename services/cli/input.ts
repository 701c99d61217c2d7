import { readFileSync, statSync } from "node:fs";
import { parsePeriodSeconds } from "../core/dns/period.ts";
import { type Refusal, sentenceOf } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import type { Sentence } from "../core/sentences.ts";
import type { ReplacedKey } from "../store/key-rotation.ts";
import type { CommandRuntime } from "./runtime.ts";

const LONGEST_GRACE_SECONDS = 365 * 86_400;

/** The value, or the command ends with what is wrong with it. */
export function orRefuse<T>(runtime: CommandRuntime, result: Result<T, Refusal>): T {
  return result.ok ? result.value : runtime.refuse(refusalText(result.error));
}

/** Ends the command where a folder was named for a file; what is wrong else is told when it is opened. */
export function refuseFolder(runtime: CommandRuntime, path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) runtime.refuse(`${path} is a folder`);
}

/** Ends the command where a file, or a folder, cannot be read. */
export function cannotRead(runtime: CommandRuntime, path: string): (error: Error) => never {
  return (error) => runtime.refuse(cannotBeRead(path, error));
}

export const cannotBeRead = (path: string, error: Error) => `${path} cannot be read: ${error.message}`;

/**
 * The text of a file, or of standard input (`0`).
 * @throws when it cannot be read, or is no UTF-8: to guess would alter names and texts
 */
export function readTextFile(file: string | 0): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(file));
}

/** The same; ends the command where it cannot be had. */
export function readText(runtime: CommandRuntime, file: string | 0): string {
  try {
    return readTextFile(file);
  } catch (error) {
    return runtime.refuse(`${file || "standard input"}: ${(error as Error).message}`);
  }
}

/** Until when a key that is replaced stays good: `24h`, `7d`, `90m`; null when nothing was given. */
export function readGrace(runtime: CommandRuntime, text: string | undefined, now: Date): Date | null {
  if (text === undefined) return null;
  const seconds = parsePeriodSeconds(text, LONGEST_GRACE_SECONDS);
  if (seconds === undefined || seconds === 0) return runtime.misused(`${text} is no time like 24h, up to a year`);
  return new Date(now.getTime() + seconds * 1_000);
}

/** Tells of a key whose grace ends by a rotation. */
export function noteEndedGrace(runtime: CommandRuntime, { olderUntil }: ReplacedKey, now: Date): void {
  if (olderUntil === null || olderUntil <= now) return;
  runtime.note(
    `an older key, to be accepted until ${olderUntil.toISOString()}, has ended: only the latest former one is kept`,
  );
}

/** Of an option that may be repeated: its values, in their order. */
export function gather(value: string, gathered: readonly string[] = []): readonly string[] {
  return [...gathered, value];
}

/** Tells what is doubtful in what was done. */
export function noteWarnings(runtime: CommandRuntime, warnings: readonly Sentence[]): void {
  for (const { message } of warnings) runtime.note(`warning: ${message}`);
}

/** A refusal in words. */
export function refusalText(refusal: Refusal): string {
  if (refusal.kind === "invalid-field") return `${refusal.field}: ${refusal.reason.message}`;
  return sentenceOf(refusal).message;
}
