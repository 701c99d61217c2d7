import { judgeRrset, type Token } from "../../core/dns/token.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type CommentChange, commentOctets, measureComments } from "../../store/dns/powerdns-zones.ts";

/** Of the remarks of a zone together: they are no records, and no quota counts them. */
const MOST_OCTETS = 2 ** 20;

/**
 * Judges remarks that are to be put in place: those on an RRset are for who may change it, and all of a zone have a bound.
 * @param zoneId undefined of a zone that is to be made
 */
export async function judgeComments(
  db: Db,
  token: Token | undefined,
  changes: readonly CommentChange[],
  zoneId: number | undefined,
): Promise<Refusal | undefined> {
  if (changes.length === 0) return undefined;
  for (const { owner, type } of changes) {
    const refused = token && judgeRrset(token, { owner, type, verb: "modify" });
    if (refused) return refused;
  }
  const kept = zoneId === undefined ? 0 : await measureComments(db, zoneId, changes);
  const isTooMuch = kept + commentOctets(changes) > MOST_OCTETS;
  return isTooMuch ? unacceptable("pdns-too-much", { field: "comments", most: MOST_OCTETS }) : undefined;
}
