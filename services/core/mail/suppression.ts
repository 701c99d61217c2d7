import { ok, type Result, refuse } from "../result.ts";
import type { Sentence } from "../sentences.ts";
import { validateAddress } from "./address.ts";

/** Why an address or a domain is listed. */
export const SUPPRESSION_KINDS = ["by-hand", "invalid", "complaint", "unsubscribed", "whitelist", "erased"] as const;
export type SuppressionKind = (typeof SUPPRESSION_KINDS)[number];

/** The kinds of which a row of its own may be kept: what is no contact's, or was brought in from elsewhere. */
export const ENTRY_KINDS = ["by-hand", "invalid", "complaint", "unsubscribed"] as const;
export type EntryKind = (typeof ENTRY_KINDS)[number];

/** What an entry is about: an address, or all addresses of a domain (not those of the domains below it). */
export interface SuppressionTarget {
  /** `local@domain` as `EmailAddress.key` has it, or `@domain`. */
  readonly key: string;
  /** As it is shown: an address, or `@domain`. */
  readonly text: string;
  readonly isDomain: boolean;
}

/** Reads an address, or a domain with or without an `@` before it. @returns the validator's sentence for what is neither */
export function parseSuppressionTarget(given: string): Result<SuppressionTarget, Sentence> {
  const text = given.trim();
  const at = text.indexOf("@");
  const isDomain = at <= 0 && text !== "" && text !== "@";
  const address = validateAddress(isDomain ? `any@${text.slice(at + 1)}` : text, { allowSmtputf8: true });
  if (!address.ok) return refuse(address.error);
  const { key, asGiven, asciiDomain } = address.value;
  if (!isDomain) return ok({ key, text: asGiven, isDomain });
  return ok({ key: `@${asciiDomain}`, text: asGiven.slice("any".length), isDomain });
}
