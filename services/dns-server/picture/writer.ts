import { TYPE } from "../../core/dns/rr-types.ts";
import { Arena } from "./arena.ts";
import { HashTable } from "./hash-table.ts";
import { FLAG, HEADER, NODE, ZONE, ZONE_SHARD_BITS } from "./layout.ts";
import { LookupName } from "./lookup-name.ts";
import { PictureMemory } from "./memory.ts";
import { PictureReader } from "./reader.ts";
import { type PictureRecord, RrsetEncoder } from "./stored-rrset.ts";
import { ZoneNodes } from "./zone-nodes.ts";

/** What the picture needs to know of a zone beside its records. */
export interface PictureZone {
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  /** min(SOA TTL, MINIMUM) in seconds (RFC 2308 §5). */
  readonly negativeTtlSeconds: number;
  /** Whether only those may ask whom an ACL lets. */
  readonly restricted?: boolean;
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
  readonly #nodes: ZoneNodes;
  readonly #reader: PictureReader;
  readonly #encoder = new RrsetEncoder();
  /** Of the name that the encoder has at hand. */
  #flags = 0;
  readonly #apexName = new LookupName();
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
    this.#reader = new PictureReader(memory);
    this.#nodes = new ZoneNodes(this.#reader, this.#arena);
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
  createZone({ apex, negativeTtlSeconds, restricted = false }: PictureZone): number {
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
    words[word + ZONE.RESTRICTED] = restricted ? 1 : 0;
    octets.set(apex, zone + ZONE.APEX * 4);
    this.#nodes.createApex(zone, apex);
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
    this.#nodes.setRrsets(zone, owner, owner.length - this.#apexOf(zone).length, this.#encoder, this.#flags);
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
      left -= this.#nodes.takeApart(zone, this.#apexOf(zone), left);
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
}

function apexKey(apex: Uint8Array): string {
  return Buffer.from(apex.buffer, apex.byteOffset, apex.length).toString("latin1");
}

function flagOf(type: number): number {
  if (type === TYPE.NS) return FLAG.CUT;
  if (type === TYPE.DNAME) return FLAG.DNAME;
  return type === TYPE.CNAME ? FLAG.CNAME : 0;
}
