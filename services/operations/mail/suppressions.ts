import { toCsvLine } from "../../core/mail/csv-cell.ts";
import { ENTRY_KINDS, type SuppressionKind, type SuppressionTarget } from "../../core/mail/suppression.ts";
import { type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findContactId, findContactStops } from "../../store/mail/contacts/contact-profiles.ts";
import { streamSuppressions } from "../../store/mail/contacts/suppression-list.ts";
import { removeSuppression, type SuppressionOwner } from "../../store/mail/contacts/suppressions.ts";
import { isWhitelisted, removeFromWhitelist } from "../../store/mail/contacts/whitelist.ts";
import { revalidateContact, takeBackUnsubscription } from "./contact-changes.ts";
import { listEntries, type Suppression } from "./list-entries.ts";

/** What somebody may put on a list. */
export const ADDED_KINDS = [...ENTRY_KINDS, "whitelist"] as const;
export type AddedKind = (typeof ADDED_KINDS)[number];

/**
 * Puts an address or a domain on a list, see `listEntries`. In force for every send that is accepted afterwards.
 * @returns whether it is new; refused: a kind that does not go with the target, and the invalidity of whitelisted addresses
 */
export async function suppress(
  db: Db,
  owner: SuppressionOwner,
  entry: Suppression,
): Promise<Result<"added" | "changed", Sentence>> {
  const unfit = findUnfitKind(owner, entry.target, entry.kind);
  if (unfit) return refuse(unfit);
  const [listed] = await listEntries(db, owner, [entry]);
  return listed!;
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

/** What became of taking an entry off. What a person unsubscribed from is the person's own, what was brought in is not. */
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
  if (owner === "operator" || contactId === undefined || kind !== "unsubscribed") return "unknown";
  if (await takeBackUnsubscription(db, owner.instanceId, contactId)) return "removed";
  const stops = await findContactStops(db, owner.instanceId, key);
  return stops?.unsubscribed ? "own-unsubscription" : "unknown";
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
  const isTakenBack = stops?.unsubscribed === true && (await unsuppress(db, owner, key, "unsubscribed")) === "removed";
  if (hadRow || isWhite || isRevalidated || isTakenBack) return "removed";
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
