import { createHash } from "node:crypto";
import type { DomainName } from "../name.ts";

/** What a key is for: the key set alone, all other data, or both. */
export type KeyRole = "ksk" | "zsk" | "csk";
export const KEY_ROLES = ["ksk", "zsk", "csk"] as const;

/** Flags of a DNSKEY: a zone key (RFC 4034 §2.1.1), and one that a DS may point to (RFC 3757 §2, the SEP bit). */
const ZONE_KEY = 0x0100;
const SECURE_ENTRY_POINT = 0x0001;
/** A key that must not be a trust anchor any more (RFC 5011 §7). */
const REVOKED = 0x0080;
/** The one value of the protocol field (RFC 4034 §2.1.2). */
export const DNSSEC_PROTOCOL = 3;
const FIXED_OCTETS = 4;

/** RDATA of the DNSKEY; that of a CDNSKEY is the same (RFC 7344 §3.2). @see RFC 4034 §2.1 */
export function dnskeyRdata(role: KeyRole, algorithm: number, publicKey: Uint8Array): Uint8Array {
  const flags = role === "zsk" ? ZONE_KEY : ZONE_KEY | SECURE_ENTRY_POINT;
  return Uint8Array.from([flags >> 8, flags & 0xff, DNSSEC_PROTOCOL, algorithm, ...publicKey]);
}

/** Whether flags are those of a zone's key that is not revoked, and nothing besides. */
export function isZoneKey(flags: number): boolean {
  return (flags & ~SECURE_ENTRY_POINT) === ZONE_KEY;
}

/** The parts of a DNSKEY's lawful RDATA. */
export function readDnskey(rdata: Uint8Array): {
  readonly flags: number;
  readonly protocol: number;
  readonly isEntryPoint: boolean;
  readonly isRevoked: boolean;
  readonly algorithm: number;
  readonly publicKey: Uint8Array;
} {
  const flags = (rdata[0]! << 8) | rdata[1]!;
  return {
    flags,
    protocol: rdata[2]!,
    isEntryPoint: (flags & SECURE_ENTRY_POINT) !== 0,
    isRevoked: (flags & REVOKED) !== 0,
    algorithm: rdata[3]!,
    publicKey: rdata.subarray(FIXED_OCTETS),
  };
}

/** RFC 4034 appendix B; not for algorithm 1. */
export function keyTag(rdata: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < rdata.length; index += 1) sum += index & 1 ? rdata[index]! : rdata[index]! << 8;
  return (sum + (sum >> 16)) & 0xffff;
}

/** Digest type SHA-256 (RFC 4509). */
const SHA_256 = 2;

/** What parents make digests with, by type: SHA-1 (RFC 4034 §5.1.3), SHA-256, SHA-384 (RFC 6605 §2). */
const DIGESTS: ReadonlyMap<number, string> = new Map([
  [1, "sha1"],
  [SHA_256, "sha256"],
  [4, "sha384"],
]);
const DIGEST_TYPE_AT = 3;

/** RDATA of the DS for a DNSKEY, with SHA-256; that of a CDS is the same (RFC 7344 §3.1). @see RFC 4034 §5.1 */
export function dsRdata(owner: DomainName, dnskey: Uint8Array): Uint8Array {
  return digestedDs(owner, dnskey, SHA_256, "sha256");
}

/**
 * Whether a DS points to this DNSKEY: a parent that reads CDNSKEY chooses the digest itself (RFC 7344 §5).
 * @param ds RDATA
 */
export function isDsOf(ds: Uint8Array, owner: DomainName, dnskey: Uint8Array): boolean {
  const digestType = ds[DIGEST_TYPE_AT] ?? 0;
  const hash = DIGESTS.get(digestType);
  return hash !== undefined && Buffer.compare(ds, digestedDs(owner, dnskey, digestType, hash)) === 0;
}

function digestedDs(owner: DomainName, dnskey: Uint8Array, digestType: number, hash: string): Uint8Array {
  // RFC 4034 §5.1.4: over the canonical owner name, so in lower case, and the key's RDATA.
  const digest = createHash(hash).update(Buffer.from(owner.key, "latin1")).update(dnskey).digest();
  const tag = keyTag(dnskey);
  return Uint8Array.from([tag >> 8, tag & 0xff, readDnskey(dnskey).algorithm, digestType, ...digest]);
}

/** RFC 8078 §4: a CDS and a CDNSKEY that ask the parent to remove its DS. */
export const DELETE_CDS = Uint8Array.of(0, 0, 0, 0, 0);
export const DELETE_CDNSKEY = Uint8Array.of(0, 0, 3, 0, 0);

/** The tag of the key that a DS points to. @param rdata lawful RDATA of a DS or CDS */
export function readDsKeyTag(rdata: Uint8Array): number {
  return (rdata[0]! << 8) | rdata[1]!;
}
