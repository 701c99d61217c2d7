import { INDEX, LOWER_CASE, NODE } from "./layout.ts";
import type { LookupName } from "./lookup-name.ts";
import type { ZoneDatabaseReader } from "./reader.ts";

/** A reader's side of a zone's index (layout.ts, `INDEX`): look-ups in canonical order, as one thread makes them. */
export class IndexReader {
  readonly #reader: ZoneDatabaseReader;
  /** Where the labels of the name begin that `compareName` has at hand. */
  readonly #labels = new Int32Array(128);

  constructor(reader: ZoneDatabaseReader) {
    this.#reader = reader;
  }

  /**
   * The node with the name, or else the last one before it in canonical order, of those that deny existence in the open
   * zone; 0 for none. What comes before the first one is the last one in NSEC3's order alone, which is a circle.
   * @param apexLabel where in the name the zone's apex begins
   */
  find(name: LookupName, apexLabel: number): number {
    let block = this.#reader.indexRoot;
    while (block !== 0) {
      const header = this.#wordAt(block);
      const isInner = header >>> 16 > 0;
      const entries = (block >> 2) + INDEX.ENTRIES;
      let low = 0;
      let high = header & 0xffff;
      while (low < high) {
        const middle = (low + high) >> 1;
        const node = this.#reader.segment.words[entries + (isInner ? middle * 2 : middle)]!;
        const order = this.compareName(node, name, apexLabel);
        if (order === 0) return node;
        if (order < 0) low = middle + 1;
        else high = middle;
      }
      if (low === 0) return 0;
      if (!isInner) return this.#reader.segment.words[entries + low - 1]!;
      block = this.#reader.segment.words[entries + low * 2 - 1]!;
    }
    return 0;
  }

  /** The nodes at and below a block, in order. */
  *nodesIn(block: number): Generator<number> {
    if (block === 0) return;
    const header = this.#wordAt(block);
    const isInner = header >>> 16 > 0;
    for (let index = 0; index < (header & 0xffff); index += 1) {
      const entry = (block >> 2) + INDEX.ENTRIES + (isInner ? 2 * index : index);
      const { words } = this.#reader.segment;
      if (isInner) yield* this.nodesIn(words[entry + 1]!);
      else yield words[entry]!;
    }
  }

  /** The last node of the open zone's index; 0 for none. */
  last(): number {
    let block = this.#reader.indexRoot;
    while (block !== 0) {
      const header = this.#wordAt(block);
      const last = (block >> 2) + INDEX.ENTRIES + (header & 0xffff) - 1;
      if (header >>> 16 === 0) {
        block = this.#reader.segment.words[last]!;
        this.#reader.segment.follow(block);
        return block;
      }
      block = this.#reader.segment.words[last + (header & 0xffff)]!;
    }
    return 0;
  }

  /**
   * Canonical order (RFC 4034 §6.1) of a node of a zone and a name in it: below 0 when the node comes first, 0 when it
   * has the name.
   * @param apexLabel where in the name the zone's apex begins
   */
  compareName(node: number, name: LookupName, apexLabel: number): number {
    this.#reader.segment.follow(node);
    const { octets } = this.#reader.segment;
    const start = node + NODE.NAME * 4 + 1;
    const end = start + octets[start - 1]!;
    let labels = 0;
    for (let label = start; label < end; label += octets[label]! + 1) this.#labels[labels++] = label;
    const common = Math.min(labels, apexLabel);
    for (let above = 1; above <= common; above += 1) {
      const stored = this.#labels[labels - above]!;
      const wanted = name.labelStarts[apexLabel - above]!;
      const order = this.#compareLabels(stored, name.octets, wanted);
      if (order !== 0) return order;
    }
    return labels - apexLabel;
  }

  #compareLabels(stored: number, lowerCase: Uint8Array, wanted: number): number {
    const { octets } = this.#reader.segment;
    const storedOctets = octets[stored]!;
    const wantedOctets = lowerCase[wanted]!;
    const shared = Math.min(storedOctets, wantedOctets);
    for (let index = 1; index <= shared; index += 1) {
      const order = LOWER_CASE[octets[stored + index]!]! - lowerCase[wanted + index]!;
      if (order !== 0) return order;
    }
    return storedOctets - wantedOctets;
  }

  #wordAt(reference: number): number {
    this.#reader.segment.follow(reference);
    return this.#reader.segment.words[reference >> 2]!;
  }
}
