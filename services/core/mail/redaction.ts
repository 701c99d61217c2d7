/** Texts and messages without the names of somebody who is to be forgotten. */

/** What stands for an address that was erased: something of its length and form. */
export function redacted(address: string): string {
  return address.replaceAll(/[^@.]/g, "x");
}

export function redactText(text: string, names: readonly string[]): string {
  return names.reduce((kept, name) => kept.replaceAll(name, redacted(name)), text);
}

/** Octet for octet, so that nothing else of the message moves: what was an address keeps the form of one. */
export function redactOctets(octets: Buffer, names: readonly string[]): Buffer {
  const spelled = names.map((name) => Buffer.from(name, "utf8").toString("latin1"));
  return Buffer.from(redactText(octets.toString("latin1"), spelled), "latin1");
}
