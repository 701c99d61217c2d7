import {
  type DomainName,
  labelsOf,
  nameFromLabels,
  nameSortKey,
  parentOf,
  parseDomainName,
} from "../../core/dns/name.ts";
import { decodeRpzRule, formatRpzTrigger } from "../../core/dns/rpz/rules.ts";
import { SafeNames } from "../../core/dns/rpz/safe-names.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { readRecordsAt, readRecordsBelow } from "../../store/dns/records.ts";
import type { StoredRecord } from "../../store/dns/zone-edit.ts";
import { findAnyZone, type Zone, zoneName } from "../../store/dns/zones.ts";
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
  return new SafeNames((await listSafeNames(db)).map(storedName));
}

/** In canonical order. */
export async function listSafeNames(db: Db): Promise<string[]> {
  const rows = await db("rpz_safe_names").select("name").orderBy("name_key");
  return rows.map(({ name }) => name);
}

/** Makes a name safe. Rules of any feed that cover it, or names below it, are removed: nothing blocks it from now on. */
export function addSafeName(
  db: Db,
  name: DomainName,
  actor: string,
): Promise<{ readonly removed: RemovedRule[]; readonly zoneIds: number[] }> {
  return inTransaction(db, async (transaction) => {
    // All feeds are locked first, so that no rule comes in between.
    const feeds = await transaction("zones").where({ kind: "feed" }).orderBy("id").forUpdate().select("name");
    await transaction("rpz_safe_names")
      .insert({ name: zoneName(name), name_key: nameSortKey(name.wire) })
      .onConflict()
      .ignore();
    const removed: RemovedRule[] = [];
    const zoneIds: number[] = [];
    for (const { name: feedName } of feeds) {
      const feed = (await findAnyZone(transaction, storedName(feedName))) as Zone;
      const records = await findCoveringRules(transaction, feed, name);
      if (records.length === 0) continue;
      await removeFeedRecords(transaction, feed, records, actor);
      zoneIds.push(feed.id);
      for (const trigger of triggersOf(records, feed)) removed.push({ zone: feed.name, trigger });
    }
    return { removed, zoneIds };
  });
}

/** @returns false when the name was not safe */
export async function removeSafeName(db: Db, name: DomainName): Promise<boolean> {
  return (
    (await db("rpz_safe_names")
      .where({ name: zoneName(name) })
      .delete()) > 0
  );
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
    for (let above = parentOf(name); above && above.labelCount > 0; above = parentOf(above)) {
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
  const triggers = records.flatMap((record) => {
    const rule = decodeRpzRule(record, feed.apex);
    return rule.ok ? formatRpzTrigger(rule.value.trigger) : [];
  });
  return [...new Set(triggers)];
}

function storedName(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(`stored name ${text} is corrupt: ${name.error.message}`);
  return name.value;
}
