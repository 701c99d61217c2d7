import { createHash } from "node:crypto";
import { DomainName, domainNameFromWire, labelsOf, nameFromLabels, nameSortKey } from "../name.ts";
import { encodeTypeBitmap, formatBase32Hex, parseBase32Hex } from "../rdata/encoded-fields.ts";
import { TYPE } from "../rr-types.ts";

/** How a zone proves what it does not have. */
export const DENIALS = ["nsec", "nsec3"] as const;
export type Denial = (typeof DENIALS)[number];

/**
 * A chain of denial records. Each has a position, a text whose order by code units is the chain's; each points to the
 * next, the last to the first.
 */
export interface DenialScheme {
  readonly kind: Denial;
  readonly type: typeof TYPE.NSEC | typeof TYPE.NSEC3;
  /** Where the record for a name stands. */
  positionOf(name: DomainName): string;
  /** Owner of the record at a position, in lower case. */
  ownerAt(position: string): DomainName;
  /** Position of a record by its owner. */
  positionOfOwner(owner: DomainName): string;
  /** RDATA of a record. @param types those that exist at the name */
  encode(next: string, types: Iterable<number>): Uint8Array;
  nextOf(rdata: Uint8Array): string;
  /** The same record, pointing elsewhere. */
  withNext(rdata: Uint8Array, next: string): Uint8Array;
}

export function denialScheme(kind: Denial, apex: DomainName): DenialScheme {
  return kind === "nsec" ? nsecScheme : makeNsec3Scheme(apex);
}

/** RDATA of the NSEC3PARAM that goes with our NSEC3: SHA-1, no iterations, no salt (RFC 5155 §4, RFC 9276 §3.1). */
export const NSEC3PARAM_RDATA = Uint8Array.of(1, 0, 0, 0, 0);

/** Of a digest by SHA-1. */
const HASH_OCTETS = 20;
/** Iterations of NSEC3 that validators of today look at, with a salt that goes with the digest into one block of SHA-1. */
const MOST_HASH_BLOCKS = 151;
const SHA1_BLOCK_OCTETS = 64;
/** A bit and the length of what is hashed (FIPS 180-4 §5.1.1), in octets. */
const SHA1_PADDING_OCTETS = 9;

/**
 * Whether a denial by NSEC3 with such parameters costs a server too much: each query for a name that is not there costs
 * it several hashes, and a validator takes no proof that took more than 150 iterations (RFC 9276 §3.2).
 * @param rdata of an NSEC3PARAM: algorithm, flags, iterations, salt (RFC 5155 §4.2)
 */
export function isCostlyToHash(rdata: Uint8Array): boolean {
  const iterations = (rdata[2]! << 8) | rdata[3]!;
  const blocks = Math.ceil((HASH_OCTETS + rdata[4]! + SHA1_PADDING_OCTETS) / SHA1_BLOCK_OCTETS);
  return (iterations + 1) * blocks > MOST_HASH_BLOCKS;
}

/** SHA-1 over the name in lower case, no iterations, no salt (RFC 5155 §5, RFC 9276 §3.1). */
export function nsec3Hash(name: DomainName): Uint8Array {
  return createHash("sha1").update(Buffer.from(name.key, "latin1")).digest();
}

/** NSEC: the names themselves, in canonical order (RFC 4034 §4). */
const nsecScheme: DenialScheme = {
  kind: "nsec",
  type: TYPE.NSEC,
  positionOf: (name) => latin1(nameSortKey(name.wire)),
  ownerAt: (position) => new DomainName(wireOfSortKey(position), countLabels(position)),
  positionOfOwner: (owner) => latin1(nameSortKey(owner.wire)),
  encode: (next, types) => concat(wireOfSortKey(next), encodeTypeBitmap(types)),
  nextOf: (rdata) => latin1(nameSortKey(rdata)),
  withNext: (rdata, next) => {
    const old = domainNameFromWire(rdata);
    if (!old.ok) throw new Error(`stored NSEC is corrupt: ${old.error.message}`);
    return concat(wireOfSortKey(next), rdata.subarray(old.value.wire.length));
  },
};

/** RFC 5155 §3: algorithm SHA-1, no opt-out, no iterations, no salt, and the length of the hash. */
const NSEC3_HEAD = Uint8Array.of(1, 0, 0, 0, 0, 20);

/** NSEC3: hashes of the names, as base32hex labels at the apex. */
function makeNsec3Scheme(apex: DomainName): DenialScheme {
  const apexLabels = labelsOf(apex);
  return {
    kind: "nsec3",
    type: TYPE.NSEC3,
    positionOf: (name) => latin1(nsec3Hash(name)),
    ownerAt: (position) => {
      const label = Buffer.from(formatBase32Hex(Buffer.from(position, "latin1")), "latin1");
      const owner = nameFromLabels([label, ...apexLabels]);
      if (!owner.ok) throw new Error(`no room for hashes: ${owner.error.message}`);
      return new DomainName(Buffer.from(owner.value.key, "latin1"), owner.value.labelCount);
    },
    positionOfOwner: (owner) => {
      const hash = parseBase32Hex(Buffer.from(labelsOf(owner)[0]!).toString("latin1"));
      if (hash?.length !== HASH_OCTETS) throw new Error("stored NSEC3 has no hash for its owner");
      return latin1(hash);
    },
    encode: (next, types) => concat(NSEC3_HEAD, Buffer.from(next, "latin1"), encodeTypeBitmap(types)),
    nextOf: (rdata) => latin1(rdata.subarray(NSEC3_HEAD.length, NSEC3_HEAD.length + HASH_OCTETS)),
    withNext: (rdata, next) =>
      concat(NSEC3_HEAD, Buffer.from(next, "latin1"), rdata.subarray(NSEC3_HEAD.length + HASH_OCTETS)),
  };
}

/**
 * Where the records of a chain point after some join and some leave.
 * @param known position and next of the old chain's records: at least those that leave, and the closest that stays
 *   before each that leaves or joins; empty for a chain that is made
 * @returns position and next of all that join, and of the known ones that stay
 */
export function relinkChain(
  known: ReadonlyMap<string, string>,
  joining: Iterable<string>,
  leaving: ReadonlySet<string>,
): Map<string, string> {
  const joiners = [...joining].sort(byCodeUnits);
  const links = new Map<string, string>();
  const staying = [...known.keys()].filter((position) => !leaving.has(position)).sort(byCodeUnits);
  if (staying.length === 0) {
    for (const [index, position] of joiners.entries()) links.set(position, joiners[(index + 1) % joiners.length]!);
    return links;
  }
  for (const position of [...staying, ...joiners]) {
    const before = staying[(lastUpTo(staying, position) + staying.length) % staying.length]!;
    let oldNext = known.get(before)!;
    while (leaving.has(oldNext)) oldNext = known.get(oldNext)!;
    const joiner = joiners[(lastUpTo(joiners, position) + 1) % joiners.length];
    links.set(position, joiner === undefined ? oldNext : closerAfter(position, joiner, oldNext));
  }
  return links;
}

/** Index of the last that is not after the position; −1 when all are. */
function lastUpTo(sorted: readonly string[], position: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= position) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Which of two positions comes first on the way around from one; that one itself comes last. */
function closerAfter(from: string, a: string, b: string): string {
  if (a > from !== b > from) return a > from ? a : b;
  return a < b ? a : b;
}

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The inverse of `nameSortKey`: the name's wire form, in lower case. */
function wireOfSortKey(position: string): Uint8Array {
  const labels: number[][] = [];
  let label: number[] = [];
  for (let index = 0; index < position.length; index += 1) {
    const octet = position.charCodeAt(index);
    if (octet === 0) {
      labels.push(label);
      label = [];
    } else if (octet === 1) {
      index += 1;
      label.push(position.charCodeAt(index) - 1);
    } else {
      label.push(octet);
    }
  }
  return Uint8Array.from([...labels.reverse().flatMap((octets) => [octets.length, ...octets]), 0]);
}

function countLabels(position: string): number {
  let count = 0;
  for (let index = 0; index < position.length; index += 1) if (position.charCodeAt(index) === 0) count += 1;
  return count;
}

function latin1(octets: Uint8Array): string {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length).toString("latin1");
}

function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    joined.set(part, offset);
    offset += part.length;
  }
  return joined;
}
