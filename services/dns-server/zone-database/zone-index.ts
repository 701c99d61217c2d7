import type { Arena } from "./arena.ts";
import { IndexReader } from "./index-reader.ts";
import { INDEX } from "./layout.ts";
import type { LookupName } from "./lookup-name.ts";
import type { ZoneDatabaseReader } from "./reader.ts";

/** What a block takes, and the entries that it has room for: of a leaf, and of a block above. */
const BLOCK_OCTETS = (INDEX.ENTRIES + INDEX.ENTRY_WORDS) * 4;
const ENTRY_WORDS = { LEAF: 1, INNER: 2 } as const;

/** A zone's index while a change is made to it. */
export interface IndexDraft {
  /** Marks the blocks that the change has written, and that nobody else sees. */
  readonly version: number;
  /** Root block; 0 while the index is empty. */
  root: number;
  /** Blocks of the version before that this one does without. */
  readonly replaced: number[];
}

/**
 * The writer's side of a zone's index (layout.ts, `INDEX`): a B+tree that is copied where it changes, from the leaf to
 * the root, so that whoever has a root has the index as it was. Its size decides how many blocks a change copies, which
 * is one for each level: four for 100,000 names.
 */
export class ZoneIndex {
  readonly #reader: ZoneDatabaseReader;
  readonly #order: IndexReader;
  readonly #arena: Arena;
  #draft!: IndexDraft;
  /** The name that is put in or taken out, and where in it the zone's apex begins. */
  #name!: LookupName;
  #apexLabel = 0;
  #node = 0;
  /** What `#putInto` has split off to the right; 0 for nothing. */
  #split = 0;
  /** Blocks for the change at hand: they are there before it begins, so that it does not end half-way. */
  readonly #spare: number[] = [];

  constructor(reader: ZoneDatabaseReader, arena: Arena) {
    this.#reader = reader;
    this.#order = new IndexReader(reader);
    this.#arena = arena;
  }

  /** Octets of the blocks that are kept for the next change. */
  get spareOctets(): number {
    return this.#spare.length * this.#arena.blockSize(BLOCK_OCTETS);
  }

  /**
   * Adds the node of a name, or puts it in the place of that name's last one.
   * @throws ZoneDatabaseFullError, and then nothing has changed
   */
  put(draft: IndexDraft, name: LookupName, apexLabel: number, node: number): void {
    this.#begin(draft, name, apexLabel);
    this.makeRoomFor(draft);
    this.#node = node;
    if (draft.root === 0) draft.root = this.#newBlock(0);
    const root = this.#putInto(draft.root);
    draft.root = root;
    if (this.#split === 0) return;
    const words = this.#words;
    const level = words[root >> 2]! >>> 16;
    draft.root = this.#newBlock(level + 1);
    this.#insertEntry(draft.root, 0, this.#firstNode(root), root);
    this.#insertEntry(draft.root, 1, this.#firstNode(this.#split), this.#split);
  }

  /**
   * To be called where the next `put` must not fail.
   * @throws ZoneDatabaseFullError
   */
  makeRoomFor({ root }: IndexDraft): void {
    // Of each level a copy and what is split off, and a new root.
    this.#makeRoom(2 * this.#levels(root) + 1);
  }

  /** The node of a name; 0 when it is not there. */
  find(draft: IndexDraft, name: LookupName, apexLabel: number): number {
    this.#begin(draft, name, apexLabel);
    for (let block = draft.root; block !== 0; ) {
      const index = this.#lastAtOrBefore(block);
      if (index < 0) return 0;
      const node = this.#nodeAt(block, index);
      if (this.#compare(node) === 0) return node;
      block = this.#levelOf(block) === 0 ? 0 : this.#childAt(block, index);
    }
    return 0;
  }

  /**
   * Takes a name out; does nothing when it is not there.
   * @throws ZoneDatabaseFullError, and then nothing has changed
   */
  remove(draft: IndexDraft, name: LookupName, apexLabel: number): void {
    this.#begin(draft, name, apexLabel);
    if (this.find(draft, name, apexLabel) === 0) return;
    // Of each level a copy, and one of the block that is put together with another.
    this.#makeRoom(2 * this.#levels(draft.root));
    let root = this.#removeFrom(draft.root);
    while (this.#levelOf(root) > 0 && this.#countOf(root) === 1) {
      const only = this.#childAt(root, 0);
      this.#drop(root);
      root = only;
    }
    if (this.#countOf(root) === 0) {
      this.#drop(root);
      root = 0;
    }
    draft.root = root;
  }

  /** Gives the blocks of an index back that are of a version, or all. */
  free(root: number, version?: number): void {
    if (root === 0) return;
    // Below a block that was shared there are none but shared ones.
    if (version !== undefined && this.#versionOf(root) !== version) return;
    if (this.#levelOf(root) > 0) {
      for (let index = this.#countOf(root) - 1; index >= 0; index -= 1) this.free(this.#childAt(root, index), version);
    }
    this.#arena.retire(root, this.#arena.blockSize(BLOCK_OCTETS));
  }

  #begin(draft: IndexDraft, name: LookupName, apexLabel: number): void {
    this.#draft = draft;
    this.#name = name;
    this.#apexLabel = apexLabel;
  }

  #putInto(shared: number): number {
    const block = this.#own(shared);
    const index = this.#lastAtOrBefore(block);
    this.#split = 0;
    if (this.#levelOf(block) === 0) {
      if (index >= 0 && this.#compare(this.#nodeAt(block, index)) === 0) {
        this.#setEntry(block, index, this.#node, 0);
      } else {
        this.#addEntry(block, index + 1, this.#node, 0);
      }
      return block;
    }
    const below = Math.max(0, index);
    const child = this.#putInto(this.#childAt(block, below));
    this.#setEntry(block, below, this.#firstNode(child), child);
    if (this.#split !== 0) this.#addEntry(block, below + 1, this.#firstNode(this.#split), this.#split);
    return block;
  }

  /** Inserts an entry, into a new block to the right when there is no room; `#split` is that block, else 0. */
  #addEntry(block: number, index: number, node: number, child: number): void {
    this.#split = 0;
    const count = this.#countOf(block);
    if (count < this.#capacityOf(block)) {
      this.#insertEntry(block, index, node, child);
      return;
    }
    // Names that come in order fill their blocks.
    const kept = index === count ? count : count >> 1;
    const right = this.#newBlock(this.#levelOf(block));
    this.#moveEntries(block, kept, right);
    if (index <= kept && index < count) this.#insertEntry(block, index, node, child);
    else this.#insertEntry(right, index - kept, node, child);
    this.#split = right;
  }

  #removeFrom(shared: number): number {
    const block = this.#own(shared);
    const index = this.#lastAtOrBefore(block);
    if (this.#levelOf(block) === 0) {
      this.#deleteEntry(block, index);
      return block;
    }
    const child = this.#removeFrom(this.#childAt(block, index));
    if (this.#countOf(child) === 0) {
      this.#drop(child);
      this.#deleteEntry(block, index);
    } else {
      this.#setEntry(block, index, this.#firstNode(child), child);
      this.#mergeIfSparse(block, index > 0 ? index - 1 : 0);
    }
    return block;
  }

  /** Puts a block and the one to its right together when they fill half of one. */
  #mergeIfSparse(parent: number, index: number): void {
    if (index + 1 >= this.#countOf(parent)) return;
    const left = this.#childAt(parent, index);
    const right = this.#childAt(parent, index + 1);
    if (this.#countOf(left) + this.#countOf(right) > this.#capacityOf(left) >> 1) return;
    const merged = this.#own(left);
    const wordsOfEntry = this.#entryWords(right);
    const from = (right >> 2) + INDEX.ENTRIES;
    const to = (merged >> 2) + INDEX.ENTRIES + this.#countOf(merged) * wordsOfEntry;
    this.#words.copyWithin(to, from, from + this.#countOf(right) * wordsOfEntry);
    this.#setCount(merged, this.#countOf(merged) + this.#countOf(right));
    this.#drop(right);
    this.#setEntry(parent, index, this.#firstNode(merged), merged);
    this.#deleteEntry(parent, index + 1);
  }

  /** Index of the last entry whose first name is at or before the name at hand; −1 for none. */
  #lastAtOrBefore(block: number): number {
    let low = 0;
    let high = this.#countOf(block);
    // Names that come in order go to the end.
    if (high > 0 && this.#compare(this.#nodeAt(block, high - 1)) <= 0) return high - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(this.#nodeAt(block, middle)) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #compare(node: number): number {
    return this.#order.compareName(node, this.#name, this.#apexLabel);
  }

  /** The block itself when this change has written it, else a copy. */
  #own(block: number): number {
    if (this.#versionOf(block) === this.#draft.version) return block;
    const copy = this.#newBlock(0);
    const words = this.#words;
    words.copyWithin(copy >> 2, block >> 2, (block + BLOCK_OCTETS) >> 2);
    words[(copy >> 2) + INDEX.VERSION] = this.#draft.version;
    this.#draft.replaced.push(block);
    return copy;
  }

  /** Does without a block: at once when nobody else sees it, else from the next version on. */
  #drop(block: number): void {
    if (this.#versionOf(block) !== this.#draft.version) this.#draft.replaced.push(block);
    else this.#arena.retire(block, this.#arena.blockSize(BLOCK_OCTETS));
  }

  /** Gives the blocks back that a version has replaced, once it is the one that is seen. */
  freeReplaced(draft: IndexDraft): void {
    for (const block of draft.replaced) this.#arena.retire(block, this.#arena.blockSize(BLOCK_OCTETS));
    draft.replaced.length = 0;
  }

  #levels(root: number): number {
    return root === 0 ? 1 : this.#levelOf(root) + 1;
  }

  #makeRoom(blocks: number): void {
    while (this.#spare.length < blocks) this.#spare.push(this.#arena.allocate(BLOCK_OCTETS));
  }

  #newBlock(level: number): number {
    const block = this.#spare.pop()!;
    const words = this.#words;
    words[(block >> 2) + INDEX.COUNT_AND_LEVEL] = level << 16;
    words[(block >> 2) + INDEX.VERSION] = this.#draft.version;
    return block;
  }

  #insertEntry(block: number, index: number, node: number, child: number): void {
    const wordsOfEntry = this.#entryWords(block);
    const count = this.#countOf(block);
    const from = (block >> 2) + INDEX.ENTRIES + index * wordsOfEntry;
    this.#words.copyWithin(from + wordsOfEntry, from, from + (count - index) * wordsOfEntry);
    this.#setCount(block, count + 1);
    this.#setEntry(block, index, node, child);
  }

  #deleteEntry(block: number, index: number): void {
    const wordsOfEntry = this.#entryWords(block);
    const count = this.#countOf(block);
    const to = (block >> 2) + INDEX.ENTRIES + index * wordsOfEntry;
    this.#words.copyWithin(to, to + wordsOfEntry, to + (count - index) * wordsOfEntry);
    this.#setCount(block, count - 1);
  }

  /** Moves the entries from an index on to an empty block of the same level. */
  #moveEntries(block: number, from: number, right: number): void {
    const wordsOfEntry = this.#entryWords(block);
    const count = this.#countOf(block);
    const start = (block >> 2) + INDEX.ENTRIES;
    this.#words.copyWithin((right >> 2) + INDEX.ENTRIES, start + from * wordsOfEntry, start + count * wordsOfEntry);
    this.#setCount(right, count - from);
    this.#setCount(block, from);
  }

  #setEntry(block: number, index: number, node: number, child: number): void {
    const words = this.#words;
    const isInner = this.#levelOf(block) > 0;
    const word = (block >> 2) + INDEX.ENTRIES + index * (isInner ? ENTRY_WORDS.INNER : ENTRY_WORDS.LEAF);
    words[word] = node;
    if (isInner) words[word + 1] = child;
  }

  #setCount(block: number, count: number): void {
    this.#words[block >> 2] = (this.#levelOf(block) << 16) | count;
  }

  #firstNode(block: number): number {
    return this.#nodeAt(block, 0);
  }

  #nodeAt(block: number, index: number): number {
    return this.#words[(block >> 2) + INDEX.ENTRIES + index * this.#entryWords(block)]!;
  }

  #childAt(block: number, index: number): number {
    return this.#words[(block >> 2) + INDEX.ENTRIES + index * ENTRY_WORDS.INNER + 1]!;
  }

  #entryWords(block: number): number {
    return this.#levelOf(block) > 0 ? ENTRY_WORDS.INNER : ENTRY_WORDS.LEAF;
  }

  #capacityOf(block: number): number {
    return INDEX.ENTRY_WORDS / this.#entryWords(block);
  }

  #countOf(block: number): number {
    return this.#words[block >> 2]! & 0xffff;
  }

  #levelOf(block: number): number {
    return this.#words[block >> 2]! >>> 16;
  }

  #versionOf(block: number): number {
    return this.#words[(block >> 2) + INDEX.VERSION]!;
  }

  get #words(): Int32Array {
    return this.#reader.segment.words;
  }
}
