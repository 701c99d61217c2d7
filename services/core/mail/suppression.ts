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

/** What whoever lists somebody says of it. */
export interface ListingWords {
  readonly note: string;
  /** Login of who does; empty: a command. */
  readonly creator: string;
  /** Undefined: now. */
  readonly since?: Date | undefined;
}

/** Why a contact gets no mail, as the newest event about that tells. */
export interface ContactStop {
  readonly reason: string;
  readonly note: string;
  readonly since: Date | null;
}

/** Where an address or a domain stands on a list, as far as kinds that are entered go. */
export interface Standing {
  /** Its own row; of a contact by hand alone: whatever else was brought in about it, the contact itself has. */
  readonly row: EntryKind | undefined;
  readonly whitelisted: boolean;
  /** Undefined where it is no contact's. */
  readonly contact:
    | {
        readonly id: number;
        readonly invalid: ContactStop | undefined;
        readonly unsubscribed: ContactStop | undefined;
      }
    | undefined;
}

/** The reasons of events that were brought in, and of a person who wants nothing more. */
export const BROUGHT_IN = "brought-in";
export const OWN_UNSUBSCRIPTION = "all";

/** A row is replaced by none of a kind before its own: revalidation takes off the first two, only the person the last. */
export const KINDS_BY_WEIGHT: readonly EntryKind[] = ["invalid", "complaint", "by-hand", "unsubscribed"];

/** What an entry does: where it goes, whether it is new there, whether it says anything new, and how its target stands after it. */
export interface Placement {
  readonly place: "row" | "whitelist" | "contact";
  readonly isNew: boolean;
  readonly saysMore: boolean;
  readonly after: Standing;
}

/**
 * Where an entry goes: to the whitelist, to the contact that the address is, else to a row of its own.
 * @returns refused: the invalidity of an address that is whitelisted, unless it stands there already
 */
export function placeEntry(
  standing: Standing,
  kind: EntryKind | "whitelist",
  words: Pick<ListingWords, "note" | "since">,
): Placement | "whitelisted" {
  const { row, whitelisted, contact } = standing;
  if (kind === "whitelist") {
    return { place: "whitelist", isNew: !whitelisted, saysMore: true, after: { ...standing, whitelisted: true } };
  }
  const isValidity = kind === "invalid" || kind === "complaint";
  if (contact === undefined || kind === "by-hand") {
    if (isValidity && whitelisted && row === undefined) return "whitelisted";
    const weighsMore = row === undefined || KINDS_BY_WEIGHT.indexOf(kind) >= KINDS_BY_WEIGHT.indexOf(row);
    const after = { ...standing, row: weighsMore ? kind : row };
    return { place: "row", isNew: row === undefined, saysMore: true, after };
  }
  const field = isValidity ? "invalid" : "unsubscribed";
  const stop = contact[field];
  const reason = kind === "complaint" ? "complaint" : BROUGHT_IN;
  const saysMore = stop === undefined || addsTo(stop, kind, words.note);
  if (isValidity && whitelisted && saysMore) return "whitelisted";
  const said = {
    reason: laterReason(stop, reason),
    note: words.note || (stop?.note ?? ""),
    since: stop?.since ?? null,
  };
  const after = saysMore ? { ...standing, contact: { ...contact, [field]: said } } : standing;
  return { place: "contact", isNew: stop === undefined, saysMore, after };
}

/** Whether an entry tells more of a contact that is listed so already. Of what a person chose there is nothing to add. */
function addsTo({ reason, note }: ContactStop, kind: EntryKind, words: string): boolean {
  if (kind === "unsubscribed" && reason !== BROUGHT_IN) return false;
  return (words !== "" && words !== note) || (kind === "complaint" && reason !== "complaint");
}

/** A complaint stays one, whatever is said after it. */
function laterReason(stop: ContactStop | undefined, reason: string): string {
  return stop?.reason === "complaint" ? stop.reason : reason;
}
