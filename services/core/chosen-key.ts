import { invalidField, type Refusal } from "./refusal.ts";
import { ok, type Result, refuse } from "./result.ts";

/** What a key that somebody chose needs: characters, and bits by {@link estimateKeyBits}. */
export const LEAST_KEY_CHARACTERS = 16;
export const LEAST_KEY_BITS = 64;

/** Further characters add nothing to the judgement of a key. */
const JUDGED_CHARACTERS = 256;
const SHORTEST_REPETITION = 3;

/** Characters of which a class is used as soon as one of it is: how many it has. */
const CLASSES = [
  [/[a-z]/, 26],
  [/[A-Z]/, 26],
  [/[0-9]/, 10],
  [/[^a-zA-Z0-9]/, 33],
] as const;

/**
 * Judges a key that somebody chose, of visible ASCII. Keys that we make have 256 random bits and need no judgement.
 * @param field the field that a refusal names
 */
export function judgeChosenKey(field: string, key: string): Result<string, Refusal> {
  if (key.length < LEAST_KEY_CHARACTERS) {
    return refuse(invalidField(field, "has-at-least-characters", { least: LEAST_KEY_CHARACTERS }));
  }
  const bits = Math.floor(estimateKeyBits(key));
  if (bits >= LEAST_KEY_BITS) return ok(key);
  return refuse(invalidField(field, "key-too-easy", { bits, least: LEAST_KEY_BITS }));
}

/**
 * How hard a key is to guess for somebody who tries strings of its characters, those that repeat themselves first: its
 * symbols times the bits of its alphabet. A symbol is a character, a run of one character, or a repetition of three
 * characters and more of what stands earlier in the key. Words are not known: a key of words has less than this says.
 * @returns bits; of a long key those of its first 256 characters
 */
export function estimateKeyBits(key: string): number {
  const alphabet = CLASSES.reduce((sum, [pattern, size]) => sum + (pattern.test(key) ? size : 0), 0);
  return countSymbols(key.slice(0, JUDGED_CHARACTERS)) * Math.log2(Math.max(alphabet, 2));
}

function countSymbols(key: string): number {
  const plain = key.replace(/(.)\1+/gs, "$1");
  let symbols = 0;
  for (let at = 0; at < plain.length; symbols += 1) at += Math.max(1, repetitionAt(plain, at));
  return symbols;
}

/** How many characters from here on stand earlier already, overlapping or not, as in LZ77; 0 when too few do. */
function repetitionAt(text: string, at: number): number {
  let length = 0;
  while (at + length < text.length && text.indexOf(text.slice(at, at + length + 1)) < at) length += 1;
  return length >= SHORTEST_REPETITION ? length : 0;
}
