import {
  APEX_TAIL,
  CHANGE,
  DENIAL,
  EXCEPTION,
  FLAG,
  FLAG_BITS,
  HEADER,
  LOWER_CASE,
  NODE,
  NODE_SHARD_BITS,
  READER_STRIDE,
  RRSET,
  TABLE,
  TOMBSTONE,
  ZONE,
  ZONE_SHARD_BITS,
  zoneOctet,
  zoneWord,
} from "./layout.ts";
import type { LookupName } from "./lookup-name.ts";
import type { MemorySegment, ZoneDatabaseMemory } from "./memory.ts";
import { hashLabel } from "./name-hash.ts";

/** The label `*` in wire form, for hashing. */
const WILDCARD_LABEL = Uint8Array.of(1, 0x2a);

/** Labels of the longest name, its root left out (RFC 1035 §3.1: 255 octets). */
const MAX_LABELS = 127;

/**
 * Look-ups in the zone database, as one thread makes them. References that it returns stay valid until `leave`.
 * Tables, and what their entries refer to, are read by plain loads: what the writer has stored atomically is whole for whoever
 * comes to it by the reference, on every processor that Node runs on, and an atomic load is a call in V8.
 * On the writer's own thread neither `enter` nor `leave` is needed as long as the caller does not await.
 */
export class ZoneDatabaseReader {
  readonly memory: ZoneDatabaseMemory;
  /** What references are of that are no zone's: the segment of the zone that is open. */
  segment: MemorySegment;
  /** Has the header and the zone table. */
  readonly #first: MemorySegment;
  readonly #epochWord: number;
  #key0: number;
  #key1: number;
  #isReady = false;
  /** Of the name looked up last: the hash of each of its labels, by which the zone table has a zone that begins there. */
  readonly #hashes = new Int32Array(MAX_LABELS + 1);
  /** Label of the name at which the zone found last begins. */
  zoneLabel = 0;
  /** Node of the apex of the zone that is open: the version of the zone that look-ups are made in. */
  apex = 0;

  /** @param index this thread's number among the readers, for `enter` and `leave` */
  constructor(memory: ZoneDatabaseMemory, index = 0) {
    this.memory = memory;
    this.#first = memory.first;
    this.segment = memory.first;
    this.#epochWord = HEADER.READERS + index * READER_STRIDE;
    this.#key0 = memory.first.words[HEADER.HASH_KEY_0]!;
    this.#key1 = memory.first.words[HEADER.HASH_KEY_1]!;
  }

  /** Before the first look-up of a batch: nothing that is visible now is freed until `leave`. */
  enter(): void {
    const { words } = this.#first;
    Atomics.store(words, this.#epochWord, Atomics.load(words, HEADER.EPOCH));
    // No processor makes a look-up before this, nor this before the store.
    Atomics.load(words, this.#epochWord);
  }

  leave(): void {
    Atomics.store(this.#first.words, this.#epochWord, 0);
  }

  /** Another one after each change of which zones there are. Atomic: what is looked up after it is of this count or a later one. */
  get zoneSet(): number {
    return Atomics.load(this.#first.words, HEADER.ZONE_SET);
  }

  /** Another one after each change of what is shown of a zone; atomic as well. */
  publishedOf(zone: number): number {
    return Atomics.load(this.memory.segmentOf(zone).words, zoneWord(zone) + ZONE.PUBLISHED);
  }

  /** Whether a first zone database stands: once it does, one always does. */
  get isReady(): boolean {
    this.#isReady ||= Atomics.load(this.#first.words, HEADER.READY) === 1;
    return this.#isReady;
  }

  /**
   * The zone with the longest apex that the name is at or below; `zoneLabel` says where in the name it begins.
   * @param firstLabel 1 to leave out the zone whose apex is the name itself (the parent's side of a cut)
   * @returns 0 when there is none
   */
  findZone(name: LookupName, firstLabel = 0): number {
    const hashes = this.#hashes;
    const { labelCount } = name;
    const deepest = Math.max(firstLabel, labelCount - this.#first.words[HEADER.DEEPEST_APEX]!);
    let hash = this.rootHash;
    hashes[labelCount] = hash;
    for (let label = labelCount - 1; label >= deepest; label -= 1) {
      hash = hashLabel(this.#key0, this.#key1, hash, name.octets, name.labelStarts[label]!);
      hashes[label] = hash;
    }
    for (let label = deepest; label <= labelCount; label += 1) {
      const zone = this.#zoneAt(hashes[label]!, name, label);
      if (zone === 0) continue;
      this.zoneLabel = label;
      return zone;
    }
    return 0;
  }

  /**
   * Opens a zone as it stands now: look-ups in it are of this version, whatever is published meanwhile.
   * A reader that has opened none, the writer's own, sees what is going to be published.
   * @returns the apex's node
   */
  open(zone: number): number {
    this.segment = this.memory.segmentOf(zone);
    // Atomic: what the tables have is read after it, so that it is of this version or a later one.
    this.apex = Atomics.load(this.segment.words, zoneWord(zone) + ZONE.APEX_NODE);
    this.segment.follow(this.apex);
    return this.apex;
  }

  /** Opens a version of a zone again that was open since `enter`. */
  reopen(zone: number, apex: number): void {
    this.segment = this.memory.segmentOf(zone);
    this.apex = apex;
  }

  /** What tells a node of the open zone from all nodes of all zones. */
  identityOf(node: number): number {
    return node | this.segment.number;
  }

  /** The label of a name at which the zone's apex begins; −1 when the name is not at or below it. */
  apexLabelIn(zone: number, name: LookupName): number {
    const { octets, words } = this.memory.segmentOf(zone);
    const apexOctets = words[zoneWord(zone) + ZONE.APEX_LENGTH]!;
    const start = name.length - apexOctets;
    let label = 0;
    while (label < name.labelCount && name.labelStarts[label]! < start) label += 1;
    const isLabel = name.startOf(label) === start;
    return isLabel && sameOctets(octets, zoneOctet(zone) + ZONE.APEX * 4, name.octets, start, apexOctets) ? label : -1;
  }

  /** Hash of the root, from which those of the apexes come. */
  get rootHash(): number {
    return this.#key1;
  }

  /** Hash by which the zone table has a zone with this apex. */
  apexHash(apex: LookupName): number {
    let hash = this.rootHash;
    for (let label = apex.labelCount - 1; label >= 0; label -= 1) hash = this.childHash(hash, apex, label);
    return hash;
  }

  /** The zone with this apex and its hash; 0 when there is none. */
  findApex(hash: number, apex: LookupName): number {
    return this.#zoneAt(hash, apex, 0);
  }

  /** Hash of the name that begins at `label`, under its parent's hash. */
  childHash(parentHash: number, name: LookupName, label: number): number {
    return hashLabel(this.#key0, this.#key1, parentHash, name.octets, name.labelStarts[label]!);
  }

  /** Hash of the name `*` under its parent's hash. */
  wildcardHash(parentHash: number): number {
    return hashLabel(this.#key0, this.#key1, parentHash, WILDCARD_LABEL, 0);
  }

  /**
   * The node of the name that begins at `label`, in a zone whose apex begins at `apexLabel`.
   * @returns 0 when the name does not exist
   */
  findNode(zone: number, hash: number, name: LookupName, label: number, apexLabel: number): number {
    return this.#settled(this.findEntry(zone, hash, name, label, apexLabel));
  }

  /** As `findNode`, but what the table has for the name, which may be a `CHANGE`. */
  findEntry(zone: number, hash: number, name: LookupName, label: number, apexLabel: number): number {
    const { segment } = this;
    const start = name.labelStarts[label]!;
    const length = name.startOf(apexLabel) - start;
    let slot = this.#firstSlot(segment, hash, HEADER.NODE_SHARDS, NODE_SHARD_BITS);
    for (;;) {
      const node = segment.words[slot]!;
      if (node === 0) return 0;
      if (segment.words[slot + 1] === hash && node !== TOMBSTONE) {
        segment.follow(node);
        const { words, octets } = segment;
        const stored = node + NODE.NAME * 4;
        const isLong = words[(node >> 2) + NODE.ZONE] === zone && octets[stored] === length;
        if (isLong && sameOctets(octets, stored + 1, name.octets, start, length)) return node;
      }
      slot = this.#nextSlot(slot);
    }
  }

  /** As `findNode`, for the name `*` right below the one that begins at `parentLabel`. */
  findWildcard(zone: number, hash: number, name: LookupName, parentLabel: number, apexLabel: number): number {
    const start = name.startOf(parentLabel);
    const length = name.startOf(apexLabel) - start;
    let slot = this.#firstSlot(this.segment, hash, HEADER.NODE_SHARDS, NODE_SHARD_BITS);
    for (;;) {
      const node = this.#load(slot);
      if (node === 0) return 0;
      const { words, octets } = this.segment;
      if (node !== TOMBSTONE && words[slot + 1] === hash && words[(node >> 2) + NODE.ZONE] === zone) {
        const stored = node + NODE.NAME * 4;
        if (
          octets[stored] === length + 2 &&
          octets[stored + 1] === 1 &&
          octets[stored + 2] === WILDCARD_LABEL[1] &&
          sameOctets(octets, stored + 3, name.octets, start, length)
        ) {
          return this.#settled(node);
        }
      }
      slot = this.#nextSlot(slot);
    }
  }

  /** Why the zone is not simply answered: bits of `EXCEPTION`, 0 for most zones. */
  exceptionsOf(zone: number): number {
    return this.#zoneField(zone, ZONE.EXCEPTIONS);
  }

  /** A number for whose the zone is, the same for all of a reseller's. */
  resellerOf(zone: number): number {
    return this.#zoneField(zone, ZONE.RESELLER);
  }

  /** Whether the zone answers only those whom an ACL lets ask. */
  isRestricted(zone: number): boolean {
    return (this.exceptionsOf(zone) & EXCEPTION.RESTRICTED) !== 0;
  }

  /** The zone's apex in wire form and lower case, a copy. */
  apexOf(zone: number): Uint8Array {
    const start = zoneOctet(zone) + ZONE.APEX * 4;
    return this.memory.segmentOf(zone).octets.slice(start, start + this.#zoneField(zone, ZONE.APEX_LENGTH));
  }

  /** TTL of the zone's negative answers, in seconds. */
  negativeTtlOf(zone: number): number {
    return this.#zoneField(zone, ZONE.NEGATIVE_TTL);
  }

  /** Parent hash of the names right below the zone's apex. */
  zoneSeed(zone: number): number {
    return this.#zoneField(zone, ZONE.SEED);
  }

  flags(node: number): number {
    return this.segment.words[(node >> 2) + NODE.FLAGS]!;
  }

  rrsetCount(node: number): number {
    return this.segment.words[(node >> 2) + NODE.FLAGS]! >>> FLAG_BITS;
  }

  /** Reference of the node's first RRset, valid when it has one. */
  firstRrset(node: number): number {
    const name = node + NODE.NAME * 4;
    return (name + 1 + this.segment.octets[name]! + 3) & ~3;
  }

  nextRrset(rrset: number): number {
    return (rrset + RRSET.RECORDS * 4 + this.segment.words[(rrset >> 2) + RRSET.LENGTH]! + 3) & ~3;
  }

  rrsetType(rrset: number): number {
    return this.segment.words[(rrset >> 2) + RRSET.TYPE_AND_COUNT]! >>> 16;
  }

  /** The node's RRset of a type; 0 when it has none. */
  findRrset(node: number, type: number): number {
    let rrset = this.firstRrset(node);
    for (let left = this.rrsetCount(node); left > 0; left -= 1) {
      if (this.rrsetType(rrset) === type) return rrset;
      rrset = this.nextRrset(rrset);
    }
    return 0;
  }

  /** How the zone proves that something is not there; see `ZONE.DENIAL`. */
  denialOf(zone: number): number {
    return this.#zoneField(zone, ZONE.DENIAL);
  }

  isSigned(zone: number): boolean {
    return this.denialOf(zone) !== DENIAL.NONE;
  }

  /** Root of the index of the zone that is open (layout.ts, `INDEX`); 0 while that is empty. */
  get indexRoot(): number {
    return this.#apexWord(APEX_TAIL.INDEX);
  }

  /** A word of the tail of the apex that is open. */
  #apexWord(word: number): number {
    const { words } = this.segment;
    return words[((this.apex + words[(this.apex >> 2) + NODE.SIZE]!) >> 2) - word]!;
  }

  /** The node that an entry of the table stands for in the version that is open. */
  #settled(entry: number): number {
    let node = entry;
    while (node !== 0 && (this.segment.words[(node >> 2) + NODE.FLAGS]! & FLAG.CHANGE) !== 0) {
      const { words } = this.segment;
      const change = node >> 2;
      const isPublished =
        this.apex === 0 || ((this.#apexWord(APEX_TAIL.VERSION) - words[change + CHANGE.VERSION]!) | 0) >= 0;
      node = words[change + (isPublished ? CHANGE.AFTER : CHANGE.BEFORE)]!;
      this.segment.follow(node);
    }
    return node;
  }

  #zoneField(zone: number, field: number): number {
    return this.memory.segmentOf(zone).words[zoneWord(zone) + field]!;
  }

  #zoneAt(hash: number, name: LookupName, label: number): number {
    const start = name.startOf(label);
    const length = name.length - start;
    const first = this.#first;
    let slot = this.#firstSlot(first, hash, HEADER.ZONE_SHARDS, ZONE_SHARD_BITS);
    for (;;) {
      const zone = first.words[slot]!;
      if (zone === 0) return 0;
      if (zone !== TOMBSTONE && first.words[slot + 1] === hash) {
        const segment = this.memory.segmentOf(zone);
        segment.follow(zone);
        const { octets, words } = segment;
        const isLong = words[zoneWord(zone) + ZONE.APEX_LENGTH] === length;
        if (isLong && sameOctets(octets, zoneOctet(zone) + ZONE.APEX * 4, name.octets, start, length)) return zone;
      }
      slot = this.#nextSlot(slot);
    }
  }

  /** Word index of the end of the shard's current slots and its mask, kept for `#nextSlot`. */
  #slots = 0;
  #mask = 0;

  #firstSlot(segment: MemorySegment, hash: number, shards: number, shardBits: number): number {
    const reference = segment.words[shards + (hash >>> (32 - shardBits))]!;
    segment.follow(reference);
    const table = reference >> 2;
    this.#mask = segment.words[table + TABLE.MASK]!;
    this.#slots = table + TABLE.SLOTS;
    return this.#slots + (hash & this.#mask) * TABLE.SLOT_WORDS;
  }

  #nextSlot(slot: number): number {
    const index = ((slot - this.#slots) >> 1) + 1;
    return this.#slots + (index & this.#mask) * TABLE.SLOT_WORDS;
  }

  /** A reference out of a table; what it refers to is mapped. */
  #load(word: number): number {
    const reference = this.segment.words[word]!;
    this.segment.follow(reference);
    return reference;
  }
}

/** Whether stored octets equal those of a name in lower case, ASCII case aside. */
function sameOctets(octets: Uint8Array, stored: number, lowerCase: Uint8Array, start: number, length: number): boolean {
  for (let index = 0; index < length; index += 1) {
    const octet = octets[stored + index]!;
    const expected = lowerCase[start + index];
    if (octet !== expected && LOWER_CASE[octet] !== expected) return false;
  }
  return true;
}
