import { type DomainName, formatDomainName, formatRelative, nameSortKey, portableName } from "../name.ts";
import { formatGenericRdata, formatRdata } from "../rdata/rdata.ts";
import { canonicalRdata, type ResourceRecord } from "../record.ts";
import { isPortableType, portableMnemonic } from "../rr-types.ts";

/** A zone to be written out. */
export interface ZoneToWrite {
  readonly apex: DomainName;
  readonly soa: ResourceRecord;
  /** All records but the SOA, in any order. */
  readonly records: readonly ResourceRecord[];
  /** The zone's TTL in seconds, for `$TTL`. */
  readonly ttl: number;
}

/**
 * Writes a master file: the SOA, then all records in canonical order (RFC 4034 §6.1, §6.3), one a line, TTLs
 * explicit, owners relative to the apex, names in data absolute. The same zone always gives the same octets.
 */
export function formatZoneFile(zone: ZoneToWrite): string {
  return formatZoneFileHead(zone) + formatRecordLines(zone.records, zone.apex);
}

/** What stands above a zone's records: the directives and the SOA. */
export function formatZoneFileHead({ apex, soa, ttl }: Omit<ZoneToWrite, "records">): string {
  return `$ORIGIN ${portableName(formatDomainName(apex))}\n$TTL ${ttl}\n${formatLine(soa, apex)}\n`;
}

/** Records in canonical order, a line each; a zone may be written in parts that hold whole names, in that order. */
export function formatRecordLines(records: readonly ResourceRecord[], apex: DomainName): string {
  return inCanonicalOrder(records)
    .map((record) => `${formatLine(record, apex)}\n`)
    .join("");
}

/** The records by owner (RFC 4034 §6.1), type code, and RDATA (RFC 4034 §6.3). */
export function inCanonicalOrder(records: readonly ResourceRecord[]): ResourceRecord[] {
  const ownerKeys = new Map<string, Uint8Array>();
  const keyed = records.map((record) => {
    let ownerKey = ownerKeys.get(record.owner.key);
    if (ownerKey === undefined) {
      ownerKey = nameSortKey(record.owner.wire);
      ownerKeys.set(record.owner.key, ownerKey);
    }
    return { record, ownerKey, rdata: canonicalRdata(record.type, record.rdata) };
  });
  keyed.sort((a, b) => {
    const byOwner = a.ownerKey === b.ownerKey ? 0 : Buffer.compare(a.ownerKey, b.ownerKey);
    return byOwner || a.record.type - b.record.type || Buffer.compare(a.rdata, b.rdata);
  });
  return keyed.map(({ record }) => record);
}

function formatLine({ owner, type, ttl, rdata }: ResourceRecord, apex: DomainName): string {
  const data = isPortableType(type) ? formatRdata(type, rdata, "master-file") : formatGenericRdata(rdata);
  return `${portableName(formatRelative(owner, apex))}\t${ttl}\tIN\t${portableMnemonic(type)}\t${data}`;
}
