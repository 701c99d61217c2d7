/**
 * Email addresses as python-email-validator 1.1.3 judges and words them: dot-atom local parts, IDNA 2008 domains,
 * no quoted local parts, comments or domain literals. The API's error texts are these, octet for octet.
 */

import { recentMap } from "../recent-map.ts";
import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";
import { DOMAIN_TOO_LONG, encodeDomain, type IdnaDomain, mapDomain } from "./idna.ts";

/** An address that is well formed: safe in an SMTP command and in a header. */
export interface EmailAddress {
  /** Before the @-sign, as given (NFC when it is international); its case matters. */
  readonly local: string;
  /** Domain as U-labels, in lower case. */
  readonly domain: string;
  /** Domain as A-labels, in lower case. */
  readonly asciiDomain: string;
  /** Normalised address, the domain as U-labels. */
  readonly text: string;
  /** Address with the labels as they were given, U or A, in lower case. */
  readonly asGiven: string;
  /** What equal addresses have in common: exact local part and lower-case A-label domain. */
  readonly key: string;
  /** The local part is not ASCII, so every hop must offer SMTPUTF8 (RFC 6531). */
  readonly needsSmtputf8: boolean;
}

const MAX_LOCAL_CHARACTERS = 64; // RFC 5321 §4.5.3.1.1
const MAX_ADDRESS_OCTETS = 254; // RFC 5321 §4.5.3.1.3 less the angle brackets
/** Far above what any spelling of 253 octets needs; it bounds the work that a stranger's text can cause. */
const MAX_DOMAIN_INPUT = 1_024;
const DOMAIN_TOO_LONG_SENTENCE = sentence("address-too-long", { excess: "after the @-sign" });
const ASCII_ATEXT = "[a-zA-Z0-9_!#$%&'*+\\-/=?^`{|}~]";
const INTERNATIONAL_ATEXT = "[a-zA-Z0-9_!#$%&'*+\\-/=?^`{|}~\\u0080-\\uD7FF\\uE000-\\u{10FFFF}]"; // RFC 6532 §3.2
/** Blanks, controls, and what turns the direction of a text: nobody can read or type such an address. */
const UNREADABLE = /[\p{Z}\p{Cc}\p{Bidi_Control}]/gu;
const ASCII_DOT_ATOM = new RegExp(`^${ASCII_ATEXT}+(?:\\.${ASCII_ATEXT}+)*$`);
const INTERNATIONAL_DOT_ATOM = new RegExp(`^${INTERNATIONAL_ATEXT}+(?:\\.${INTERNATIONAL_ATEXT}+)*$`, "u");
const ASCII_CHARACTER = new RegExp(`^${ASCII_ATEXT}$`);
const INTERNATIONAL_CHARACTER = new RegExp(`^${INTERNATIONAL_ATEXT}$`, "u");

/** What equal addresses have in common; undefined for what is no address. */
export function addressKeyOf(text: string): string | undefined {
  const valid = validateAddress(text, { allowSmtputf8: true });
  return valid.ok ? valid.value.key : undefined;
}

/**
 * Parse an address.
 * @param options.allowSmtputf8 whether the local part may hold characters beyond ASCII
 * @returns the address, or the first fault as a sentence for the API's `on`, without its prefix
 */
export function validateAddress(
  text: string,
  options: { readonly allowSmtputf8: boolean },
): Result<EmailAddress, Sentence> {
  const [givenLocal, givenDomain, more] = text.split("@", 3);
  if (givenLocal === undefined || givenDomain === undefined || more !== undefined) {
    return refuse(sentence("one-at-sign"));
  }
  const local = validateLocalPart(givenLocal, options.allowSmtputf8);
  if (!local.ok) return local;
  const domain = validateDomain(givenDomain);
  if (!domain.ok) return domain;

  const address = makeAddress(local.value, domain.value);
  const tooLong = describeExcessLength(address);
  return tooLong === null ? ok(address) : refuse(sentence("address-too-long", { excess: tooLong }));
}

/** Sentence for a domain that has neither MX nor address; the look-up itself is the caller's. */
export function domainDoesNotExist(domain: string): Sentence {
  return sentence("domain-nowhere", { domain });
}

interface ValidDomain extends IdnaDomain {
  readonly mapped: string;
}

function makeAddress(local: string, { mapped, ascii, unicode }: ValidDomain): EmailAddress {
  return {
    local,
    domain: unicode,
    asciiDomain: ascii,
    text: `${local}@${unicode}`,
    asGiven: `${local}@${mapped}`,
    key: `${local}@${ascii}`,
    needsSmtputf8: !ASCII_DOT_ATOM.test(local),
  };
}

function validateLocalPart(local: string, allowSmtputf8: boolean): Result<string, Sentence> {
  if (local === "") return refuse(sentence("before-at-sign"));
  const length = countCharacters(local);
  if (length > MAX_LOCAL_CHARACTERS) {
    return refuse(
      sentence("address-too-long", { excess: `before the @-sign (${excess(length - MAX_LOCAL_CHARACTERS)})` }),
    );
  }
  if (ASCII_DOT_ATOM.test(local)) return ok(local);
  if (!INTERNATIONAL_DOT_ATOM.test(local)) {
    return refuse(invalidLocalPart(local, allowSmtputf8 ? INTERNATIONAL_CHARACTER : ASCII_CHARACTER));
  }
  if (!allowSmtputf8) return refuse(sentence("local-ascii"));
  const normalised = local.normalize("NFC"); // RFC 6532 §3.1
  // U+037E becomes a semicolon.
  if (!INTERNATIONAL_DOT_ATOM.test(normalised)) return refuse(invalidLocalPart(normalised, INTERNATIONAL_CHARACTER));
  const unreadable = normalised.match(UNREADABLE);
  if (unreadable === null) return ok(normalised);
  const characters = [...new Set(unreadable)].sort(byCodePoint).map(toCodePoint).join(", ");
  return refuse(sentence("local-characters", { characters }));
}

/** As Unicode names it: the character itself would disturb the sentence. */
function toCodePoint(character: string): string {
  return `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
}

function invalidLocalPart(local: string, allowed: RegExp): Sentence {
  const refused = [...new Set(local)].filter((character) => !allowed.test(character)).sort(byCodePoint);
  return sentence("local-characters", { characters: refused.join(", ") });
}

const MOST_JUDGED_DOMAINS = 1_000;
/** What was found of the domains that came last: lists of addresses name the same ones again and again. */
const judgedDomains = recentMap<string, Result<ValidDomain, Sentence>>(MOST_JUDGED_DOMAINS);

function validateDomain(domain: string): Result<ValidDomain, Sentence> {
  const known = judgedDomains.get(domain);
  if (known !== undefined) return known;
  const judged = judgeDomain(domain);
  if (domain.length > MAX_DOMAIN_INPUT) return judged;
  judgedDomains.set(domain, judged);
  return judged;
}

function judgeDomain(domain: string): Result<ValidDomain, Sentence> {
  if (domain === "") return refuse(sentence("after-at-sign"));
  if (domain.length > MAX_DOMAIN_INPUT) return refuse(DOMAIN_TOO_LONG_SENTENCE);
  const mapping = mapDomain(domain);
  if (!mapping.ok) return refuse(invalidCharacters(domain, mapping.error));
  const mapped = mapping.value;
  if (mapped.endsWith(".")) return refuse(sentence("address-ends-with-period"));
  if (mapped.startsWith(".")) {
    return refuse(sentence("address-period-after-at"));
  }
  if (mapped.includes("..")) return refuse(sentence("address-two-periods"));

  const encoded = encodeDomain(mapped);
  if (!encoded.ok) {
    return refuse(
      encoded.error === DOMAIN_TOO_LONG ? DOMAIN_TOO_LONG_SENTENCE : invalidCharacters(mapped, encoded.error),
    );
  }
  const { ascii, unicode } = encoded.value;
  if (!ascii.includes(".")) return refuse(sentence("domain-without-period", { domain: unicode }));
  if (!/[a-z]$/.test(ascii)) {
    return refuse(sentence("domain-top-level", { domain: unicode }));
  }
  return ok({ mapped, ascii, unicode });
}

function invalidCharacters(domain: string, reason: string): Sentence {
  return sentence("domain-characters", { domain, reason });
}

/** @returns why the whole address is too long for SMTP, or null when it is not */
function describeExcessLength({ text, key, needsSmtputf8 }: EmailAddress): string | null {
  const excessCharacters = countCharacters(text) - MAX_ADDRESS_OCTETS;
  if (!needsSmtputf8 && key.length > MAX_ADDRESS_OCTETS) {
    if (key === text) return `(${excess(excessCharacters)})`;
    return excessCharacters > 0 ? `(at least ${excess(excessCharacters)})` : "(when converted to IDNA ASCII)";
  }
  if (Buffer.byteLength(text, "utf8") <= MAX_ADDRESS_OCTETS) return null;
  return excessCharacters > 0 ? `(at least ${excess(excessCharacters)})` : "(when encoded in bytes)";
}

function excess(characters: number): string {
  return `${characters} character${characters > 1 ? "s" : ""} too many`;
}

/** Code points, counted without a copy of a text that may be long. */
function countCharacters(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

function byCodePoint(a: string, b: string): number {
  return (a.codePointAt(0) ?? 0) - (b.codePointAt(0) ?? 0);
}
