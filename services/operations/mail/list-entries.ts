import {
  type EntryKind,
  type ListingWords,
  type Placement,
  placeEntry,
  type Standing,
  type SuppressionTarget,
} from "../../core/mail/suppression.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { lockAddresses, lockContactsAt } from "../../store/mail/contacts/contacts.ts";
import { findStandings } from "../../store/mail/contacts/standings.ts";
import { addSuppressions, type NewSuppression, type SuppressionOwner } from "../../store/mail/contacts/suppressions.ts";
import { takeOverListed } from "../../store/mail/contacts/taken-over.ts";
import { listAsWhite } from "../../store/mail/contacts/whitelist.ts";
import { inTransaction } from "../../store/transactions.ts";
import { invalidateContact, unsubscribeFromAll } from "./contact-changes.ts";

/** Something to be listed. */
export interface Suppression extends ListingWords {
  readonly target: SuppressionTarget;
  readonly kind: EntryKind | "whitelist";
}

/** What became of an entry: listed now, or there already, with other words perhaps. */
export type Listed = Result<"added" | "changed", Sentence>;

/**
 * Puts entries on a list, one after another, each in the place where that is kept: a contact's validity and unsubscription,
 * the whitelist, else a row of its own.
 * @param entries of kinds that go with their targets; some hundreds
 * @returns what became of each
 */
export async function listEntries(
  db: Db,
  owner: SuppressionOwner,
  entries: readonly Suppression[],
): Promise<readonly Listed[]> {
  return inTransaction(db, async (transaction) => {
    const keys = keysOf(entries);
    if (owner === "operator") {
      const placed = placeAll(new Map(await findStandings(transaction, owner, keys)), entries);
      await keepRows(transaction, owner, placed);
      return placed.map(({ listed }) => listed);
    }
    const { instanceId } = owner;
    await lockAddresses(
      transaction,
      keys.map((emailKey) => ({ instanceId, emailKey })),
    );
    await lockContactsAt(transaction, instanceId, keys);
    // What was listed while they were being made.
    await takeOverListed(transaction, instanceId, keys);
    const standings = new Map(await findStandings(transaction, owner, keys));
    const placed = placeAll(standings, entries);
    await changeContacts(transaction, instanceId, placed);
    for (const { entry, placement } of placed) {
      if (placement?.place === "whitelist") await listAsWhite(transaction, instanceId, entry.target.key, entry);
    }
    await keepRows(transaction, owner, placed);
    return placed.map(({ listed }) => listed);
  });
}

/** Says what `listEntries` would, portion by portion, and locks nothing. */
export function rehearseEntries(
  db: Db,
  owner: SuppressionOwner,
): (entries: readonly Suppression[]) => Promise<readonly Listed[]> {
  const standings = new Map<string, Standing>();
  return async (entries) => {
    const others = keysOf(entries).filter((key) => !standings.has(key));
    for (const [key, standing] of await findStandings(db, owner, others)) standings.set(key, standing);
    return placeAll(standings, entries).map(({ listed }) => listed);
  };
}

const keysOf = (entries: readonly Suppression[]) => [...new Set(entries.map(({ target }) => target.key))];

interface Placed {
  readonly entry: Suppression;
  readonly listed: Listed;
  /** Undefined of what is refused. */
  readonly placement: Placement | undefined;
  /** Where the target stood before. */
  readonly before: Standing;
}

/** @param standings of all targets; each entry changes that of its own, as a later one finds it */
function placeAll(standings: Map<string, Standing>, entries: readonly Suppression[]): readonly Placed[] {
  return entries.map((entry) => {
    const before = standings.get(entry.target.key)!;
    const placement = placeEntry(before, entry.kind, entry);
    if (placement === "whitelisted") {
      return { entry, before, placement: undefined, listed: refuse(sentence("suppression-whitelisted")) };
    }
    standings.set(entry.target.key, placement.after);
    return { entry, before, placement, listed: ok(placement.isNew ? "added" : "changed") };
  });
}

/** What is said of contacts, all of which are locked. */
async function changeContacts(transaction: Transaction, instanceId: number, placed: readonly Placed[]): Promise<void> {
  const ofContacts = placed.flatMap(({ entry, placement, before: { contact } }) =>
    contact !== undefined && placement?.place === "contact" ? [{ entry, placement, contact }] : [],
  );
  for (const { entry, placement, contact } of ofContacts) {
    if (!placement.saysMore) continue;
    const { kind, note, creator } = entry;
    const stop = kind === "unsubscribed" ? contact.unsubscribed : contact.invalid;
    // What is listed already keeps its beginning.
    const words = { note: note || (stop?.note ?? ""), creator, since: stop ? (stop.since ?? undefined) : entry.since };
    if (kind === "unsubscribed") {
      await unsubscribeFromAll(transaction, instanceId, contact.id, { reason: "brought-in", words });
    } else {
      const isComplaint = kind === "complaint" || stop?.reason === "complaint";
      const reason = isComplaint ? "complaint" : "brought-in";
      await invalidateContact(transaction, instanceId, contact.id, { reason, words });
    }
  }
}

/** Rows go in one statement, but that each has a key once: a later entry about the same target finds the earlier one done. */
async function keepRows(transaction: Transaction, owner: SuppressionOwner, placed: readonly Placed[]): Promise<void> {
  const rows = new Map<string, NewSuppression>();
  const flush = async () => {
    await addSuppressions(transaction, owner, [...rows.values()]);
    rows.clear();
  };
  for (const { entry, placement } of placed) {
    if (placement?.place !== "row") continue;
    const { target, kind, ...words } = entry;
    if (rows.has(target.key)) await flush();
    rows.set(target.key, { ...target, kind: kind as EntryKind, ...words });
  }
  await flush();
}
