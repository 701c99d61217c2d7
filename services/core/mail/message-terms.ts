import { createHash } from "node:crypto";

/** What is known of a message without looking into its content; null where it is not there. */
export interface MessageDescription {
  readonly subject: string | null;
  /** The From address: exact local part @ lower-case A-labels. */
  readonly sender: string | null;
  /** With angle brackets. */
  readonly messageId: string | null;
}

const MOST_WORDS = 40;
const LONGEST_WORD = 60;

/** Words as they are looked for: in lower case, without accents, each once. */
function wordsOf(text: string): string[] {
  const plain = text
    .normalize("NFD")
    .replace(/\p{M}+/gu, "")
    .toLowerCase();
  const words = plain.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");
  return [...new Set(words.map((word) => word.slice(0, LONGEST_WORD)))].slice(0, MOST_WORDS);
}

/**
 * Numbers of 64 bits that a message is found by, in decimal. The instance is part of each, so that what is common with one
 * does not make searches of another slow.
 */
export function messageTerms(instanceId: number, description: MessageDescription): string[] {
  const { subject, sender, messageId } = description;
  return [
    ...subjectTerms(instanceId, subject ?? ""),
    ...(sender === null ? [] : [senderTerm(instanceId, sender), senderTerm(instanceId, domainOf(sender))]),
    ...(messageId === null ? [] : [messageIdTerm(instanceId, messageId)]),
  ];
}

export function subjectTerms(instanceId: number, words: string): string[] {
  return wordsOf(words).map((word) => term(instanceId, `s ${word}`));
}

/** @param sender an address, or `@` and a domain */
export function senderTerm(instanceId: number, sender: string): string {
  return term(instanceId, `f ${sender}`);
}

export function messageIdTerm(instanceId: number, messageId: string): string {
  return term(instanceId, `m ${messageId}`);
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@"));
}

function term(instanceId: number, what: string): string {
  return createHash("sha256").update(`${instanceId} ${what}`).digest().readBigInt64BE(0).toString();
}
