/**
 * IDNA 2008 for the domain of an email address, with the refusals worded as the python `idna` library words them:
 * the API's error texts carry those words.
 */
import { toUnicode } from "tr46";
import { ok, type Result, refuse } from "../result.ts";
import { codePointClass, type Direction, directionOf, isAllowedInContext } from "./idna-code-points.ts";
import { decodePunycode, encodePunycode } from "./idna-punycode.ts";

/** The two spellings of a valid domain, both lower-case. */
export interface IdnaDomain {
  /** A-labels, as DNS and SMTP carry it. */
  readonly ascii: string;
  /** U-labels, as people read it. */
  readonly unicode: string;
}

/** Refusal of a domain that no spelling makes short enough. */
export const DOMAIN_TOO_LONG = "Domain too long";

const MAX_DOMAIN_OCTETS = 253;
const MAX_LABEL_OCTETS = 63;
const A_LABEL_PREFIX = "xn--";
const NON_ASCII = /[^\0-\x7F]/;

/**
 * Apply the mapping of UTS #46: lower case, full-width forms and dots, ignored characters, NFC.
 * Labels are not checked yet, and A-labels stay as they are.
 */
export function mapDomain(domain: string): Result<string, string> {
  if (!NON_ASCII.test(domain)) return ok(domain.toLowerCase());
  let mapped = "";
  for (const [index, character] of [...domain].entries()) {
    const mapping = mapCharacter(character);
    if (mapping === null) {
      return refuse(`Codepoint ${hexName(character)} not allowed at position ${index + 1} in ${quote(domain)}`);
    }
    mapped += mapping;
  }
  return ok(mapped.normalize("NFC"));
}

/**
 * Check each label of a mapped domain and spell it both ways.
 * @param domain what `mapDomain` gave, without empty labels
 * @see RFC 5891 §4.2, §5.3, §5.4
 */
export function encodeDomain(domain: string): Result<IdnaDomain, string> {
  if (domain === "") return refuse("Empty domain");
  if ([...domain].length > MAX_DOMAIN_OCTETS + 1) return refuse(DOMAIN_TOO_LONG);
  const asciiLabels: string[] = [];
  const unicodeLabels: string[] = [];
  for (const label of domain.split(".")) {
    const spelled = NON_ASCII.test(label) ? toALabel(label) : readAsciiLabel(label);
    if (!spelled.ok) return spelled;
    asciiLabels.push(spelled.value.ascii);
    unicodeLabels.push(spelled.value.unicode);
  }
  const ascii = asciiLabels.join(".");
  return ascii.length > MAX_DOMAIN_OCTETS ? refuse(DOMAIN_TOO_LONG) : ok({ ascii, unicode: unicodeLabels.join(".") });
}

/** @returns null for a code point that UTS #46 disallows */
function mapCharacter(character: string): string | null {
  // The digit in front keeps a combining mark from starting the label, and composes with nothing.
  const { domain, error } = toUnicode(`0${character}`);
  return error ? null : domain.slice(1);
}

function toALabel(label: string): Result<IdnaDomain, string> {
  const fault = findLabelFault(label);
  if (fault !== null) return refuse(fault);
  const ascii = A_LABEL_PREFIX + encodePunycode(label);
  return ascii.length > MAX_LABEL_OCTETS ? refuse("Label too long") : ok({ ascii, unicode: label });
}

function readAsciiLabel(ascii: string): Result<IdnaDomain, string> {
  const unicode = ascii.startsWith(A_LABEL_PREFIX) ? fromALabel(ascii.slice(A_LABEL_PREFIX.length)) : ok(ascii);
  if (!unicode.ok) return unicode;
  const fault = findLabelFault(unicode.value);
  if (fault !== null) return refuse(fault);
  return ascii.length > MAX_LABEL_OCTETS ? refuse("Label too long") : ok({ ascii, unicode: unicode.value });
}

function fromALabel(punycode: string): Result<string, string> {
  if (punycode === "") return refuse("Malformed A-label, no Punycode eligible content found");
  if (punycode.endsWith("-")) return refuse("A-label must not end with a hyphen");
  const label = decodePunycode(punycode);
  if (label === null) return refuse("Invalid A-label");
  // RFC 5891 §5.3: one U-label has one A-label.
  if (encodePunycode(label) !== punycode) {
    return refuse("A-label is not the canonical Punycode encoding of its U-label");
  }
  return ok(label);
}

/** @returns the first rule that a U-label (or plain ASCII label) breaks, or null */
function findLabelFault(label: string): string | null {
  const characters = [...label];
  if (characters.length === 0) return "Empty Label";
  if (characters.length > MAX_DOMAIN_OCTETS + 1) return "Label too long";
  if (label.normalize("NFC") !== label) return "Label must be in Normalization Form C";
  if (characters[2] === "-" && characters[3] === "-") return "Label has disallowed hyphens in 3rd and 4th position";
  if (label.startsWith("-") || label.endsWith("-")) return "Label must not start or end with a hyphen";
  if (/^\p{M}/u.test(label)) return "Label begins with an illegal combining character";
  return findCodePointFault(label, characters) ?? findBidiFault(label, characters.map(directionOf));
}

function findCodePointFault(label: string, characters: readonly string[]): string | null {
  for (const [index, character] of characters.entries()) {
    const position = index + 1;
    switch (codePointClass(character)) {
      case "refused":
        return `Codepoint ${hexName(character)} at position ${position} of ${quote(label)} not allowed`;
      case "contextual":
        if (isAllowedInContext(characters, index)) break;
        return `Codepoint ${hexName(character)} not allowed at position ${position} in ${quote(label)}`;
      case "joiner":
        if (isJoinerAllowed(characters, index)) break;
        return `Joiner ${hexName(character)} not allowed at position ${position} in ${quote(label)}`;
    }
  }
  return null;
}

/** RFC 5892 Appendix A.1 and A.2; the other joiners are left out, so that the answer is about this one. */
function isJoinerAllowed(characters: readonly string[], index: number): boolean {
  const withoutOthers = characters.filter((character, i) => i === index || !/^[\u200C\u200D]$/.test(character));
  return !toUnicode(withoutOthers.join(""), { checkJoiners: true }).error;
}

/** The Bidi rule, for labels that hold a right-to-left character (RFC 5893 §2). */
function findBidiFault(label: string, directions: readonly Direction[]): string | null {
  if (!directions.some((direction) => direction === "R" || direction === "AN")) return null;
  const first = directions[0];
  if (first !== "R" && first !== "L") {
    return `First codepoint in label ${quote(label)} must be directionality L, R or AL`;
  }
  const allowed: readonly Direction[] = first === "R" ? ["R", "AN", "EN", "ON", "NSM"] : ["L", "EN", "ON", "NSM"];
  const numerals = new Set<Direction>();
  for (const [index, direction] of directions.entries()) {
    if (!allowed.includes(direction)) {
      const kind = first === "R" ? "right-to-left" : "left-to-right";
      return `Invalid direction for codepoint at position ${index + 1} in a ${kind} label`;
    }
    if (direction === "EN" || direction === "AN") numerals.add(direction);
    if (first === "R" && numerals.size > 1) return "Can not mix numeral types in a right-to-left label";
  }
  const last = directions.findLast((direction) => direction !== "NSM");
  return last === "ON" ? "Label ends with illegal codepoint directionality" : null;
}

function hexName(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Quotes text as Python's repr() does, since that is how the texts to be matched quote it. */
function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = [...text].map((character) => escapeCharacter(character, mark)).join("");
  return mark + body + mark;
}

const NAMED_ESCAPES: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };

function escapeCharacter(character: string, mark: string): string {
  if (character === mark) return `\\${character}`;
  const named = NAMED_ESCAPES[character];
  if (named !== undefined) return named;
  if (character === " " || !/^[\p{C}\p{Z}]$/u.test(character)) return character;
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  if (code <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
