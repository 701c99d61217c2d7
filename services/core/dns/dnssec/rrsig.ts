import type { KeyObject } from "node:crypto";
import { type DomainName, isWildcard } from "../name.ts";
import { canonicalRdata, type ResourceRecord } from "../record.ts";
import { CLASS, TYPE } from "../rr-types.ts";
import { isSignatureOf, isSigningAlgorithm, publicKeyFrom, type SigningAlgorithm, signOctets } from "./algorithm.ts";
import { keyTag, readDnskey } from "./dnskey.ts";

/** A private key as signatures name it. */
export interface SigningKey {
  readonly algorithm: SigningAlgorithm;
  readonly keyTag: number;
  readonly privateKey: KeyObject;
}

/** From when until when a signature holds, in seconds since 1970. */
export interface SignatureWindow {
  readonly inception: number;
  readonly expiration: number;
}

/** Octets of an RRSIG's RDATA before the signer's name (RFC 4034 §3.1). */
const FIXED_OCTETS = 18;

/**
 * Signs an RRset.
 * @param rrset its records, at least one, all of one owner, type and TTL
 * @param signer the zone's apex
 * @see RFC 4034 §3.1.8.1
 */
export function signRrset(
  rrset: readonly ResourceRecord[],
  signer: DomainName,
  key: SigningKey,
  window: SignatureWindow,
): ResourceRecord {
  const { owner, ttl } = rrset[0]!;
  const head = signatureHead(rrset[0]!, signer, key, window);
  const signature = signOctets(key.algorithm, key.privateKey, signedOctets(head, rrset));
  const rdata = new Uint8Array(head.length + signature.length);
  rdata.set(head);
  rdata.set(signature, head.length);
  return { owner, type: TYPE.RRSIG, ttl, rdata };
}

/** What a lawful RRSIG says of itself. */
export interface RrsigFacts {
  readonly typeCovered: number;
  readonly algorithm: number;
  readonly originalTtl: number;
  readonly expiration: number;
  readonly inception: number;
  readonly keyTag: number;
}

export function readRrsig(rdata: Uint8Array): RrsigFacts {
  const view = new DataView(rdata.buffer, rdata.byteOffset, rdata.length);
  return {
    typeCovered: view.getUint16(0),
    algorithm: view.getUint8(2),
    originalTtl: view.getUint32(4),
    expiration: view.getUint32(8),
    inception: view.getUint32(12),
    keyTag: view.getUint16(16),
  };
}

/**
 * Whether a signature is the key's and over just these records; its times are for the caller to judge.
 * @param dnskey RDATA of the DNSKEY
 */
export function isSignedBy(rrset: readonly ResourceRecord[], rrsig: Uint8Array, dnskey: Uint8Array): boolean {
  const { algorithm, publicKey } = readDnskey(dnskey);
  const facts = readRrsig(rrsig);
  if (!isSigningAlgorithm(algorithm) || algorithm !== facts.algorithm || keyTag(dnskey) !== facts.keyTag) return false;
  const key = publicKeyFrom(algorithm, publicKey);
  if (!key) return false;
  let headOctets = FIXED_OCTETS;
  while (rrsig[headOctets]! > 0) headOctets += rrsig[headOctets]! + 1;
  headOctets += 1;
  const octets = signedOctets(rrsig.subarray(0, headOctets), rrset);
  return isSignatureOf(algorithm, key, octets, rrsig.subarray(headOctets));
}

/** RDATA up to the signature. */
function signatureHead(
  { owner, type, ttl }: ResourceRecord,
  signer: DomainName,
  key: SigningKey,
  window: SignatureWindow,
): Uint8Array {
  // RFC 4034 §6.2 (2) and RFC 6840 §5.1: the signer's name is in lower case.
  const signerWire = Buffer.from(signer.key, "latin1");
  const head = new Uint8Array(FIXED_OCTETS + signerWire.length);
  const view = new DataView(head.buffer);
  view.setUint16(0, type);
  view.setUint8(2, key.algorithm);
  // RFC 4034 §3.1.3: an asterisk label is not counted.
  view.setUint8(3, owner.labelCount - (isWildcard(owner) ? 1 : 0));
  view.setUint32(4, ttl);
  view.setUint32(8, window.expiration);
  view.setUint32(12, window.inception);
  view.setUint16(16, key.keyTag);
  head.set(signerWire, FIXED_OCTETS);
  return head;
}

/** The RRSIG's own RDATA without the signature, then the records in canonical form and order (RFC 4034 §3.1.8.1, §6). */
function signedOctets(head: Uint8Array, rrset: readonly ResourceRecord[]): Uint8Array {
  const owner = Buffer.from(rrset[0]!.owner.key, "latin1");
  const { type } = rrset[0]!;
  const originalTtl = new DataView(head.buffer, head.byteOffset).getUint32(4);
  const rdatas = rrset.map(({ rdata }) => canonicalRdata(type, rdata));
  if (rdatas.length > 1) rdatas.sort(Buffer.compare);
  const octets = new Uint8Array(rdatas.reduce((sum, rdata) => sum + owner.length + 10 + rdata.length, head.length));
  octets.set(head);
  const view = new DataView(octets.buffer);
  let offset = head.length;
  for (const rdata of rdatas) {
    octets.set(owner, offset);
    offset += owner.length;
    view.setUint16(offset, type);
    view.setUint16(offset + 2, CLASS.IN);
    view.setUint32(offset + 4, originalTtl);
    view.setUint16(offset + 8, rdata.length);
    octets.set(rdata, offset + 10);
    offset += 10 + rdata.length;
  }
  return octets;
}
