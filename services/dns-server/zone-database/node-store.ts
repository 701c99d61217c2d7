import type { Arena } from "./arena.ts";
import { APEX_TAIL, CHANGE, FLAG, FLAG_BITS, NODE, ZONE, zoneWord } from "./layout.ts";
import type { LookupName } from "./lookup-name.ts";
import type { MemorySegment } from "./memory.ts";
import type { RrsetEncoder } from "./stored-rrset.ts";

/** RRsets as a node has them (layout.ts, `RRSET`): so many octets from `start` on. */
export type EncodedRrsets = Pick<RrsetEncoder, "octets" | "start" | "length" | "count">;

export const NO_RRSETS: EncodedRrsets = { octets: new Uint8Array(0), start: 0, length: 0, count: 0 };

/** Nodes side by side, as an image of a zone has them: the words from `start` to `end`. */
export interface StoredNodes {
  readonly words: Int32Array;
  readonly start: number;
  readonly end: number;
}

/** A node to write: its flags, and its name relative to the apex, `nameLength` of the octets from `start` on. */
export interface Place {
  readonly octets: Uint8Array;
  readonly start: number;
  readonly nameLength: number;
  readonly flags: number;
}

/** From so many octets, and so many words, on a block copy pays for itself. */
const LONG_OCTETS = 96;
const LONG_WORDS = 192;

type Span = Pick<StoredNodes, "start" | "end">;

/** Where a name in a zone begins and where the zone's apex does, as labels of a longer one. */
export interface NameSpan {
  readonly name: LookupName;
  readonly label: number;
  readonly apexLabel: number;
}

/** Writes nodes and table entries into the zone database's memory, and gives it back (layout.ts, `NODE` and `CHANGE`). */
export class NodeStore {
  readonly #memory: MemorySegment;
  readonly #arena: Arena;

  constructor(memory: MemorySegment, arena: Arena) {
    this.#memory = memory;
    this.#arena = arena;
  }

  /** Writes a node of a zone, outside of its list. */
  writeNode(zone: number, place: Place, rrsets: EncodedRrsets): number {
    const nameStart = NODE.NAME * 4;
    const rrsetsStart = (nameStart + 1 + place.nameLength + 3) & ~3;
    const rrsetsEnd = (rrsetsStart + rrsets.length + 3) & ~3;
    const size = this.#arena.blockSize(rrsetsEnd + (place.nameLength === 0 ? APEX_TAIL.WORDS * 4 : 0));
    const node = this.#arena.allocate(size);
    const { words, octets } = this.#memory;
    const word = node >> 2;
    words[word + NODE.ZONE] = zone;
    words[word + NODE.NEXT] = 0;
    words[word + NODE.PREVIOUS] = 0;
    words[word + NODE.FLAGS] = place.flags | (rrsets.count << FLAG_BITS);
    words[word + NODE.CHILDREN] = 0;
    words[word + NODE.SIZE] = size;
    octets[node + nameStart] = place.nameLength;
    for (let index = 0; index < place.nameLength; index += 1) {
      octets[node + nameStart + 1 + index] = place.octets[place.start + index]!;
    }
    this.#copyRrsets(rrsets, node + rrsetsStart);
    return node;
  }

  /**
   * Copies nodes that lie side by side, to a place where they do so as well.
   * @returns where; 0 where there is no such place
   */
  copyRun({ words, start, end }: StoredNodes): number {
    const run = this.#arena.allocateRun((end - start) * 4);
    if (run !== 0) this.#copyWords(words, { start, end }, run >> 2);
    return run;
  }

  /** Copies one of them. @param start its first word */
  copyNode(words: Int32Array, start: number): number {
    const size = words[start + NODE.SIZE]!;
    const node = this.#arena.allocate(size);
    this.#copyWords(words, { start, end: start + (size >> 2) }, node >> 2);
    return node;
  }

  #copyWords(source: Int32Array, { start, end }: Span, to: number): void {
    const { words } = this.#memory;
    if (end - start > LONG_WORDS) words.set(source.subarray(start, end), to);
    else for (let index = start; index < end; index += 1) words[to + index - start] = source[index]!;
  }

  /** Gives nodes back that lie side by side and that no reader can have seen. */
  freeRun(from: number, to: number): void {
    for (let node = from; node < to; ) {
      const next = node + this.octetsOf(node);
      this.free(node);
      node = next;
    }
  }

  /** Octet by octet where they are few: a view of the source for `set` would cost more. */
  #copyRrsets({ octets: source, start, length }: EncodedRrsets, to: number): void {
    const { octets } = this.#memory;
    if (length > LONG_OCTETS) octets.set(source.subarray(start, start + length), to);
    else for (let index = 0; index < length; index += 1) octets[to + index] = source[start + index]!;
  }

  /** Writes a `CHANGE` of a name from one node to another, from a version on. */
  writeChange(zone: number, { name, label, apexLabel }: NameSpan, nodes: NodesOfChange): number {
    const start = name.startOf(label);
    const nameLength = name.startOf(apexLabel) - start;
    const nameStart = NODE.NAME * 4;
    const size = this.#arena.blockSize(nameStart + 1 + nameLength);
    const entry = this.#arena.allocate(size);
    const { words, octets } = this.#memory;
    const word = entry >> 2;
    words[word + NODE.ZONE] = zone;
    words[word + CHANGE.BEFORE] = nodes.before;
    words[word + CHANGE.AFTER] = nodes.after;
    words[word + CHANGE.VERSION] = nodes.version;
    words[word + NODE.FLAGS] = FLAG.CHANGE;
    words[word + NODE.SIZE] = size;
    octets[entry + nameStart] = nameLength;
    for (let index = 0; index < nameLength; index += 1) {
      octets[entry + nameStart + 1 + index] = name.octets[start + index]!;
    }
    return entry;
  }

  /** Root of the index of the version that an apex stands for. */
  indexRootOf(apex: number): number {
    return this.#memory.words[this.#tailOf(apex) - APEX_TAIL.INDEX]!;
  }

  writeApexTail(apex: number, { version, root }: { readonly version: number; readonly root: number }): void {
    const { words } = this.#memory;
    words[this.#tailOf(apex) - APEX_TAIL.VERSION] = version;
    words[this.#tailOf(apex) - APEX_TAIL.INDEX] = root;
  }

  /** Puts a node first in its zone's list. */
  link(zone: number, node: number): void {
    const { words } = this.#memory;
    const next = words[zoneWord(zone) + ZONE.FIRST_NODE]!;
    words[(node >> 2) + NODE.NEXT] = next;
    words[(node >> 2) + NODE.PREVIOUS] = 0;
    if (next !== 0) words[(next >> 2) + NODE.PREVIOUS] = node;
    words[zoneWord(zone) + ZONE.FIRST_NODE] = node;
  }

  /** Takes a node out of its zone's list. */
  unlink(zone: number, node: number): void {
    const { words } = this.#memory;
    const next = words[(node >> 2) + NODE.NEXT]!;
    const previous = words[(node >> 2) + NODE.PREVIOUS]!;
    if (next !== 0) words[(next >> 2) + NODE.PREVIOUS] = previous;
    words[previous === 0 ? zoneWord(zone) + ZONE.FIRST_NODE : (previous >> 2) + NODE.NEXT] = next;
  }

  /** Gives the memory of a node or an entry back. */
  retire(reference: number): void {
    this.#arena.retire(reference, this.octetsOf(reference));
  }

  /** As `retire`, of a node that no reader can have seen. */
  free(reference: number): void {
    this.#arena.freeUnseen(reference, this.octetsOf(reference));
  }

  /** Octets of the block of a node or an entry. */
  octetsOf(reference: number): number {
    return this.#memory.words[(reference >> 2) + NODE.SIZE]!;
  }

  /** Word index of the end of an apex's node. */
  #tailOf(apex: number): number {
    return (apex + this.octetsOf(apex)) >> 2;
  }
}

export interface NodesOfChange {
  readonly before: number;
  readonly after: number;
  readonly version: number;
}
