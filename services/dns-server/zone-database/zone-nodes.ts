import type { Arena } from "./arena.ts";
import type { Epochs } from "./epochs.ts";
import { APEX_TAIL, DENIAL, FLAG, FLAG_BITS, NODE, ZONE, zoneWord } from "./layout.ts";
import { LocatedName } from "./located-name.ts";
import { type EncodedRrsets, NO_RRSETS, NodeStore, type Place, type StoredNodes } from "./node-store.ts";
import { NodeTable } from "./node-table.ts";
import type { ZoneDatabaseReader } from "./reader.ts";
import { classSize, sizeClass } from "./size-class.ts";
import { type ChangedName, PendingChanges, type UnsettledChange, type ZoneChange } from "./zone-change.ts";
import { ZoneIndex } from "./zone-index.ts";

/**
 * The names of all zones of a segment, as the writer changes them: nodes, their table, and of each zone its list of nodes and its
 * index. What is done to a zone is seen when it is published, and then all at once: until no reader is left that has
 * the version before open, the table has both versions of a name (layout.ts, `CHANGE`).
 */
export class ZoneNodes {
  readonly #reader: ZoneDatabaseReader;
  readonly #epochs: Epochs;
  readonly #table: NodeTable;
  readonly #index: ZoneIndex;
  readonly #store: NodeStore;
  /** By zone, what is not published yet. */
  readonly #changes = new PendingChanges();
  /** Published changes, the oldest first. */
  #unsettled: UnsettledChange[] = [];
  #nextVersion = 1;
  /** The name at hand. */
  readonly #name: LocatedName;
  /** The change at hand. */
  #change!: ZoneChange;

  constructor(reader: ZoneDatabaseReader, arena: Arena, epochs: Epochs) {
    this.#reader = reader;
    this.#epochs = epochs;
    this.#index = new ZoneIndex(reader, arena);
    this.#store = new NodeStore(reader.segment, arena);
    this.#table = new NodeTable(reader, arena, this.#store);
    this.#name = new LocatedName(reader);
  }

  /** Octets of blocks that are kept for the next change of an index. */
  get spareOctets(): number {
    return this.#index.spareOctets;
  }

  /** Makes room in the table for so many nodes in all. @throws ZoneDatabaseFullError */
  expect(nodes: number): void {
    this.#table.expect(nodes);
  }

  /** Octets of a zone's nodes, as they are going to be published. */
  octetsOf(zone: number): number {
    return this.#reader.segment.words[zoneWord(zone) + ZONE.OCTETS]!;
  }

  /** Octets by which a zone that readers see has grown since it was published; of another zone undefined. */
  grownBy(zone: number): number | undefined {
    const change = this.#changes.get(zone);
    if (!change) return 0;
    return change.isVisible ? this.octetsOf(zone) - change.octetsBefore : undefined;
  }

  /** Begins with a new zone. */
  begin(zone: number): void {
    this.#newChange(zone, false);
  }

  /**
   * Replaces all RRsets at one name, those of `setNsec3` aside; none removes the name.
   * @param owner wire form, case kept; what follows the name relative to the apex is not looked at
   * @param nameLength octets of the owner in front of the apex
   */
  setRrsets(zone: number, owner: Uint8Array, nameLength: number, rrsets: EncodedRrsets, flags: number): void {
    this.#change = this.#changeOf(zone);
    this.#name.read(zone, owner, 0, nameLength);
    const kept = this.#reader.denialOf(zone) === DENIAL.NSEC ? flags : flags & ~FLAG.NSEC;
    if (nameLength === 0) {
      // NS at the apex is no cut.
      this.#setApex({ octets: owner, start: 0, nameLength, flags: kept & ~FLAG.CUT }, rrsets);
      return;
    }
    this.#makeSureOfApex();
    const node = this.#findNode(0);
    const place = { octets: owner, start: 0, nameLength, flags: kept };
    if (rrsets.count === 0) {
      if (node !== 0) this.#removeName(node, place);
    } else if (node !== 0) {
      this.#putNode(0, node, place, rrsets);
    } else {
      this.#addAncestors(place);
      this.#putNode(0, 0, place, rrsets);
      this.#markWildcard(0);
    }
  }

  /** Replaces the NSEC3 record at one name, with its signatures; none takes it away. Parameters as for `setRrsets`. */
  setNsec3(zone: number, owner: Uint8Array, nameLength: number, rrsets: EncodedRrsets): void {
    this.#change = this.#changeOf(zone);
    this.#name.read(zone, owner, 0, nameLength);
    const node = this.#index.find(this.#change, this.#name.lookup, this.#name.apexLabel);
    if (rrsets.count > 0) {
      const place = { octets: owner, start: 0, nameLength, flags: FLAG.NSEC3 };
      this.#index.put(this.#change, this.#name.lookup, this.#name.apexLabel, this.#writeNode(place, rrsets));
    } else if (node !== 0) {
      this.#index.remove(this.#change, this.#name.lookup, this.#name.apexLabel);
    }
    if (node !== 0) this.#giveUp(node);
  }

  /**
   * Puts nodes into a zone that nobody sees yet, as an image of it has them: the apex is the zone's first one.
   * @throws ZoneDatabaseFullError, and then some of them are there
   */
  putNodes(zone: number, nodes: StoredNodes): void {
    this.#change = this.#changeOf(zone);
    const { words, start, end } = nodes;
    for (let word = start; word < end; word += words[word + NODE.SIZE]! >> 2) {
      if (!isNode(nodes, word)) throw new Error("an image has what is no node");
    }
    const run = this.#store.copyRun(nodes);
    let node = 0;
    try {
      for (let word = start; word < end; word += words[word + NODE.SIZE]! >> 2) {
        node = 0;
        node = run === 0 ? this.#store.copyNode(words, word) : run + (word - start) * 4;
        this.#putStored(node);
      }
    } catch (error) {
      // What has not been put in is in no list and no table.
      if (run !== 0) this.#store.freeRun(node, run + (end - start) * 4);
      else if (node !== 0) this.#store.free(node);
      throw error;
    }
  }

  /** Puts in a node that is in its place already. @throws ZoneDatabaseFullError, and then it is not put in */
  #putStored(node: number): void {
    const { words, octets } = this.#reader.segment;
    const { zone } = this.#change;
    const start = node + NODE.NAME * 4 + 1;
    const nameLength = octets[start - 1]!;
    const flags = words[(node >> 2) + NODE.FLAGS]!;
    if (nameLength > 0 && this.#change.apex === 0) throw new Error("an image does not begin with its apex");
    this.#name.read(zone, octets, start, nameLength);
    if ((flags & (FLAG.NSEC | FLAG.NSEC3)) !== 0) this.#index.makeRoomFor(this.#change);
    const isInTable = nameLength > 0 && (flags & FLAG.NSEC3) === 0;
    // A name comes once: it can only be there where one below it came before.
    const former = isInTable && this.#change.hasAncestors ? this.#name.findNode(0) : 0;
    if (isInTable && former === 0) {
      this.#addAncestors({ octets, start, nameLength, flags });
      this.#table.makeRoom(this.#name.hashAt(0));
    }
    words[(node >> 2) + NODE.ZONE] = zone;
    this.#setOctets(zone, this.octetsOf(zone) + this.#store.octetsOf(node));
    this.#store.link(zone, node);
    if (nameLength === 0) this.#change.apex = node;
    if (!isInTable) {
      if (flags & (FLAG.NSEC | FLAG.NSEC3))
        this.#index.put(this.#change, this.#name.lookup, this.#name.apexLabel, node);
      return;
    }
    if (former !== 0) this.#inherit(node, former);
    this.#exchange(0, former, node);
    if (former === 0) this.#markWildcard(0);
  }

  /**
   * Makes what was done to a zone visible, by one store.
   * @throws ZoneDatabaseFullError, and then readers see what they saw
   */
  publish(zone: number): void {
    const change = this.#changes.get(zone);
    if (!change) return;
    this.#change = change;
    this.#makeSureOfApex();
    const { words } = this.#reader.segment;
    const before = words[zoneWord(zone) + ZONE.APEX_NODE]!;
    if (change.apex === before && change.isVisible) this.#copyApex(before);
    this.#store.writeApexTail(change.apex, change);
    if (change.isVisible) {
      for (const node of change.removed) this.#store.unlink(zone, node);
      for (const node of change.added) this.#store.link(zone, node);
    }
    Atomics.store(words, zoneWord(zone) + ZONE.APEX_NODE, change.apex);
    // Behind what it counts: who has read the count before answers from this version or an earlier one.
    Atomics.add(words, zoneWord(zone) + ZONE.PUBLISHED, 1);
    this.#changes.delete(zone);
    if (!change.isVisible) return;
    this.#index.freeReplaced(change);
    this.#unsettled.push({ change, epoch: this.#epochs.current });
  }

  /** Gives up what was done to a zone that readers see since it was published; of another zone see `takeApart`. */
  abandon(zone: number): void {
    const change = this.#changes.get(zone);
    if (!change?.isVisible) return;
    const { words } = this.#reader.segment;
    this.#changes.delete(zone);
    this.#setOctets(zone, change.octetsBefore);
    for (const [node, difference] of change.counted) words[(node >> 2) + NODE.CHILDREN]! -= difference;
    this.#table.abandon(change);
    for (const node of change.added) this.#store.retire(node);
    this.#index.free(change.root, change.version);
  }

  /** Takes the former versions of names out of the table that no reader can have open any more. */
  settle(): void {
    let settled = 0;
    for (const { change, epoch } of this.#unsettled) {
      if (!this.#epochs.hasPassed(epoch)) break;
      for (const name of change.names) this.#settleName(change.zone, name);
      for (const node of change.removed) this.#store.retire(node);
      settled += 1;
    }
    if (settled > 0) this.#unsettled = this.#unsettled.slice(settled);
  }

  /** Removes up to `limit` nodes of a zone out of sight; returns how many it removed. */
  takeApart(zone: number, limit: number): number {
    this.abandon(zone);
    this.#setOctets(zone, 0);
    this.#freeIndex(zone);
    const { words, octets } = this.#reader.segment;
    let removed = 0;
    for (; removed < limit; removed += 1) {
      const node = words[zoneWord(zone) + ZONE.FIRST_NODE]!;
      if (node === 0) break;
      const stored = node + NODE.NAME * 4;
      const nameLength = octets[stored]!;
      if (nameLength > 0 && (this.#reader.flags(node) & FLAG.NSEC3) === 0) {
        this.#name.read(zone, octets, stored + 1, nameLength);
        this.#table.exchange(this.#name.hashAt(0), node, 0);
      }
      this.#store.unlink(zone, node);
      this.#store.retire(node);
    }
    return removed;
  }

  /** Of a zone that is being taken apart, the first time. */
  #freeIndex(zone: number): void {
    const { words } = this.#reader.segment;
    const unpublished = this.#changes.get(zone);
    if (unpublished) {
      this.#index.free(unpublished.root);
      this.#changes.delete(zone);
      return;
    }
    const apex = words[zoneWord(zone) + ZONE.APEX_NODE]!;
    if (apex === 0) return;
    this.#index.free(this.#store.indexRootOf(apex));
    words[zoneWord(zone) + ZONE.APEX_NODE] = 0;
  }

  #setOctets(zone: number, octets: number): void {
    this.#reader.segment.words[zoneWord(zone) + ZONE.OCTETS] = octets;
  }

  #changeOf(zone: number): ZoneChange {
    return this.#changes.get(zone) ?? this.#newChange(zone, true);
  }

  #newChange(zone: number, isVisible: boolean): ZoneChange {
    const { words } = this.#reader.segment;
    const apex = isVisible ? words[zoneWord(zone) + ZONE.APEX_NODE]! : 0;
    const differences = isVisible ? emptyChange() : UNSEEN;
    const change: ZoneChange = {
      zone,
      isVisible,
      octetsBefore: this.octetsOf(zone),
      version: this.#nextVersion,
      apex,
      root: apex === 0 ? 0 : this.#store.indexRootOf(apex),
      hasAncestors: false,
      replaced: differences.replaced,
      names: differences.names,
      added: differences.added,
      removed: differences.removed,
      counted: differences.counted,
    };
    this.#nextVersion = (this.#nextVersion + 1) | 0;
    this.#changes.add(change);
    return change;
  }

  /** The node to be of the name at a label. */
  #findNode(label: number): number {
    return label === this.#name.apexLabel ? this.#change.apex : this.#name.findNode(label);
  }

  /** A zone has an apex, if without records. */
  #makeSureOfApex(): void {
    if (this.#change.apex === 0) this.#setApex(NO_PLACE, NO_RRSETS);
  }

  /** Makes the empty non-terminals that are missing above the name, and counts the new child. */
  #addAncestors({ octets, start: nameStart }: Place): void {
    let label = 1;
    let ancestor = this.#findNode(label);
    while (ancestor === 0) {
      label += 1;
      ancestor = this.#findNode(label);
    }
    this.#countChild(ancestor, 1);
    if (label > 1) this.#change.hasAncestors = true;
    // From the top, so that a reader of a zone that is being built never finds a name whose parent is missing.
    for (label -= 1; label > 0; label -= 1) {
      const start = this.#name.lookup.startOf(label);
      const nameLength = this.#name.lookup.startOf(this.#name.apexLabel) - start;
      const place = { octets, start: nameStart + start, nameLength, flags: 0 };
      this.#countChild(this.#putNode(label, 0, place, NO_RRSETS), 1);
      this.#markWildcard(label);
    }
  }

  #removeName(node: number, place: Place): void {
    const { words } = this.#reader.segment;
    if (words[(node >> 2) + NODE.CHILDREN]! > 0) {
      this.#putNode(0, node, place, NO_RRSETS);
      return;
    }
    let label = 0;
    for (let gone = node; ; ) {
      this.#exchange(label, gone, 0);
      const parent = this.#findNode(label + 1);
      this.#countChild(parent, -1);
      // Readers of the version before still need the mark of a zone that they see; see `#settleName`.
      if (this.#name.lookup.isAsterisk(label) && !this.#change.isVisible)
        this.#setFlag(parent, FLAG.WILDCARD_CHILD, false);
      label += 1;
      const needed = label === this.#name.apexLabel || this.#reader.rrsetCount(parent) > 0;
      if (needed || words[(parent >> 2) + NODE.CHILDREN]! > 0) return;
      gone = parent;
    }
  }

  /** Tells the parent of the name at `label` when that is a wildcard. Where it is too early, the look-up finds nothing. */
  #markWildcard(label: number): void {
    if (this.#name.lookup.isAsterisk(label)) this.#setFlag(this.#findNode(label + 1), FLAG.WILDCARD_CHILD, true);
  }

  #setFlag(node: number, flag: number, on: boolean): void {
    const word = (node >> 2) + NODE.FLAGS;
    if (on) Atomics.or(this.#reader.segment.words, word, flag);
    else Atomics.and(this.#reader.segment.words, word, ~flag);
  }

  #countChild(node: number, difference: number): void {
    this.#reader.segment.words[(node >> 2) + NODE.CHILDREN]! += difference;
    if (this.#change.isVisible) this.#change.counted.push([node, difference]);
  }

  /** Writes a node for the name at a label, in the place of the one that it has, if any. */
  #putNode(label: number, former: number, place: Place, rrsets: EncodedRrsets): number {
    // The table first: a node of the zone's list that is not in it could not be taken apart.
    if (former === 0 && !this.#change.isVisible) this.#table.makeRoom(this.#name.hashAt(label));
    const node = this.#writeNode(place, rrsets);
    if (former !== 0) this.#inherit(node, former);
    this.#exchange(label, former, node);
    return node;
  }

  /** What a node keeps from its predecessor: what its children have brought about. */
  #inherit(node: number, former: number): void {
    const { words } = this.#reader.segment;
    words[(node >> 2) + NODE.CHILDREN] = words[(former >> 2) + NODE.CHILDREN]!;
    words[(node >> 2) + NODE.FLAGS]! |= words[(former >> 2) + NODE.FLAGS]! & FLAG.WILDCARD_CHILD;
  }

  #setApex(place: Place, rrsets: EncodedRrsets): void {
    const former = this.#change.apex;
    const node = this.#writeNode(place, rrsets);
    if (former !== 0) this.#inherit(node, former);
    this.#change.apex = node;
    this.#updateIndex(former, node);
    if (former === 0) return;
    if (this.#change.isVisible) this.#giveUp(former);
    else this.#forgetApex(former);
  }

  /** Does without the former apex of a zone that nobody sees: no table had it, so that its memory is free at once. */
  #forgetApex(node: number): void {
    const { zone } = this.#change;
    this.#setOctets(zone, this.octetsOf(zone) - this.#store.octetsOf(node));
    this.#store.unlink(zone, node);
    this.#store.free(node);
  }

  /** Writes the apex of the version that is published once more, for the next one. */
  #copyApex(apex: number): void {
    const { octets, words } = this.#reader.segment;
    const start = this.#reader.firstRrset(apex);
    const flags = words[(apex >> 2) + NODE.FLAGS]!;
    const length = apex + words[(apex >> 2) + NODE.SIZE]! - APEX_TAIL.WORDS * 4 - start;
    const rrsets = { octets: octets.slice(start, start + length), start: 0, length, count: flags >>> FLAG_BITS };
    this.#name.read(this.#change.zone, octets, apex, 0);
    this.#setApex({ ...NO_PLACE, flags: flags & ((1 << FLAG_BITS) - 1) }, rrsets);
  }

  /** Writes a node that the zone will have. */
  #writeNode(place: Place, rrsets: EncodedRrsets): number {
    const { zone, isVisible, added } = this.#change;
    const node = this.#store.writeNode(zone, place, rrsets);
    this.#setOctets(zone, this.octetsOf(zone) + this.#store.octetsOf(node));
    if (isVisible) added.add(node);
    else this.#store.link(zone, node);
    return node;
  }

  /** Makes another node, or none, that of the name at a label: in a zone that readers see from the next version on. */
  #exchange(label: number, former: number, node: number): void {
    if (this.#change.isVisible) this.#table.exchangeLater(this.#change, this.#name, label, node);
    else this.#table.exchange(this.#name.hashAt(label), former, node);
    // Before the index, for which there may be no room: a node of the zone's list that is not in the table could not be taken apart.
    if (former !== 0) this.#giveUp(former);
    if (label === 0) this.#updateIndex(former, node);
  }

  /** Leaves the table the node alone that a change has given a name. */
  #settleName(zone: number, name: ChangedName): void {
    const { entry } = name;
    if (this.#table.settle(name) === 0) this.#unmarkWildcard(zone, entry);
    this.#store.retire(entry);
  }

  /** Takes the mark from the parent of a wildcard that has gone. */
  #unmarkWildcard(zone: number, entry: number): void {
    const { words, octets } = this.#reader.segment;
    const name = entry + NODE.NAME * 4;
    if (octets[name + 1] !== 1 || octets[name + 2] !== ASTERISK) return;
    this.#name.read(zone, octets, name + 1, octets[name]!);
    if (this.#name.findNode(0) !== 0) return;
    const isBelowApex = this.#name.apexLabel === 1;
    const apexNode = () => this.#changes.get(zone)?.apex ?? words[zoneWord(zone) + ZONE.APEX_NODE]!;
    const parent = isBelowApex ? apexNode() : this.#name.findNode(1);
    if (parent !== 0) this.#setFlag(parent, FLAG.WILDCARD_CHILD, false);
  }

  /** Keeps the index in step with the node of the name at hand. */
  #updateIndex(former: number, node: number): void {
    if (node !== 0 && (this.#reader.flags(node) & FLAG.NSEC) !== 0) {
      this.#index.put(this.#change, this.#name.lookup, this.#name.apexLabel, node);
    } else if (former !== 0 && (this.#reader.flags(former) & FLAG.NSEC) !== 0) {
      this.#index.remove(this.#change, this.#name.lookup, this.#name.apexLabel);
    }
  }

  /** Does without a node: at once when nobody has seen it, else when the change is published. */
  #giveUp(node: number): void {
    const { zone, isVisible, added, removed } = this.#change;
    this.#setOctets(zone, this.octetsOf(zone) - this.#store.octetsOf(node));
    if (isVisible && !added.delete(node)) {
      removed.add(node);
      return;
    }
    if (!isVisible) this.#store.unlink(zone, node);
    this.#store.retire(node);
  }
}

type Differences = Pick<ZoneChange, "replaced" | "names" | "added" | "removed" | "counted">;

function emptyChange(): Differences {
  return { replaced: [], names: [], added: new Set(), removed: new Set(), counted: [] };
}

/** Of a zone that nobody sees: there is nothing that it differs from. */
const UNSEEN = emptyChange();

/** Of an apex without flags. */
const NO_PLACE: Place = { octets: NO_RRSETS.octets, start: 0, nameLength: 0, flags: 0 };

/** The label `*` as the octets of a name. */
const ASTERISK = 0x2a;

/** Whether what begins at a word may be a node: it has the size of a block, and ends where the nodes do at the latest. */
function isNode({ words, end }: StoredNodes, word: number): boolean {
  const size = words[word + NODE.SIZE]!;
  return size > 0 && word + (size >> 2) <= end && classSize(sizeClass(size)) === size;
}
