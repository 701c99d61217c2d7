import type { Arena } from "./arena.ts";
import { HashTable } from "./hash-table.ts";
import { FLAG, FLAG_BITS, HEADER, NODE, NODE_SHARD_BITS, ZONE } from "./layout.ts";
import { LookupName } from "./lookup-name.ts";
import type { PictureReader } from "./reader.ts";
import type { RrsetEncoder } from "./stored-rrset.ts";

export type EncodedRrsets = Pick<RrsetEncoder, "octets" | "length" | "count">;

/** The names of all zones, as the writer changes them: nodes, their table, and each zone's list of its own. */
export class ZoneNodes {
  readonly #reader: PictureReader;
  readonly #arena: Arena;
  readonly #table: HashTable;
  /** The name at hand, and the hashes of it and its ancestors by label; that of the apex is the zone's seed. */
  readonly #name = new LookupName();
  readonly #hashes = new Int32Array(129);

  constructor(reader: PictureReader, arena: Arena) {
    this.#reader = reader;
    this.#arena = arena;
    const place = { shards: HEADER.NODE_SHARDS, shardBits: NODE_SHARD_BITS };
    this.#table = new HashTable(reader.memory, arena, place);
  }

  /** Gives a new zone its apex, without records. */
  createApex(zone: number, apex: Uint8Array): void {
    this.#writeNode(zone, { hash: 0, nameLength: 0, octets: apex, flags: 0 }, NO_RRSETS);
  }

  /**
   * Replaces all RRsets at one name; none removes the name.
   * @param owner wire form, case kept
   * @param nameLength octets of the owner in front of the apex
   */
  setRrsets(zone: number, owner: Uint8Array, nameLength: number, rrsets: EncodedRrsets, flags: number): void {
    if (nameLength === 0) {
      // NS at the apex is no cut.
      const place = { hash: 0, nameLength, octets: owner, flags: flags & ~FLAG.CUT };
      this.#replaceNode(zone, this.#reader.apexNode(zone), place, rrsets);
      return;
    }
    const apexLabel = this.#locate(zone, owner, nameLength);
    const node = this.#findNode(zone, 0, apexLabel);
    const place = { hash: this.#hashes[0]!, nameLength, octets: owner, flags };
    if (rrsets.count === 0) {
      if (node !== 0) this.#removeName(zone, node, place, apexLabel);
    } else if (node !== 0) {
      this.#replaceNode(zone, node, place, rrsets);
    } else {
      this.#addAncestors(zone, owner, apexLabel);
      this.#table.insert(place.hash, this.#writeNode(zone, place, rrsets));
      this.#markWildcard(zone, 0, apexLabel);
    }
  }

  /** Removes up to `limit` nodes of a zone out of sight; returns how many it removed. */
  takeApart(zone: number, apex: Uint8Array, limit: number): number {
    const { words, octets } = this.#reader.memory;
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
        this.#table.remove(this.#hashes[0]!, node);
      }
      this.#unlink(zone, node);
    }
    return removed;
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
      this.#table.insert(place.hash, node);
      this.#markWildcard(zone, label, apexLabel);
    }
  }

  #removeName(zone: number, node: number, place: Place, apexLabel: number): void {
    const { words } = this.#reader.memory;
    if (words[(node >> 2) + NODE.CHILDREN]! > 0) {
      this.#replaceNode(zone, node, place, NO_RRSETS);
      return;
    }
    let label = 0;
    for (let gone = node; ; ) {
      this.#table.remove(this.#hashes[label]!, gone);
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
    if (on) Atomics.or(this.#reader.memory.words, word, flag);
    else Atomics.and(this.#reader.memory.words, word, ~flag);
  }

  #countChild(node: number, change: number): void {
    this.#reader.memory.words[(node >> 2) + NODE.CHILDREN]! += change;
  }

  /** Writes a node, first in the zone's list. An apex's is its zone's from then on. */
  #writeNode(zone: number, place: Place, rrsets: EncodedRrsets): number {
    const nameStart = NODE.NAME * 4;
    const rrsetsStart = (nameStart + 1 + place.nameLength + 3) & ~3;
    const size = this.#arena.blockSize(rrsetsStart + rrsets.length);
    const node = this.#arena.allocate(size);
    const { words, octets } = this.#reader.memory;
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

  /** Puts another node in the place of one of the same name. */
  #replaceNode(zone: number, old: number, place: Place, rrsets: EncodedRrsets): void {
    const kept = this.#reader.memory.words[(old >> 2) + NODE.FLAGS]! & FLAG.WILDCARD_CHILD;
    const node = this.#writeNode(zone, { ...place, flags: place.flags | kept }, rrsets);
    this.#reader.memory.words[(node >> 2) + NODE.CHILDREN] = this.#reader.memory.words[(old >> 2) + NODE.CHILDREN]!;
    if (place.nameLength > 0) this.#table.replace(place.hash, old, node);
    this.#unlink(zone, old);
  }

  /** Takes a node that no table refers to any more out of the zone's list, and gives its memory back. */
  #unlink(zone: number, node: number): void {
    const { words } = this.#reader.memory;
    const next = words[(node >> 2) + NODE.NEXT]!;
    const previous = words[(node >> 2) + NODE.PREVIOUS]!;
    if (next !== 0) words[(next >> 2) + NODE.PREVIOUS] = previous;
    words[previous === 0 ? (zone >> 2) + ZONE.FIRST_NODE : (previous >> 2) + NODE.NEXT] = next;
    this.#arena.retire(node, words[(node >> 2) + NODE.SIZE]!);
  }
}

/** A node to write: its hash, its flags, and its name relative to the apex, the first `nameLength` of the octets. */
interface Place {
  readonly hash: number;
  readonly nameLength: number;
  readonly octets: Uint8Array;
  readonly flags: number;
}

const NO_RRSETS: EncodedRrsets = { octets: new Uint8Array(0), length: 0, count: 0 };
