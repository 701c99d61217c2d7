import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { type ResourceRecord, readRecords } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { serialIsAhead } from "../../core/dns/serial.ts";
import { encodeSoaRdata } from "../../core/dns/soa.ts";
import { exactKey } from "../../core/dns/zone-edit.ts";
import type { Steps } from "../../core/steps.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { inSnapshot } from "../transactions.ts";
import { type SoaRow, soaOf, zoneName } from "./zones.ts";

/** A zone as whoever asks for a transfer names it. */
export interface TransferableZone {
  readonly id: number;
  /** Text form, as `zones.name`. */
  readonly name: string;
  /** Of a customer's zone or a catalog; null for a feed. */
  readonly resellerId: string | null;
  readonly published: boolean;
}

/** What brings a secondary from its version of a zone to ours, which `newSoa` is of. */
export type ZoneDifference =
  /** Its version is ours, or ahead of it. */
  | { readonly kind: "current"; readonly newSoa: ResourceRecord }
  | {
      readonly kind: "difference";
      readonly oldSoa: ResourceRecord;
      readonly newSoa: ResourceRecord;
      readonly deleted: readonly ResourceRecord[];
      readonly added: readonly ResourceRecord[];
    }
  /** The journal does not reach back, the version may be one of a former zone of the name, or the whole zone has fewer records. */
  | { readonly kind: "whole-zone"; readonly newSoa: ResourceRecord }
  /** The whole zone as well: the journal cannot be read. */
  | { readonly kind: "corrupt-journal"; readonly newSoa: ResourceRecord; readonly err: unknown };

/** From so many octets of journal on the whole zone is sent: to condense more would take too long. */
const MOST_JOURNAL_OCTETS = 8 * 2 ** 20;
/** So many are condensed for anybody at any time. */
const SMALL_JOURNAL_OCTETS = 64 * 1024;
/** A zone with fewer records than one for so many octets of a journal that is not small is sent whole, unread what its journal has. */
const OCTETS_A_RECORD = 500;
/** Versions of the journal that are read at a time, from the newest back. */
const VERSIONS_A_PAGE = 200;

/** @param apex wire form, lower case */
export async function findTransferableZone(db: Db, apex: Uint8Array): Promise<TransferableZone | undefined> {
  const [row] = await queryRows<{ id: number; name: string; reseller_id: string | null; published: boolean }>(
    db,
    `select id, name, reseller_id, not suspended and not company_suspended as published
       from zones where name = $1`,
    // The name has an index, as it is looked up at each transfer.
    [zoneName(nameFromStoredWire(apex))],
    { name: "find-transferable-zone" },
  );
  return row && { id: row.id, name: row.name, resellerId: row.reseller_id, published: row.published };
}

/** What is left of versions of the journal, taken together. */
interface Condensed {
  readonly oldSoa: ResourceRecord;
  readonly deleted: readonly ResourceRecord[];
  readonly added: readonly ResourceRecord[];
}

/** What the journal has, or why it is of no use. */
type Found =
  | Exclude<ZoneDifference, { readonly kind: "difference" }>
  | ({ readonly kind: "versions"; readonly newSoa: ResourceRecord } & FoundVersions);

interface FoundVersions {
  /** Newest first. */
  readonly versions: readonly number[];
  readonly octets: number;
}

/**
 * The condensed difference from a serial to the zone as it is (RFC 1995 §4, §5): what was added and deleted again in
 * between is left out. Undefined when the zone is gone.
 * @param mayBeLarge is asked where it takes much time, and memory for as long as it is kept: if not, the whole zone is to be sent.
 *   No connection is held meanwhile
 */
export async function readZoneDifference(
  db: Db,
  zoneId: number,
  sinceSerial: number,
  mayBeLarge: () => Promise<boolean>,
): Promise<ZoneDifference | undefined> {
  const found = await inSnapshot(db, (snapshot) => findVersions(snapshot, zoneId, sinceSerial));
  if (found?.kind !== "versions") return found;
  const { newSoa, versions, octets } = found;
  if (octets > SMALL_JOURNAL_OCTETS && !(await mayBeLarge())) return { kind: "whole-zone", newSoa };
  const contents = await readContents(db, zoneId, versions);
  // Upkeep of the journal, or the zone's end, came between.
  if (contents.length < versions.length) return { kind: "whole-zone", newSoa };
  const condensed = await runInTurns(condense(contents)).catch((err: unknown) => ({ err }));
  if ("err" in condensed) return { kind: "corrupt-journal", newSoa, err: condensed.err };
  // Four SOAs against two (RFC 1995 §4, RFC 5936 §2.2).
  const isSmaller = await hasFewerRecords(db, zoneId, condensed.deleted.length + condensed.added.length + 2);
  return isSmaller ? { kind: "whole-zone", newSoa } : { kind: "difference", newSoa, ...condensed };
}

async function findVersions(snapshot: Db, zoneId: number, sinceSerial: number): Promise<Found | undefined> {
  const soa = await readSoa(snapshot, zoneId);
  if (!soa) return undefined;
  const { serial, record: newSoa } = soa;
  if (sinceSerial === serial || serialIsAhead(sinceSerial, serial)) return { kind: "current", newSoa };
  if (await mayBeFormer(snapshot, newSoa.owner, sinceSerial)) return { kind: "whole-zone", newSoa };
  const journal = await findJournal(snapshot, zoneId, sinceSerial, serial);
  if (!journal) return { kind: "whole-zone", newSoa };
  const { octets } = journal;
  const isOfFew =
    octets > SMALL_JOURNAL_OCTETS && (await hasFewerRecords(snapshot, zoneId, Math.ceil(octets / OCTETS_A_RECORD)));
  return isOfFew ? { kind: "whole-zone", newSoa } : { kind: "versions", newSoa, ...journal };
}

async function readSoa(db: Db, zoneId: number): Promise<{ serial: number; record: ResourceRecord } | undefined> {
  const [row] = await queryRows<SoaRecordRow>(
    db,
    "select apex, ttl, mname, rname, serial, refresh, retry, expire, minimum from zones where id = $1",
    [zoneId],
  );
  if (!row) return undefined;
  const record = {
    owner: nameFromStoredWire(row.apex),
    type: TYPE.SOA,
    ttl: row.ttl,
    rdata: encodeSoaRdata(soaOf(row)),
  };
  return { serial: row.serial, record };
}

/**
 * Whether a serial may be one of a zone of the name that was deleted: no zone has had it that is not behind its last one
 * (RFC 1982 §3.2). Deletions are remembered for longer than secondaries answer without news.
 */
async function mayBeFormer(db: Db, apex: DomainName, serial: number): Promise<boolean> {
  const rows = await queryRows<{ serial: number | null }>(
    db,
    "select distinct serial from zone_deletions where apex = $1",
    [Buffer.from(apex.key, "latin1")],
  );
  return rows.some((former) => former.serial === null || !serialIsAhead(serial, former.serial));
}

/** The versions from one serial to another, and their octets; undefined when one is missing or they are too large. */
async function findJournal(
  db: Db,
  zoneId: number,
  fromSerial: number,
  toSerial: number,
): Promise<FoundVersions | undefined> {
  const versions: number[] = [];
  let wantedSerial = toSerial;
  let octets = 0;
  for (;;) {
    const before = versions.at(-1) ?? null;
    const rows: JournalRow[] = await queryRows<JournalRow>(
      db,
      `select version, serial_before, serial, octet_length(deleted) + octet_length(added)
              + coalesce(octet_length(derived_deleted), 0) + coalesce(octet_length(derived_added), 0) as octets
         from zone_journal where zone_id = $1 and ($2::bigint is null or version < $3)
        order by version desc limit $4`,
      [zoneId, before, before, VERSIONS_A_PAGE],
    );
    for (const row of rows) {
      octets += row.octets;
      // A change that the journal does not hold leaves a gap between the serials.
      if (row.serial !== wantedSerial || row.serial_before === null || octets > MOST_JOURNAL_OCTETS) return undefined;
      versions.push(row.version);
      wantedSerial = row.serial_before;
      if (wantedSerial === fromSerial) return { versions, octets };
    }
    if (rows.length < VERSIONS_A_PAGE) return undefined;
  }
}

/** A version as the journal has it. */
interface StoredVersion {
  readonly deleted: Buffer;
  readonly added: Buffer;
}

/** Oldest first. */
function readContents(db: Db, zoneId: number, versions: readonly number[]): Promise<StoredVersion[]> {
  return queryRows<StoredVersion>(
    db,
    `select deleted || coalesce(derived_deleted, '') as deleted, added || coalesce(derived_added, '') as added
       from zone_journal where zone_id = $1 and version = any($2::bigint[]) order by version`,
    [zoneId, versions],
  );
}

/** A step a record. @throws where they cannot be read */
function* condense(versions: readonly StoredVersion[]): Steps<Condensed> {
  const deleted = new Map<string, ResourceRecord>();
  const added = new Map<string, ResourceRecord>();
  let oldSoa: ResourceRecord | undefined;
  for (const version of versions) {
    const soa = yield* move(version.deleted, added, deleted);
    oldSoa ??= soa;
    yield* move(version.added, deleted, added);
  }
  return { oldSoa: oldSoa!, deleted: [...deleted.values()], added: [...added.values()] };
}

/** Takes records back out of one side where they stand, and puts them on the other where not. @returns the SOA before them */
function* move(
  octets: Uint8Array,
  from: Map<string, ResourceRecord>,
  to: Map<string, ResourceRecord>,
): Steps<ResourceRecord> {
  const records = readRecords(octets);
  const soa = records.next().value;
  if (soa?.type !== TYPE.SOA) throw new Error("stored version is corrupt: it does not begin with a SOA");
  for (const record of records) {
    const key = exactKey(record);
    if (!from.delete(key)) to.set(key, record);
    yield;
  }
  return soa;
}

async function hasFewerRecords(db: Db, zoneId: number, limit: number): Promise<boolean> {
  const [row] = await queryRows<{ count: number }>(
    db,
    `select count(*) as count from (
       select 1 from records where zone_id = $1 union all select 1 from derived_records where zone_id = $2 limit $3
     ) counted`,
    [zoneId, zoneId, limit],
  );
  return row!.count < limit;
}

interface SoaRecordRow extends SoaRow {
  readonly apex: Buffer;
  readonly ttl: number;
}

interface JournalRow {
  readonly version: number;
  readonly serial_before: number | null;
  readonly serial: number;
  readonly octets: number;
}
