import type { SMTPServerSession } from "smtp-server";

/**
 * The accepted recipients of each session's transaction. The library's own list takes addresses for the same that
 * differ in the case of their local parts only, which no server but the recipient's may do (RFC 5321 §2.4).
 */
export class RecipientLists {
  readonly #lists = new WeakMap<object, Set<string>>();

  /** The library makes a new envelope for each transaction. */
  of({ envelope }: SMTPServerSession): Set<string> {
    const list = this.#lists.get(envelope) ?? new Set();
    this.#lists.set(envelope, list);
    return list;
  }
}

/** The form of an address in which equal ones are the same text: domains differ in nothing by their case. */
export function withPlainDomain(address: string): string {
  const at = address.lastIndexOf("@");
  return `${address.slice(0, at)}${address.slice(at).toLowerCase()}`;
}
