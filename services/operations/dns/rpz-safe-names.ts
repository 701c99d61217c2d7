import { type DomainName, labelsOf, nameFromLabels, nameFromStoredText, withAncestors } from "../../core/dns/name.ts";
import { showRpzRecord } from "../../core/dns/rpz/rules.ts";
import { SafeNames } from "../../core/dns/rpz/safe-names.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { readRecordsAt, readRecordsBelow } from "../../store/dns/records.ts";
import { lockAllFeeds } from "../../store/dns/rpz-feeds.ts";
import { insertSafeName, listSafeNames } from "../../store/dns/rpz-safe-names.ts";
import { findAnyZone, type Zone } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { removeFeedRecords } from "./rpz-feeds.ts";

/** A rule that went because its trigger's name became safe. */
export interface RemovedRule {
  readonly zone: string;
  readonly trigger: string;
}

const ASTERISK = Buffer.from("*");
const NSDNAME = Buffer.from("rpz-nsdname");
/** Rules below one name that can be removed at once; nobody blocks more below a name that is to be safe. */
const MOST_RULES_BELOW = 1_000_000;

export async function readSafeNames(db: Db): Promise<SafeNames> {
  return new SafeNames((await listSafeNames(db)).map(nameFromStoredText));
}

/** Makes a name safe. Rules of any feed that cover it, or names below it, are removed: nothing blocks it from now on. */
export function addSafeName(
  db: Db,
  name: DomainName,
  actor: string,
): Promise<{ readonly removed: RemovedRule[]; readonly zoneIds: number[] }> {
  return inTransaction(db, async (transaction) => {
    const feeds = await lockAllFeeds(transaction);
    await insertSafeName(transaction, name);
    const removed: RemovedRule[] = [];
    const zoneIds: number[] = [];
    for (const apex of feeds) {
      const feed = (await findAnyZone(transaction, apex)) as Zone;
      const records = await findCoveringRules(transaction, feed, name);
      if (records.length === 0) continue;
      await removeFeedRecords(transaction, feed, records, actor);
      zoneIds.push(feed.id);
      for (const trigger of triggersOf(records, feed)) removed.push({ zone: feed.name, trigger });
    }
    return { removed, zoneIds };
  });
}

/** The rules whose trigger is the name, below it, or a wildcard above it. */
async function findCoveringRules(transaction: Transaction, feed: Zone, name: DomainName): Promise<StoredRecord[]> {
  const found: StoredRecord[] = [];
  for (const marker of [[], [NSDNAME]]) {
    const within = (labels: readonly Uint8Array[]) => nameFromLabels([...labels, ...marker, ...labelsOf(feed.apex)]);
    const exact: DomainName[] = [];
    const own = within(labelsOf(name));
    if (own.ok) {
      exact.push(own.value);
      found.push(...(await readRecordsBelow(transaction, feed.id, own.value, MOST_RULES_BELOW)));
    }
    for (const above of withAncestors(name).slice(1)) {
      const wildcard = within([ASTERISK, ...labelsOf(above)]);
      if (wildcard.ok) exact.push(wildcard.value);
    }
    const everything = within([ASTERISK]);
    if (everything.ok) exact.push(everything.value);
    found.push(...(await readRecordsAt(transaction, feed.id, exact)));
  }
  return found;
}

function triggersOf(records: readonly StoredRecord[], feed: Zone): string[] {
  return [...new Set(records.map((record) => showRpzRecord(record, feed.apex).trigger))];
}
