import type { SMTPServerSession } from "smtp-server";
import type { RecipientDsn } from "../../core/mail/dsn-parameters.ts";

/**
 * The accepted recipients of each session's transaction, with what is to be told of each. The library's own list
 * takes addresses for the same that differ in the case of their local parts only, which no server but the recipient's may
 * do (RFC 5321 §2.4).
 */
export class RecipientLists {
  readonly #lists = new WeakMap<object, Map<string, RecipientDsn | undefined>>();

  /** The library makes a new envelope for each transaction. */
  of({ envelope }: SMTPServerSession): Map<string, RecipientDsn | undefined> {
    const list = this.#lists.get(envelope) ?? new Map();
    this.#lists.set(envelope, list);
    return list;
  }
}

/** The form of an address in which equal ones are the same text: domains differ in nothing by their case. */
export function withPlainDomain(address: string): string {
  const at = address.lastIndexOf("@");
  return `${address.slice(0, at)}${address.slice(at).toLowerCase()}`;
}
