import { type DomainName, MAX_NAME_OCTETS } from "../../core/dns/name.ts";
import { RPZ_TTL_SECONDS } from "../../core/dns/rpz/rules.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { nextSerial } from "../../core/dns/serial.ts";
import type { RecordRows, StoredRecord } from "../../core/dns/zone-edit.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { findReseller } from "../../store/dns/resellers.ts";
import {
  addTriggers,
  countTriggersLeft,
  findFeed,
  insertFeed,
  lockFeed,
  writeActivation,
} from "../../store/dns/rpz-feeds.ts";
import { deleteZonesWhere, type Zone, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { checkOperatorZoneName, insertOperatorZone, topLevelName } from "./operator-zones.ts";
import { changeZone, type ZoneTarget } from "./zone-changes.ts";
import type { ZoneCreated } from "./zone-creation.ts";

const DAY_SECONDS = 86_400;

/** How long a consumer that cannot reach us goes on with what it has. */
const EXPIRE_SECONDS = 30 * DAY_SECONDS;

/** What leaves room for the longest trigger of an address: a prefix, eight words, and `rpz-client-ip`. */
const MOST_APEX_OCTETS = MAX_NAME_OCTETS - (1 + 3) - 8 * (1 + 4) - (1 + 13);

/**
 * Adds a feed without rules: SOA, and the NS that every zone has to have and no consumer looks at. It is the operator's
 * own: it may have any name, public suffixes and single labels included.
 */
export function addFeed(db: Db, apex: DomainName, actor: string): Promise<Result<ZoneCreated, Refusal>> {
  const lawful = checkOperatorZoneName(apex, MOST_APEX_OCTETS);
  if (!lawful.ok) return Promise.resolve(lawful);
  return inTransaction(db, async (transaction) => {
    const times = {
      refresh: RPZ_TTL_SECONDS,
      retry: RPZ_TTL_SECONDS,
      expire: EXPIRE_SECONDS,
      minimum: RPZ_TTL_SECONDS,
    };
    const soa = { mname: LOCALHOST, rname: LOCALHOST, serial: 1, ...times };
    const records = [{ owner: apex, type: TYPE.NS, ttl: RPZ_TTL_SECONDS, rdata: LOCALHOST.wire }];
    const owner = { resellerId: null, maker: "operator" } as const;
    const zone = { apex, kind: "feed" as const, ...owner, soa, ttl: RPZ_TTL_SECONDS, records };
    const added = await insertOperatorZone(transaction, zone, actor);
    if (!added.ok) return added;
    const { id, warnings } = added.value;
    await insertFeed(transaction, id);
    return ok({ zone: (await findFeed(transaction, apex)) as Zone, warnings });
  });
}

/** Removes a feed with its rules and activations. @returns its id */
export async function removeFeed(db: Db, apex: DomainName): Promise<Result<number, Refusal>> {
  const [id] = await deleteZonesWhere(db, "name = $1 and kind = 'feed'", [zoneName(apex)]);
  return id === undefined ? refuse(feedDoesNotExist(apex)) : ok(id);
}

export function feedDoesNotExist(apex: DomainName): Refusal {
  return unacceptable("feed-unknown", { zone: zoneName(apex) });
}

/** Lets a reseller that has the licence use a feed, or no longer. Doing so again changes nothing. */
export async function setFeedActive(
  db: Db,
  apex: DomainName,
  resellerId: string,
  active: boolean,
): Promise<Result<void, Refusal>> {
  const feed = await findFeed(db, apex);
  if (!feed) return refuse(feedDoesNotExist(apex));
  const reseller = await findReseller(db, resellerId);
  if (!reseller) return refuse(unacceptable("reseller-unknown", { id: resellerId }));
  if (active && !reseller.rpzLicence) return refuse(unacceptable("reseller-without-rpz-licence", { id: resellerId }));
  await writeActivation(db, feed.id, resellerId, active);
  return ok(undefined);
}

/**
 * Works on a feed's rules with the feed locked, so that what was read is still so when it is written, and no rule
 * comes while a name is made safe.
 */
export function withLockedFeed<T>(
  db: Db,
  apex: DomainName,
  work: (transaction: Transaction, feed: Zone) => Promise<Result<T, Refusal>>,
): Promise<Result<T, Refusal>> {
  return inTransaction(db, async (transaction) => {
    const feed = await lockFeed(transaction, apex);
    return feed ? work(transaction, feed) : refuse(feedDoesNotExist(apex));
  });
}

/**
 * Writes a change of a locked feed's rules: records, the next serial, the journal, the count of triggers.
 * @param rows.triggers how many triggers more there are, or fewer
 * @returns the feed as it is now, and the ids of the records created
 */
export async function changeFeed(
  transaction: Transaction,
  feed: Zone,
  rows: {
    readonly created: RecordRows["created"];
    readonly deleted: readonly StoredRecord[];
    readonly triggers: number;
  },
  actor: string,
): Promise<{ readonly feed: Zone; readonly createdIds: readonly number[] }> {
  const serial = nextSerial(feed.soa.serial, feed.serialType, new Date(0));
  if (!serial.ok) throw new Error(`the serial of ${feed.name} cannot go on: ${serial.error.message}`);
  const { created, deleted } = rows;
  const change = {
    soa: { ...feed.soa, serial: serial.value },
    ttl: feed.ttl,
    rows: { created, updated: [], deletedIds: deleted.map(({ id }) => id) },
    difference: { deleted, added: created },
  };
  const target: ZoneTarget = { scope: {}, apex: feed.apex, domain: feed.name, actor };
  const changed = await changeZone(transaction, target, async () => ok({ zone: feed, change, warnings: [] }));
  if (!changed.ok) throw new Error(`a locked feed could not be changed: ${JSON.stringify(changed.error)}`);
  await addTriggers(transaction, feed, rows.triggers);
  return { feed: changed.value.zone, createdIds: changed.value.createdIds };
}

/** Removes records of a locked feed. @returns the feed as it is now */
export async function removeFeedRecords(
  transaction: Transaction,
  feed: Zone,
  records: readonly StoredRecord[],
  actor: string,
): Promise<Zone> {
  const owners = [...new Map(records.map(({ owner }) => [owner.key, owner])).values()];
  const ids = records.map(({ id }) => id);
  const left = await countTriggersLeft(transaction, feed, owners, ids);
  const rows = { created: [], deleted: records, triggers: left - owners.length };
  return (await changeFeed(transaction, feed, rows, actor)).feed;
}

/** RFC 6761 §6.3: what a policy zone's SOA and NS name, as nobody is to ask for them. */
const LOCALHOST = topLevelName("localhost");
