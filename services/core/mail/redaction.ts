/** Texts and messages without the names of somebody who is to be forgotten. */

/**
 * What stands for an address that was erased: an address of its length, and of nobody. Names under `.invalid` and `.test` are
 * nobody's (RFC 6761 §6), and no top-level domain has one letter.
 * @param address of five characters at least, as every address has
 */
export function redacted(address: string): string {
  const end = NOBODYS.find((one) => one.length < address.length) ?? "";
  return "x".repeat(address.length - end.length) + end;
}

const NOBODYS = ["@x.invalid", "@invalid", "@test", "@x.x"];

/**
 * A regular expression, of JavaScript and of PostgreSQL, for an address where a text names it: not for a part of another one,
 * as ana@example.org is of mariana@example.org and of ana@example.org.ar. In front of it may stand what ASCII has no letter or digit
 * for, be it written as quoted-printable (`=3D`), in a URL (`%20`), in JSON or a script (`\n`, `\u003c`), or as PostgreSQL escapes
 * octets (`\302`). A stop with a capital behind it ends a sentence.
 */
export function namePattern(address: string): string {
  return BEFORE + address.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&") + AFTER;
}

/** Two hexadecimal digits of an octet that is no letter and no digit. */
const QUOTED_PRINTABLE = "=(?:[0289A-F][0-9A-F]|3[A-F]|40|5[B-F]|60|7[B-F])";
const IN_URL = "%(?:[0-289A-Fa-f][0-9A-Fa-f]|3[A-Fa-f]|40|5[B-Fb-f]|60|7[B-Fb-f])";
const IN_SCRIPT = String.raw`\\(?:[bfnrtv]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-7]{3})`;
const BEFORE = `(?:(?<=${QUOTED_PRINTABLE}|${IN_URL}|${IN_SCRIPT})|(?<![A-Za-z0-9])(?<![A-Za-z0-9][._+-]+))`;
const AFTER = "(?![A-Za-z0-9]|[.-][a-z0-9])";

export function redactText(text: string, names: readonly string[]): string {
  return names.reduce((kept, name) => kept.replaceAll(new RegExp(namePattern(name), "g"), redacted(name)), text);
}

/** Octet for octet, so that nothing else of the message moves: what was an address keeps the form of one. */
export function redactOctets(octets: Buffer, names: readonly string[]): Buffer {
  const spelled = names.map((name) => Buffer.from(name, "utf8").toString("latin1"));
  return Buffer.from(redactText(octets.toString("latin1"), spelled), "latin1");
}
