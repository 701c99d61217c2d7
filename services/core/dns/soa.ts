import { type DomainName, domainNameFromWire } from "./name.ts";
import type { ResourceRecord } from "./record.ts";
import { TYPE } from "./rr-types.ts";

/** The fields of a SOA record; times in seconds. @see RFC 1035 §3.3.13, RFC 2308 §4 */
export interface SoaRdata {
  /** Name of the primary server. */
  readonly mname: DomainName;
  /** Mailbox of the person responsible, its first label the local part. */
  readonly rname: DomainName;
  readonly serial: number;
  readonly refresh: number;
  readonly retry: number;
  readonly expire: number;
  /** TTL of negative answers, together with the SOA's own. */
  readonly minimum: number;
}

/** RDATA in wire form, uncompressed. */
export function encodeSoaRdata(soa: SoaRdata): Uint8Array {
  const rdata = new Uint8Array(soa.mname.wire.length + soa.rname.wire.length + 20);
  rdata.set(soa.mname.wire);
  rdata.set(soa.rname.wire, soa.mname.wire.length);
  const view = new DataView(rdata.buffer, soa.mname.wire.length + soa.rname.wire.length);
  [soa.serial, soa.refresh, soa.retry, soa.expire, soa.minimum].forEach((field, index) => {
    view.setUint32(index * 4, field);
  });
  return rdata;
}

/**
 * Reads RDATA that has been checked before (`parseRdata`, `checkRdataWire`).
 * @throws when the octets are no SOA: a bug, or a corrupt store
 */
export function decodeSoaRdata(rdata: Uint8Array): SoaRdata {
  const mname = domainNameFromWire(rdata);
  const rname = mname.ok ? domainNameFromWire(rdata, mname.value.wire.length) : mname;
  if (!mname.ok || !rname.ok) throw new Error("not the RDATA of a SOA record: its names are malformed");
  const offset = mname.value.wire.length + rname.value.wire.length;
  if (rdata.length !== offset + 20) throw new Error(`not the RDATA of a SOA record: ${rdata.length} octets`);
  const view = new DataView(rdata.buffer, rdata.byteOffset + offset, 20);
  return {
    mname: mname.value,
    rname: rname.value,
    serial: view.getUint32(0),
    refresh: view.getUint32(4),
    retry: view.getUint32(8),
    expire: view.getUint32(12),
    minimum: view.getUint32(16),
  };
}

/** Whether two are alike but for their serials. */
export function sameSoaValues(a: SoaRdata, b: SoaRdata): boolean {
  return Buffer.compare(encodeSoaRdata({ ...a, serial: 0 }), encodeSoaRdata({ ...b, serial: 0 })) === 0;
}

/** The SOA record of a zone. */
export function soaRecord(apex: DomainName, soa: SoaRdata, ttl: number): ResourceRecord {
  return { owner: apex, type: TYPE.SOA, ttl, rdata: encodeSoaRdata(soa) };
}
