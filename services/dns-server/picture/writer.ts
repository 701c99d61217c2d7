import { TYPE } from "../../core/dns/rr-types.ts";
import { Arena } from "./arena.ts";
import { HashTable } from "./hash-table.ts";
import { FLAG, FLAG_BITS, HEADER, NODE, NODE_SHARD_BITS, ZONE, ZONE_SHARD_BITS } from "./layout.ts";
import { LookupName } from "./lookup-name.ts";
import { PictureMemory } from "./memory.ts";
import { PictureReader } from "./reader.ts";
import { type PictureRecord, RrsetEncoder } from "./stored-rrset.ts";

/** What the picture needs to know of a zone beside its records. */
export interface PictureZone {
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  /** min(SOA TTL, MINIMUM) in seconds (RFC 2308 §5). */
  readonly negativeTtlSeconds: number;
}

/** References of a published zone and its apex's hash. */
interface ZoneEntry {
  readonly reference: number;
  readonly hash: number;
  readonly labelCount: number;
}

/**
 * The only writer of the picture. Readers on other threads never wait and never see a name half changed: a node is
 * written aside and swapped in by one store; a whole zone is built aside, invisible, and swapped in by one store.
 */
export class PictureWriter {
  readonly memory: PictureMemory;
  readonly #arena: Arena;
  readonly #zones: HashTable;
  readonly #nodes: HashTable;
  readonly #reader: PictureReader;
  readonly #encoder = new RrsetEncoder();
  /** Of the name that the encoder has at hand. */
  #flags = 0;
  readonly #name = new LookupName();
  readonly #apexName = new LookupName();
  /** Hash of each ancestor of the name at hand, by label; the last is the zone's seed. */
  readonly #hashes = new Int32Array(129);
  readonly #published = new Map<string, ZoneEntry>();
  /** The hash is keyed, so it is enough that no two zones share a seed. */
  #nextSeed = 1;
  /** The zone that `#apex` belongs to. */
  #apexZone = 0;
  #apex: Uint8Array = new Uint8Array(0);
  /** Zones out of sight whose nodes are still to be taken apart. */
  readonly #discarded: number[] = [];

  constructor(memory: PictureMemory = PictureMemory.create()) {
    this.memory = memory;
    this.#arena = new Arena(memory);
    this.#zones = new HashTable(memory, this.#arena, { shards: HEADER.ZONE_SHARDS, shardBits: ZONE_SHARD_BITS });
    this.#nodes = new HashTable(memory, this.#arena, { shards: HEADER.NODE_SHARDS, shardBits: NODE_SHARD_BITS });
    this.#reader = new PictureReader(memory);
  }

  /** Octets that the zones take. */
  get usedOctets(): number {
    return this.#arena.usedOctets;
  }

  get zoneCount(): number {
    return this.#published.size;
  }

  /** From now on queries are answered; before they get SERVFAIL. */
  setReady(): void {
    Atomics.store(this.memory.words, HEADER.READY, 1);
  }

  /**
   * Starts a zone that nobody sees yet. Fill it with `setName`, the apex included, then `publishZone` or `discardZone`.
   * @returns its reference
   */
  createZone({ apex, negativeTtlSeconds }: PictureZone): number {
    const size = this.#arena.blockSize(ZONE.APEX * 4 + apex.length);
    const zone = this.#arena.allocate(size);
    // The block may have been another zone's before.
    this.#apexZone = 0;
    const { words, octets } = this.memory;
    const word = zone >> 2;
    words[word + ZONE.SEED] = this.#nextSeed++;
    words[word + ZONE.APEX_NODE] = 0;
    words[word + ZONE.NEGATIVE_TTL] = negativeTtlSeconds;
    words[word + ZONE.APEX_LENGTH] = apex.length;
    words[word + ZONE.FIRST_NODE] = 0;
    words[word + ZONE.SIZE] = size;
    octets.set(apex, zone + ZONE.APEX * 4);
    this.#writeNode(zone, { hash: 0, nameLength: 0, octets: apex, flags: 0 }, NO_RRSETS);
    return zone;
  }

  /** Makes the zone visible, in the place of the one with the same apex when there is one. */
  publishZone(zone: number): void {
    const apex = this.#apexOf(zone);
    const key = apexKey(apex);
    const previous = this.#published.get(key);
    const entry = previous
      ? { ...previous, reference: zone }
      : { reference: zone, hash: this.#apexHash(apex), labelCount: this.#apexName.labelCount };
    if (previous) {
      this.#zones.replace(entry.hash, previous.reference, zone);
      this.#discarded.push(previous.reference);
    } else {
      this.#zones.insert(entry.hash, zone);
      const { words } = this.memory;
      if (entry.labelCount > words[HEADER.DEEPEST_APEX]!) Atomics.store(words, HEADER.DEEPEST_APEX, entry.labelCount);
    }
    this.#published.set(key, entry);
  }

  /** The published zone of this apex (wire form, lower case); 0 when there is none. */
  publishedZone(apex: Uint8Array): number {
    return this.#published.get(apexKey(apex))?.reference ?? 0;
  }

  /** Takes a zone out of sight; does nothing when it is not there. */
  withdrawZone(apex: Uint8Array): void {
    const key = apexKey(apex);
    const entry = this.#published.get(key);
    if (!entry) return;
    this.#zones.remove(entry.hash, entry.reference);
    this.#published.delete(key);
    this.#discarded.push(entry.reference);
  }

  /** Gives up a zone that was created and not published. */
  discardZone(zone: number): void {
    this.#discarded.push(zone);
  }

  setNegativeTtl(zone: number, seconds: number): void {
    Atomics.store(this.memory.words, (zone >> 2) + ZONE.NEGATIVE_TTL, seconds);
  }

  /**
   * Replaces all records at one name of a zone; none removes the name. Empty non-terminals come and go by themselves.
   * @param owner wire form, at or below the zone's apex, case kept
   */
  setName(zone: number, owner: Uint8Array, records: readonly PictureRecord[]): void {
    this.beginName(zone);
    for (const { type } of records) this.#flags |= flagOf(type);
    this.#encoder.addAll(records);
    this.endName(zone, owner);
  }

  /** As `setName`, for records that come one by one: then `addRecord` for each, and `endName`. */
  beginName(zone: number): void {
    this.#flags = 0;
    this.#encoder.begin(this.#apexOf(zone));
  }

  /** Adds a record whose RDATA is in [start, end) of the octets. The SOA comes first, the others by ascending type. */
  addRecord(type: number, ttl: number, octets: Uint8Array, start: number, end: number): void {
    this.#flags |= flagOf(type);
    this.#encoder.add(type, ttl, octets, start, end);
  }

  endName(zone: number, owner: Uint8Array): void {
    const nameLength = owner.length - this.#apexOf(zone).length;
    if (nameLength === 0) {
      const place = { hash: 0, nameLength, octets: owner, flags: this.#flags & ~FLAG.CUT };
      this.#replaceNode(zone, this.#reader.apexNode(zone), place);
      return;
    }
    const apexLabel = this.#locate(zone, owner, nameLength);
    const node = this.#findNode(zone, 0, apexLabel);
    const place = { hash: this.#hashes[0]!, nameLength, octets: owner, flags: this.#flags };
    if (this.#encoder.count === 0) {
      if (node !== 0) this.#removeName(zone, node, place, apexLabel);
    } else if (node !== 0) {
      this.#replaceNode(zone, node, place);
    } else {
      this.#addAncestors(zone, owner, apexLabel);
      this.#nodes.insert(place.hash, this.#writeNode(zone, place, this.#encoder));
      this.#markWildcard(zone, 0, apexLabel);
    }
  }

  /**
   * Ends a step: memory that no reader can still see is free again. Takes discarded zones apart, a part at a time so
   * that the thread is not held up.
   * @returns whether discarded nodes are left for another call
   */
  collect(limitNodes = Number.POSITIVE_INFINITY): boolean {
    let left = limitNodes;
    while (this.#discarded.length > 0 && left > 0) {
      const zone = this.#discarded.at(-1)!;
      left -= this.#takeApart(zone, left);
      if (this.memory.words[(zone >> 2) + ZONE.FIRST_NODE] !== 0) break;
      this.#arena.retire(zone, this.memory.words[(zone >> 2) + ZONE.SIZE]!);
      this.#discarded.pop();
    }
    this.#arena.advance();
    return this.#discarded.length > 0;
  }

  /**
   * The nodes of a published zone as they stand now, in no order, kept from being freed until `release` is called:
   * what a transfer reads while changes go on.
   */
  snapshot(zone: number): { readonly nodes: Int32Array; readonly release: () => void } {
    const { words } = this.memory;
    const nodes: number[] = [];
    for (let node = words[(zone >> 2) + ZONE.FIRST_NODE]!; node !== 0; node = words[(node >> 2) + NODE.NEXT]!) {
      nodes.push(node);
    }
    return { nodes: Int32Array.from(nodes), release: this.#arena.pin() };
  }

  #apexOf(zone: number): Uint8Array {
    if (zone !== this.#apexZone) {
      const start = zone + ZONE.APEX * 4;
      this.#apex = this.memory.octets.slice(start, start + this.memory.words[(zone >> 2) + ZONE.APEX_LENGTH]!);
      this.#apexZone = zone;
    }
    return this.#apex;
  }

  #apexHash(apex: Uint8Array): number {
    this.#apexName.read(apex, 0, apex.length);
    let hash = this.#reader.rootHash;
    for (let label = this.#apexName.labelCount - 1; label >= 0; label -= 1) {
      hash = this.#reader.childHash(hash, this.#apexName, label);
    }
    return hash;
  }

  /** Reads the owner into `#name` and the hashes of it and its ancestors into `#hashes`; returns the apex's label. */
  #locate(zone: number, owner: Uint8Array, nameLength: number): number {
    this.#name.read(owner, 0, owner.length);
    let apexLabel = 0;
    while (this.#name.startOf(apexLabel) < nameLength) apexLabel += 1;
    this.#hashes[apexLabel] = this.#reader.zoneSeed(zone);
    for (let label = apexLabel - 1; label >= 0; label -= 1) {
      this.#hashes[label] = this.#reader.childHash(this.#hashes[label + 1]!, this.#name, label);
    }
    return apexLabel;
  }

  #findNode(zone: number, label: number, apexLabel: number): number {
    if (label === apexLabel) return this.#reader.apexNode(zone);
    return this.#reader.findNode(zone, this.#hashes[label]!, this.#name, label, apexLabel);
  }

  /** Makes the empty non-terminals that are missing above the name, and counts the new child. */
  #addAncestors(zone: number, owner: Uint8Array, apexLabel: number): void {
    let label = 1;
    let ancestor = this.#findNode(zone, label, apexLabel);
    while (ancestor === 0) {
      label += 1;
      ancestor = this.#findNode(zone, label, apexLabel);
    }
    this.#countChild(ancestor, 1);
    // From the top, so that a reader never finds a name whose parent is missing.
    for (label -= 1; label > 0; label -= 1) {
      const start = this.#name.startOf(label);
      const nameLength = this.#name.startOf(apexLabel) - start;
      const place = { hash: this.#hashes[label]!, nameLength, octets: owner.subarray(start), flags: 0 };
      const node = this.#writeNode(zone, place, NO_RRSETS);
      this.#countChild(node, 1);
      this.#nodes.insert(place.hash, node);
      this.#markWildcard(zone, label, apexLabel);
    }
  }

  #removeName(zone: number, node: number, place: Place, apexLabel: number): void {
    const { words } = this.memory;
    if (words[(node >> 2) + NODE.CHILDREN]! > 0) {
      this.#replaceNode(zone, node, place);
      return;
    }
    let label = 0;
    for (let gone = node; ; ) {
      this.#nodes.remove(this.#hashes[label]!, gone);
      this.#unlink(zone, gone);
      const parent = this.#findNode(zone, label + 1, apexLabel);
      this.#countChild(parent, -1);
      if (this.#name.isAsterisk(label)) this.#setFlag(parent, FLAG.WILDCARD_CHILD, false);
      label += 1;
      const needed = label === apexLabel || this.#reader.rrsetCount(parent) > 0;
      if (needed || words[(parent >> 2) + NODE.CHILDREN]! > 0) return;
      gone = parent;
    }
  }

  /** Tells the parent of the name at `label` when that is a wildcard. */
  #markWildcard(zone: number, label: number, apexLabel: number): void {
    if (!this.#name.isAsterisk(label)) return;
    this.#setFlag(this.#findNode(zone, label + 1, apexLabel), FLAG.WILDCARD_CHILD, true);
  }

  #setFlag(node: number, flag: number, on: boolean): void {
    const word = (node >> 2) + NODE.FLAGS;
    if (on) Atomics.or(this.memory.words, word, flag);
    else Atomics.and(this.memory.words, word, ~flag);
  }

  #countChild(node: number, change: number): void {
    this.memory.words[(node >> 2) + NODE.CHILDREN]! += change;
  }

  /** Writes a node, first in the zone's list. An apex's is its zone's from then on. */
  #writeNode(zone: number, place: Place, rrsets: EncodedRrsets): number {
    const nameStart = NODE.NAME * 4;
    const rrsetsStart = (nameStart + 1 + place.nameLength + 3) & ~3;
    const size = this.#arena.blockSize(rrsetsStart + rrsets.length);
    const node = this.#arena.allocate(size);
    const { words, octets } = this.memory;
    const word = node >> 2;
    const next = words[(zone >> 2) + ZONE.FIRST_NODE]!;
    words[word + NODE.ZONE] = zone;
    words[word + NODE.NEXT] = next;
    words[word + NODE.PREVIOUS] = 0;
    words[word + NODE.FLAGS] = place.flags | (rrsets.count << FLAG_BITS);
    words[word + NODE.CHILDREN] = 0;
    words[word + NODE.SIZE] = size;
    octets[node + nameStart] = place.nameLength;
    for (let index = 0; index < place.nameLength; index += 1) {
      octets[node + nameStart + 1 + index] = place.octets[index]!;
    }
    for (let index = 0; index < rrsets.length; index += 1) {
      octets[node + rrsetsStart + index] = rrsets.octets[index]!;
    }
    if (next !== 0) words[(next >> 2) + NODE.PREVIOUS] = node;
    words[(zone >> 2) + ZONE.FIRST_NODE] = node;
    if (place.nameLength === 0) Atomics.store(words, (zone >> 2) + ZONE.APEX_NODE, node);
    return node;
  }

  /** Puts a node with the encoder's RRsets in the place of another of the same name. */
  #replaceNode(zone: number, old: number, place: Place): void {
    const kept = this.memory.words[(old >> 2) + NODE.FLAGS]! & FLAG.WILDCARD_CHILD;
    const node = this.#writeNode(zone, { ...place, flags: place.flags | kept }, this.#encoder);
    this.memory.words[(node >> 2) + NODE.CHILDREN] = this.memory.words[(old >> 2) + NODE.CHILDREN]!;
    if (place.nameLength > 0) this.#nodes.replace(place.hash, old, node);
    this.#unlink(zone, old);
  }

  /** Takes a node that no table refers to any more out of the zone's list, and gives its memory back. */
  #unlink(zone: number, node: number): void {
    const { words } = this.memory;
    const next = words[(node >> 2) + NODE.NEXT]!;
    const previous = words[(node >> 2) + NODE.PREVIOUS]!;
    if (next !== 0) words[(next >> 2) + NODE.PREVIOUS] = previous;
    words[previous === 0 ? (zone >> 2) + ZONE.FIRST_NODE : (previous >> 2) + NODE.NEXT] = next;
    this.#arena.retire(node, words[(node >> 2) + NODE.SIZE]!);
  }

  /** Removes up to `limit` nodes of a zone out of sight; returns how many it removed. */
  #takeApart(zone: number, limit: number): number {
    const { words, octets } = this.memory;
    const apex = this.#apexOf(zone);
    const owner = new Uint8Array(255);
    let removed = 0;
    for (; removed < limit; removed += 1) {
      const node = words[(zone >> 2) + ZONE.FIRST_NODE]!;
      if (node === 0) break;
      const stored = node + NODE.NAME * 4;
      const nameLength = octets[stored]!;
      if (nameLength > 0) {
        owner.set(octets.subarray(stored + 1, stored + 1 + nameLength));
        owner.set(apex, nameLength);
        this.#locate(zone, owner, nameLength);
        this.#nodes.remove(this.#hashes[0]!, node);
      }
      this.#unlink(zone, node);
    }
    return removed;
  }
}

/** A node to write: its hash, its flags, and its name relative to the apex, the first `nameLength` of the octets. */
interface Place {
  readonly hash: number;
  readonly nameLength: number;
  readonly octets: Uint8Array;
  readonly flags: number;
}

type EncodedRrsets = Pick<RrsetEncoder, "octets" | "length" | "count">;
const NO_RRSETS: EncodedRrsets = { octets: new Uint8Array(0), length: 0, count: 0 };

function apexKey(apex: Uint8Array): string {
  return Buffer.from(apex.buffer, apex.byteOffset, apex.length).toString("latin1");
}

function flagOf(type: number): number {
  if (type === TYPE.NS) return FLAG.CUT;
  if (type === TYPE.DNAME) return FLAG.DNAME;
  return type === TYPE.CNAME ? FLAG.CNAME : 0;
}
