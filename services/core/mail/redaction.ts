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
 * for, be it written as quoted-printable (`=3D`), in a URL (`%20`), in JSON (`\n`), or as PostgreSQL escapes octets (`\302`).
 */
export function namePattern(address: string): string {
  return BEFORE + address.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&") + AFTER;
}

const BEFORE = String.raw`(?:(?<=[=%][0-9A-Fa-f]{2}|\\[bfnrt]|\\[0-7]{3})|(?<![A-Za-z0-9])(?<![A-Za-z0-9][._+-]))`;
const AFTER = "(?![A-Za-z0-9]|[.-][A-Za-z0-9])";

export function redactText(text: string, names: readonly string[]): string {
  return names.reduce((kept, name) => kept.replaceAll(new RegExp(namePattern(name), "g"), redacted(name)), text);
}

/** Octet for octet, so that nothing else of the message moves: what was an address keeps the form of one. */
export function redactOctets(octets: Buffer, names: readonly string[]): Buffer {
  const spelled = names.map((name) => Buffer.from(name, "utf8").toString("latin1"));
  return Buffer.from(redactText(octets.toString("latin1"), spelled), "latin1");
}
