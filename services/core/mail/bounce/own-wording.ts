import { type Refusal, unacceptable } from "../../refusal.ts";
import { ok, type Result, refuse } from "../../result.ts";
import type { Phrase } from "./phrases.ts";
import { OWN_REASONS, SMTP_COMMANDS } from "./reason.ts";
import { comparable } from "./rules.ts";

const LEAST_CHARACTERS = 8;
const MOST_CHARACTERS = 300;

/** Checks a wording that an operator gives; `*` stands for what varies. */
export function readOwnWording(given: {
  readonly words: string;
  readonly reason: string;
  readonly command?: string | undefined;
}): Result<Phrase, Refusal> {
  const words = comparable(given.words)
    .trim()
    .replace(/^[*\s]+|[*\s]+$/g, "");
  const characters = words.replace(/[^\p{L}\p{N}]/gu, "").length;
  if (characters < LEAST_CHARACTERS || words.length > MOST_CHARACTERS) {
    return refuse(unacceptable("wording-length", { least: LEAST_CHARACTERS, most: MOST_CHARACTERS }));
  }
  const reason = OWN_REASONS.find((known) => known === given.reason);
  if (!reason) return refuse(unacceptable("wording-reason", { reason: given.reason, reasons: OWN_REASONS.join(", ") }));
  const at = SMTP_COMMANDS.find((known) => known === given.command);
  if (given.command !== undefined && !at) {
    return refuse(unacceptable("wording-command", { command: given.command, commands: SMTP_COMMANDS.join(", ") }));
  }
  return ok({ words, reason, at });
}

/** The shape of words: what varies from message to message is left out, so that the same wording is counted as one. */
export function shapeOfWords(words: string): string {
  return comparable(words)
    .replace(/\bhttps?:\/\/[^\s<>"']{1,300}/g, "*")
    .replace(/[^\s<>()[\]"':;,]{1,128}@[^\s<>()[\]"':;,]{1,253}/g, "*")
    .replace(/\[?\b(?:\d{1,3}\.){3}\d{1,3}\b\]?|\b[\da-f]{1,4}(?::[\da-f]{0,4}){2,7}\b/g, "*")
    .replace(/\b(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,8}[a-z]{2,24}\b/g, "*")
    .replace(/\b(?=[a-z0-9._-]{0,80}\d)(?=[a-z0-9._-]{0,80}[a-z])[a-z0-9._-]{8,80}/g, "*")
    .replace(/\b\d{4,20}\b/g, "*")
    .replace(/(?:\* ?){2,50}/g, "* ")
    .trim()
    .slice(0, MOST_SHAPE_CHARACTERS);
}

const MOST_SHAPE_CHARACTERS = 200;
