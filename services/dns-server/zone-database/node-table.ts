import type { Arena } from "./arena.ts";
import { HashTable } from "./hash-table.ts";
import { CHANGE, HEADER, NODE_SHARD_BITS } from "./layout.ts";
import type { LocatedName } from "./located-name.ts";
import type { NodeStore } from "./node-store.ts";
import type { ZoneDatabaseReader } from "./reader.ts";
import type { ChangedName, ZoneChange } from "./zone-change.ts";

/**
 * The table that has the node of every name, as the writer changes it. What a name of a zone that readers see becomes
 * is put beside what it is (layout.ts, `CHANGE`), until no reader is left that has the version before open.
 */
export class NodeTable {
  readonly #reader: ZoneDatabaseReader;
  readonly #table: HashTable;
  readonly #store: NodeStore;
  /** By reference, the entries that stand for two versions of a name. */
  readonly #changedNames = new Map<number, ChangedName>();

  constructor(reader: ZoneDatabaseReader, arena: Arena, store: NodeStore) {
    this.#reader = reader;
    this.#store = store;
    const place = { shards: HEADER.NODE_SHARDS, shardBits: NODE_SHARD_BITS };
    this.#table = new HashTable(reader.segment, arena, place);
  }

  /**
   * To be called before a name gets its first node.
   * @throws ZoneDatabaseFullError, and then nothing has changed
   */
  makeRoom(hash: number): void {
    this.#table.makeRoom(hash);
  }

  /** As `HashTable.expect`. */
  expect(nodes: number): void {
    this.#table.expect(nodes);
  }

  /** In a zone that nobody sees: puts a name's node in the place of its former one; 0 stands for none. */
  exchange(hash: number, former: number, node: number): void {
    if (former === 0) this.#table.insert(hash, node);
    else if (node === 0) this.#table.remove(hash, former);
    else this.#table.replace(hash, former, node);
  }

  /**
   * In a zone that readers see: gives the name at a label another node, or none (0), from the change's version on.
   * @throws ZoneDatabaseFullError, and then nothing has changed
   */
  exchangeLater(change: ZoneChange, located: LocatedName, label: number, node: number): void {
    const { zone, version } = change;
    const hash = located.hashAt(label);
    const current = located.findEntry(label);
    const known = this.#changedNames.get(current);
    if (known?.version === version) {
      this.#reader.segment.words[(current >> 2) + CHANGE.AFTER] = node;
      return;
    }
    if (current === 0) this.#table.makeRoom(hash);
    const span = { name: located.lookup, label, apexLabel: located.apexLabel };
    const entry = this.#store.writeChange(zone, span, { before: current, after: node, version });
    if (current === 0) this.#table.insert(hash, entry);
    else this.#table.replace(hash, current, entry);
    if (known) known.successor = entry;
    const name: ChangedName = { hash, entry, version, successor: 0 };
    this.#changedNames.set(entry, name);
    change.names.push(name);
  }

  /** Leaves a name the node alone that a published change has given it. @returns that node; 0 for none */
  settle({ hash, entry, successor }: ChangedName): number {
    const { words } = this.#reader.segment;
    const after = words[(entry >> 2) + CHANGE.AFTER]!;
    if (successor !== 0) words[(successor >> 2) + CHANGE.BEFORE] = after;
    else if (after !== 0) this.#table.replace(hash, entry, after);
    else this.#table.remove(hash, entry);
    this.#changedNames.delete(entry);
    return after;
  }

  /** Leaves the names of a change that is given up what they had before. */
  abandon(change: ZoneChange): void {
    const { words } = this.#reader.segment;
    for (const { hash, entry } of change.names) {
      const before = words[(entry >> 2) + CHANGE.BEFORE]!;
      const earlier = this.#changedNames.get(before);
      if (earlier) earlier.successor = 0;
      if (before === 0) this.#table.remove(hash, entry);
      else this.#table.replace(hash, entry, before);
      this.#changedNames.delete(entry);
      this.#store.retire(entry);
    }
  }
}
