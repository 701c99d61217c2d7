import type { DomainName } from "../name.ts";
import type { ResourceRecord } from "../record.ts";
import { TYPE } from "../rr-types.ts";
import { type Denial, NSEC3PARAM_RDATA } from "./denial.ts";
import { DELETE_CDNSKEY, DELETE_CDS, dnskeyRdata, dsRdata } from "./dnskey.ts";
import { type KeyLife, keysForParent } from "./rollover.ts";

/** A key with its public half as a DNSKEY holds it. */
export interface PublishedKey extends KeyLife {
  readonly publicKey: Uint8Array;
}

/** What the apex of a signed zone tells of its keys and its kind of denial. */
export function apexRecords(
  apex: DomainName,
  signing: { readonly keys: readonly PublishedKey[]; readonly denial: Denial; readonly dsWanted: boolean },
  keyTtlSeconds: number,
): ResourceRecord[] {
  const record = (type: number, rdata: Uint8Array, ttl = keyTtlSeconds) => ({ owner: apex, type, ttl, rdata });
  const records = signing.keys
    .filter(({ isPublished }) => isPublished)
    .map((key) => record(TYPE.DNSKEY, dnskeyOf(key)));
  // RFC 5155 §4: for servers alone, so that nobody needs to keep it.
  if (signing.denial === "nsec3") records.push(record(TYPE.NSEC3PARAM, NSEC3PARAM_RDATA, 0));
  if (!signing.dsWanted) return [...records, record(TYPE.CDS, DELETE_CDS), record(TYPE.CDNSKEY, DELETE_CDNSKEY)];
  for (const key of keysForParent(signing.keys)) {
    // RFC 7344 §4: both, as parents take the one or the other.
    records.push(record(TYPE.CDS, dsRdata(apex, dnskeyOf(key))), record(TYPE.CDNSKEY, dnskeyOf(key)));
  }
  return records;
}

/** RDATA of the key's DNSKEY. */
export function dnskeyOf({ role, algorithm, publicKey }: PublishedKey): Uint8Array {
  return dnskeyRdata(role, algorithm, publicKey);
}
