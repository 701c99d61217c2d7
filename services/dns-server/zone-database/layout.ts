import { TYPE } from "../../core/dns/rr-types.ts";

/**
 * Where things stand in the zone database's memory, which has one segment or several. A reference is an octet offset in its
 * segment, a multiple of 8 and below 2^31; 0 means none. Fields are 32-bit words, addressed as
 * `words[(reference >> 2) + FIELD]`. All of a zone lies in one segment, which the low bits of the zone's own reference tell.
 */

/** The bits of a zone's reference that are the number of its segment. */
export const SEGMENT_MASK = 7;
export const MAX_SEGMENTS = SEGMENT_MASK + 1;

/** Octet offset of a zone in its segment. */
export function zoneOctet(zone: number): number {
  return zone & ~SEGMENT_MASK;
}

/** Word index of a zone in its segment. */
export function zoneWord(zone: number): number {
  return (zone >> 3) << 1;
}

/** How many words it takes to hold so many octets. */
export function wordsOf(octets: number): number {
  return (octets + 3) >> 2;
}

/** Words of the header at offset 0. Beside the first segment's, those of others have CAPACITY and NODE_SHARDS alone. */
export const HEADER = {
  /** Octets of the buffer in use by views; readers that see it grow map again. */
  CAPACITY: 0,
  /** Counts the writer's steps, for reclamation (see arena.ts). */
  EPOCH: 1,
  /** 1 once the first whole zone database stands; before that queries get SERVFAIL. */
  READY: 2,
  /** Most labels of any apex: names need not be searched for zones deeper than this. */
  DEEPEST_APEX: 3,
  HASH_KEY_0: 4,
  HASH_KEY_1: 5,
  /** Counts the changes of the zone table: zones that came, went or were put in the place of others. */
  ZONE_SET: 6,
  /** One word per reader thread, `READER_STRIDE` words apart: the epoch it entered at, 0 while it reads nothing. */
  READERS: 16,
  /** References of the zone table's shards, then of the node table's. */
  ZONE_SHARDS: 2048,
  NODE_SHARDS: 2048 + 16,
} as const;

/** A cache line each, so that readers do not slow each other down. */
export const READER_STRIDE = 16;
export const MAX_READERS = (HEADER.ZONE_SHARDS - HEADER.READERS) / READER_STRIDE;

/** Shards keep each rehash short: a shard of a million names' table holds a thousand. */
export const ZONE_SHARD_BITS = 4;
export const NODE_SHARD_BITS = 10;

/** First octet that the arena may hand out. */
export const ARENA_START = (HEADER.NODE_SHARDS + (1 << NODE_SHARD_BITS)) * 4;

/**
 * A shard of a hash table: its mask (slots − 1) and size, then the slots, each a reference and the whole hash.
 * Readers load the reference first; a tag that does not belong to it is harmless, as what it refers to is compared.
 */
export const TABLE = { MASK: 0, SIZE: 1, SLOTS: 2, SLOT_WORDS: 2 } as const;
/** A slot whose entry is gone but which searches must pass. */
export const TOMBSTONE = 4;

/** A zone, of which the zone table has the reference with its segment: these words, then the apex in wire form, lower case. */
export const ZONE = {
  /** Parent hash of the names right below the apex; random, so that a zone's replacement shares no hash with it. */
  SEED: 0,
  /** The apex's node. */
  APEX_NODE: 1,
  /** TTL of negative answers: min(SOA TTL, MINIMUM), RFC 2308 §5. */
  NEGATIVE_TTL: 2,
  APEX_LENGTH: 3,
  /** First node of the zone's list, which only the writer walks. */
  FIRST_NODE: 4,
  SIZE: 5,
  /** Why the zone is not simply answered: bits of `EXCEPTION`, 0 for most zones. */
  EXCEPTIONS: 6,
  /** How the zone proves that something is not there: a value of `DENIAL`, or the reference of an `NSEC3_PARAMETERS`. */
  DENIAL: 7,
  /** Whose it is: a number of the writer's. */
  RESELLER: 8,
  /** Octets of the nodes that it has, or is going to have; for the writer. */
  OCTETS: 9,
  /** Of the database, a number of 64 bits; for whoever publishes zones. */
  VERSION_HIGH: 10,
  VERSION_LOW: 11,
  /** Counts what is shown of the zone: its versions, and changes of its negative TTL. */
  PUBLISHED: 12,
  APEX: 13,
} as const;

/** A zone's denial of existence, where it is no reference; it stays the same as long as the zone does. */
export const DENIAL = { NONE: 0, NSEC: 1 } as const;

/**
 * RESTRICTED: only those may ask whom an ACL lets. The others are place-holders, at and below which all is SERVFAIL (WITHHELD), or
 * REFUSED unless the zone above is the same reseller's (SUSPENDED).
 */
export const EXCEPTION = { RESTRICTED: 1, WITHHELD: 2, SUSPENDED: 4 } as const;

/** How a zone's names are hashed (RFC 5155 §5): iterations, octets of the salt, the block's size, the salt. */
export const NSEC3_PARAMETERS = { ITERATIONS: 0, SALT_OCTETS: 1, SIZE: 2, SALT: 3 } as const;

/**
 * A name of a zone: these words, then the length of the name relative to the apex in one octet, that name (case kept,
 * no root octet), padding to a word, and the RRsets. Immutable but for the list, the child count and the flags.
 */
export const NODE = {
  /** With its segment. */
  ZONE: 0,
  NEXT: 1,
  PREVIOUS: 2,
  /** Flags in the low octet, number of RRsets above. */
  FLAGS: 3,
  /** Nodes one label below, which keep an empty non-terminal alive. */
  CHILDREN: 4,
  SIZE: 5,
  NAME: 6,
} as const;

/**
 * The last words of an apex's node, counted from the end of its block. Whoever has loaded the apex has a version of the
 * whole zone: the nodes that the tables have for it (see `CHANGE`), and the root of its index (see `INDEX`).
 */
export const APEX_TAIL = { VERSION: 1, INDEX: 2, WORDS: 2 } as const;

/**
 * Stands in the node table for a name that changes together with others, until no reader is left that began before:
 * from `VERSION` on the name's node is `AFTER`, before it is `BEFORE`; 0 for none. Its other fields are those of a
 * node, so that look-ups find it the same way, and its flag is `FLAG.CHANGE`.
 */
export const CHANGE = { BEFORE: 1, AFTER: 2, VERSION: 4 } as const;

/**
 * A block of a zone's index, a B+tree over the nodes that deny existence, in canonical order (RFC 4034 §6.1): number of
 * entries with the level above them, 0 for a leaf; the change that wrote the block; then the entries. A leaf's entry is
 * a node; that of a higher block is the first node below it and the block that this node is in.
 */
export const INDEX = { COUNT_AND_LEVEL: 0, VERSION: 1, ENTRIES: 2, ENTRY_WORDS: 64 } as const;

/** Flags of a node. */
export const FLAG = {
  /** NS below the apex: a zone cut. */
  CUT: 1,
  DNAME: 2,
  CNAME: 4,
  /** The name `*` stands right below this one. */
  WILDCARD_CHILD: 8,
  /** NSEC of a zone that denies with them: the node is in the zone's index. */
  NSEC: 16,
  /** NSEC3 and its signatures alone: the node is in the zone's index and in no table (RFC 5155 §7.2.8). */
  NSEC3: 32,
  /** No node but a `CHANGE`. */
  CHANGE: 64,
} as const;
export const FLAG_BITS = 8;

/**
 * An RRset: type << 16 | signed << 15 | number of records (32,767 stands for more), octets of the records, the records,
 * padding to a word. What follows a signed RRset is an RRset of the RRSIG records that cover it. Each record is wire
 * form ready for copying: owner pointer 0xC00C, type, class, TTL, RDLENGTH, RDATA. In RDATA of the types of
 * `EMBEDDED_NAMES` the end of a name that equals the apex is the pointer 0xC000, to be pointed at the message's apex.
 */
export const RRSET = { TYPE_AND_COUNT: 0, LENGTH: 1, RECORDS: 2, SIGNED: 0x8000, COUNT_MASK: 0x7fff } as const;

/** Octets before a stored record's RDATA: owner pointer, type, class, TTL, RDLENGTH. */
export const RECORD_FIXED_OCTETS = 12;

/**
 * The types whose RDATA names are compressed (RFC 3597 §4 with RFC 1035 §3.3): octets before the first name, and names.
 * Packed as count << 8 | offset + 1, so that a look-up costs one array access; 0: none.
 */
export const EMBEDDED_NAMES: Uint16Array = new Uint16Array(65_536);
for (const [type, offset, names] of [
  [TYPE.NS, 0, 1],
  [TYPE.CNAME, 0, 1],
  [TYPE.SOA, 0, 2],
  [TYPE.MB, 0, 1],
  [TYPE.MG, 0, 1],
  [TYPE.MR, 0, 1],
  [TYPE.PTR, 0, 1],
  [TYPE.MINFO, 0, 2],
  [TYPE.MX, 2, 1],
] as const) {
  EMBEDDED_NAMES[type] = (names << 8) | (offset + 1);
}

/** ASCII letters to lower case, all other octets to themselves (RFC 4343 §3). */
export const LOWER_CASE: Uint8Array = Uint8Array.from({ length: 256 }, (_, octet) =>
  octet >= 0x41 && octet <= 0x5a ? octet + 0x20 : octet,
);
