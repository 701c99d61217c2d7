import { toCsvLine } from "../../core/mail/csv-cell.ts";
import {
  ENTRY_KINDS,
  type EntryKind,
  type SuppressionKind,
  type SuppressionTarget,
} from "../../core/mail/suppression.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findContactId, findContactStops } from "../../store/mail/contacts/contact-profiles.ts";
import { streamSuppressions } from "../../store/mail/contacts/suppression-list.ts";
import { addSuppressions, removeSuppression, type SuppressionOwner } from "../../store/mail/contacts/suppressions.ts";
import { addToWhitelist, isWhitelisted, removeFromWhitelist } from "../../store/mail/contacts/whitelist.ts";
import { invalidateContact, revalidateContact, unsubscribeFromAll } from "./contact-changes.ts";

/** What somebody may put on a list. */
export const ADDED_KINDS = [...ENTRY_KINDS, "whitelist"] as const;
export type AddedKind = (typeof ADDED_KINDS)[number];

/** Something to be listed. */
export interface Suppression {
  readonly target: SuppressionTarget;
  readonly kind: AddedKind;
  readonly note: string;
  readonly creator: string;
  readonly since?: Date | undefined;
}

/**
 * Puts an address or a domain on a list, in the place where that is kept: a contact's validity and unsubscription, the
 * whitelist, else a row of its own. In force for every send that is accepted afterwards.
 * @returns whether it is new; refused: a kind that does not go with the target, and the validity of whitelisted contacts
 */
export async function suppress(
  db: Db,
  owner: SuppressionOwner,
  { target, kind, ...about }: Suppression,
): Promise<Result<"added" | "changed", Sentence>> {
  const unfit = findUnfitKind(owner, target, kind);
  if (unfit) return refuse(unfit);
  if (owner !== "operator") {
    const { instanceId } = owner;
    if (kind === "whitelist") return ok(await listAsWhite(db, instanceId, target.key));
    const contactId = kind === "by-hand" ? undefined : await findContactId(db, instanceId, target.key);
    if (contactId !== undefined)
      return changeContact(db, { instanceId, contactId }, kind as Exclude<EntryKind, "by-hand">);
  }
  const added = await addSuppressions(db, owner, [{ ...target, kind: kind as EntryKind, ...about }]);
  return ok(added > 0 ? "added" : "changed");
}

/** Why a target cannot be listed as that; undefined where it can. */
export function findUnfitKind(
  owner: SuppressionOwner,
  target: SuppressionTarget,
  kind: AddedKind,
): Sentence | undefined {
  const isUnfit =
    kind === "whitelist" ? target.isDomain || owner === "operator" : target.isDomain && kind !== "by-hand";
  return isUnfit ? sentence("suppression-kind-unfit", { kind }) : undefined;
}

async function listAsWhite(db: Db, instanceId: number, emailKey: string): Promise<"added" | "changed"> {
  const isThere = await isWhitelisted(db, instanceId, emailKey);
  await addToWhitelist(db, instanceId, emailKey);
  return isThere ? "changed" : "added";
}

async function changeContact(
  db: Db,
  { instanceId, contactId }: { readonly instanceId: number; readonly contactId: number },
  kind: Exclude<EntryKind, "by-hand">,
): Promise<Result<"added" | "changed", Sentence>> {
  if (kind === "unsubscribed") {
    const isNew = await unsubscribeFromAll(db, instanceId, contactId, { reason: "brought-in" });
    return ok(isNew ? "added" : "changed");
  }
  const reason = kind === "complaint" ? "complaint" : "brought-in";
  const change = await invalidateContact(db, instanceId, contactId, { reason });
  if (change === "whitelisted") return refuse(sentence("suppression-whitelisted"));
  return ok(change === "done" ? "added" : "changed");
}

/** What became of taking an entry off. An unsubscription is the person's own: who brought it in from elsewhere may. */
export type Unsuppression = "removed" | "unknown" | "whitelisted" | "own-unsubscription";

/** Takes an address or a domain off a list. @param kind of the entry; undefined: all that the list shows of it */
export async function unsuppress(
  db: Db,
  owner: SuppressionOwner,
  key: string,
  kind?: SuppressionKind,
): Promise<Unsuppression> {
  if (kind === undefined && owner !== "operator") return unsuppressAll(db, owner, key);
  if (kind === "whitelist") {
    if (owner === "operator" || !(await isWhitelisted(db, owner.instanceId, key))) return "unknown";
    await removeFromWhitelist(db, owner.instanceId, key);
    return "removed";
  }
  const contactId =
    owner === "operator" || kind === undefined || kind === "by-hand" || kind === "erased"
      ? undefined
      : await findContactId(db, owner.instanceId, key);
  if (owner !== "operator" && contactId !== undefined && (kind === "invalid" || kind === "complaint")) {
    const change = await revalidateContact(db, owner.instanceId, contactId);
    return change === "done" ? "removed" : change;
  }
  if (await removeSuppression(db, owner, key, { kind })) return "removed";
  return contactId !== undefined && kind === "unsubscribed" ? "own-unsubscription" : "unknown";
}

/** The whitelist comes before the validity that it protects. What only its person can take back stays. */
async function unsuppressAll(
  db: Db,
  owner: Exclude<SuppressionOwner, "operator">,
  key: string,
): Promise<Unsuppression> {
  const hadRow = await removeSuppression(db, owner, key);
  const isWhite = (await unsuppress(db, owner, key, "whitelist")) === "removed";
  const stops = await findContactStops(db, owner.instanceId, key);
  const isRevalidated = stops?.invalid === true && (await unsuppress(db, owner, key, "invalid")) === "removed";
  if (hadRow || isWhite || isRevalidated) return "removed";
  return stops?.unsubscribed ? "own-unsubscription" : "unknown";
}

const COLUMNS = ["address", "kind", "since", "note", "campaign", "event", "eeid", "reason"];

/**
 * A list as the CSV that `importSuppressions` reads, some lines at a time; without those of erased addresses, of which
 * nothing is known.
 */
export async function* exportSuppressions(db: Db, owner: SuppressionOwner): AsyncGenerator<string> {
  yield toCsvLine(COLUMNS);
  for await (const entries of streamSuppressions(db, owner)) {
    yield entries
      .filter(({ target }) => target !== null)
      .map(({ target, kind, since, note, campaign, cause }) =>
        toCsvLine([
          target!,
          kind,
          since?.toISOString() ?? "",
          note,
          campaign === null ? "" : String(campaign.numid),
          cause?.event ?? "",
          cause?.eeid ?? "",
          typeof cause?.detail.reason === "string" ? cause.detail.reason : "",
        ]),
      )
      .join("");
  }
}
