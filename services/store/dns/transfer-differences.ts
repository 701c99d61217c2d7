import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { decodeRecords, type ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { serialIsAhead } from "../../core/dns/serial.ts";
import { encodeSoaRdata } from "../../core/dns/soa.ts";
import { exactKey } from "../../core/dns/zone-edit.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
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

/** From so many octets of journal on the whole zone is sent: to condense more would hold up everybody else. */
const MOST_JOURNAL_OCTETS = 8 * 2 ** 20;
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

/**
 * The condensed difference from a serial to the zone as it is (RFC 1995 §4, §5): what was added and deleted again in
 * between is left out. Undefined when the zone is gone.
 */
export function readZoneDifference(db: Db, zoneId: number, sinceSerial: number): Promise<ZoneDifference | undefined> {
  return inSnapshot(db, async (snapshot) => {
    const soa = await readSoa(snapshot, zoneId);
    if (!soa) return undefined;
    const { serial, record: newSoa } = soa;
    if (sinceSerial === serial || serialIsAhead(sinceSerial, serial)) return { kind: "current", newSoa };
    if (await mayBeFormer(snapshot, newSoa.owner, sinceSerial)) return { kind: "whole-zone", newSoa };
    const versions = await readVersions(snapshot, zoneId, sinceSerial, serial);
    if (!versions) return { kind: "whole-zone", newSoa };
    const decoded = decodeVersions(versions);
    if (decoded.kind === "corrupt-journal") return { ...decoded, newSoa };
    const { oldSoa, deleted, added } = condense(decoded.versions);
    // Four SOAs against two (RFC 1995 §4, RFC 5936 §2.2).
    const isSmaller = await hasFewerRecords(snapshot, zoneId, deleted.length + added.length + 2);
    return isSmaller ? { kind: "whole-zone", newSoa } : { kind: "difference", oldSoa, newSoa, deleted, added };
  });
}

/** The records of one version, the SOA first in each list. */
interface Version {
  readonly deleted: readonly ResourceRecord[];
  readonly added: readonly ResourceRecord[];
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

/** The versions from one serial to another, oldest first; undefined when one is missing or they are too large. */
async function readVersions(
  db: Db,
  zoneId: number,
  fromSerial: number,
  toSerial: number,
): Promise<StoredVersion[] | undefined> {
  const versions: StoredVersion[] = [];
  let wantedSerial = toSerial;
  let octets = 0;
  let before: number | null = null;
  for (;;) {
    const rows: JournalRow[] = await queryRows<JournalRow>(
      db,
      `select version, serial_before, serial, octet_length(deleted) + octet_length(added)
              + coalesce(octet_length(derived_deleted), 0) + coalesce(octet_length(derived_added), 0) as octets
         from zone_journal where zone_id = $1 and ($2::bigint is null or version < $3)
        order by version desc limit $4`,
      [zoneId, before, before, VERSIONS_A_PAGE],
    );
    const wanted: number[] = [];
    for (const row of rows) {
      octets += row.octets;
      // A change that the journal does not hold leaves a gap between the serials.
      if (row.serial !== wantedSerial || row.serial_before === null || octets > MOST_JOURNAL_OCTETS) return undefined;
      wanted.push(row.version);
      wantedSerial = row.serial_before;
      if (wantedSerial === fromSerial) break;
    }
    versions.unshift(...(await readContents(db, zoneId, wanted)));
    if (wantedSerial === fromSerial) return versions;
    if (rows.length < VERSIONS_A_PAGE) return undefined;
    before = rows.at(-1)!.version;
  }
}

/** A version as the journal has it. */
interface StoredVersion {
  readonly deleted: Buffer;
  readonly added: Buffer;
}

function readContents(db: Db, zoneId: number, versions: readonly number[]): Promise<StoredVersion[]> {
  return queryRows<StoredVersion>(
    db,
    `select deleted || coalesce(derived_deleted, '') as deleted, added || coalesce(derived_added, '') as added
       from zone_journal where zone_id = $1 and version = any($2::bigint[]) order by version`,
    [zoneId, versions],
  );
}

function decodeVersions(
  versions: readonly StoredVersion[],
):
  | { readonly kind: "decoded"; readonly versions: readonly Version[] }
  | { readonly kind: "corrupt-journal"; readonly err: unknown } {
  try {
    return { kind: "decoded", versions: versions.map(decodeVersion) };
  } catch (err) {
    return { kind: "corrupt-journal", err };
  }
}

function decodeVersion({ deleted, added }: StoredVersion): Version {
  return { deleted: decodeSide(deleted), added: decodeSide(added) };
}

/** @throws where they cannot be read */
function decodeSide(octets: Buffer): ResourceRecord[] {
  const records = decodeRecords(octets);
  if (records[0]?.type !== TYPE.SOA) throw new Error("stored version is corrupt: it does not begin with a SOA");
  return records;
}

function condense(versions: readonly Version[]): Version & { readonly oldSoa: ResourceRecord } {
  const deleted = new Map<string, ResourceRecord>();
  const added = new Map<string, ResourceRecord>();
  for (const version of versions) {
    move(version.deleted.slice(1), added, deleted);
    move(version.added.slice(1), deleted, added);
  }
  return { oldSoa: versions[0]!.deleted[0]!, deleted: [...deleted.values()], added: [...added.values()] };
}

/** Takes records back out of one side where they stand, and puts them on the other where not. */
function move(
  records: readonly ResourceRecord[],
  from: Map<string, ResourceRecord>,
  to: Map<string, ResourceRecord>,
): void {
  for (const record of records) {
    const key = exactKey(record);
    if (!from.delete(key)) to.set(key, record);
  }
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
