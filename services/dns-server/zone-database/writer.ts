import { Arena } from "./arena.ts";
import { type Denial, DenialFinder, isSameDenial } from "./denial.ts";
import { HashTable } from "./hash-table.ts";
import { DENIAL, EXCEPTION, HEADER, NODE, NSEC3_PARAMETERS, ZONE, ZONE_SHARD_BITS } from "./layout.ts";
import { LookupName } from "./lookup-name.ts";
import { ZoneDatabaseMemory } from "./memory.ts";
import { NameDraft } from "./name-draft.ts";
import { ZoneDatabaseReader } from "./reader.ts";
import { allowanceFor, type Writing } from "./room.ts";
import { type CompiledRecord, inEncodingOrder } from "./stored-rrset.ts";
import { ZoneNodes } from "./zone-nodes.ts";

/** What the zone database needs to know of a zone beside its records. */
export interface ServedZone {
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  /** min(SOA TTL, MINIMUM) in seconds (RFC 2308 §5). */
  readonly negativeTtlSeconds: number;
  /** Whether only those may ask whom an ACL lets. */
  readonly restricted?: boolean;
  /** Whose it is; null for nobody's. */
  readonly resellerId?: string | null;
}

/** References of a published zone and its apex's hash. */
interface ZoneEntry {
  readonly reference: number;
  readonly hash: number;
  readonly labelCount: number;
  /** Whether it is a place-holder. */
  readonly isWithheld: boolean;
}

/** A zone out of sight whose nodes are still to be taken apart, once the readers of this epoch have left. */
interface DiscardedZone {
  readonly zone: number;
  readonly epoch: number;
}

/**
 * The only writer of the zone database. Readers on other threads never wait and never see a change in part: a new zone is
 * built aside and swapped in by one store; so is a new version of a zone, of which only what changes is written.
 *
 * What adds to a zone throws a `ZoneDatabaseFullError` when there is no room. Readers have then seen nothing, and the zone is
 * to be given up by `discardZone`, which returns all that was taken for it.
 */
export class ZoneDatabaseWriter {
  readonly memory: ZoneDatabaseMemory;
  readonly #arena: Arena;
  readonly #zones: HashTable;
  readonly #nodes: ZoneNodes;
  readonly #reader: ZoneDatabaseReader;
  /** For names whose records come all at once. */
  readonly #draft = new NameDraft();
  readonly #denialFinder = new DenialFinder();
  readonly #denials = new Map<number, Denial>();
  readonly #apexName = new LookupName();
  readonly #published = new Map<string, ZoneEntry>();
  #withheldCount = 0;
  /** The hash is keyed, so it is enough that no two zones share a seed. */
  #nextSeed = 1;
  /** The zone that `#apex` belongs to. */
  #apexZone = 0;
  #apex: Uint8Array = new Uint8Array(0);
  readonly #discarded: DiscardedZone[] = [];
  /** Zones have a reseller's place in this list. */
  readonly #resellers: (string | null)[] = [null];
  readonly #resellerNumbers = new Map<string | null, number>([[null, 0]]);

  constructor(memory: ZoneDatabaseMemory = ZoneDatabaseMemory.create()) {
    this.memory = memory;
    this.#arena = new Arena(memory);
    this.#zones = new HashTable(memory, this.#arena, { shards: HEADER.ZONE_SHARDS, shardBits: ZONE_SHARD_BITS });
    this.#reader = new ZoneDatabaseReader(memory);
    this.#nodes = new ZoneNodes(this.#reader, this.#arena);
  }

  /** Octets that the zones take. */
  get usedOctets(): number {
    return this.#arena.usedOctets;
  }

  /** Octets that there could be in use. */
  get totalOctets(): number {
    return this.#arena.totalOctets;
  }

  /** Octets of those in use that are on their way to be free: what was replaced or withdrawn, as far as it is counted. */
  get waitingOctets(): number {
    return this.#arena.waitingOctets;
  }

  /** Octets of blocks that are kept for the next change of an index. */
  get spareOctets(): number {
    return this.#nodes.spareOctets;
  }

  /** Free blocks of the memory, for whoever checks the books. */
  freeBlocks(): Iterable<{ readonly reference: number; readonly octets: number }> {
    return this.#arena.freeBlocks();
  }

  /** Octets that could be taken for something: a part of what is free is kept for small zones and changes (room.ts). */
  leftOctets(writing: Writing): number {
    return allowanceFor(this.totalOctets, writing) - this.usedOctets;
  }

  /** Whether zones that are out of sight wait to be taken apart. */
  get isCollecting(): boolean {
    return this.#discarded.length > 0;
  }

  /** Zones that are answered for, place-holders left out. */
  get zoneCount(): number {
    return this.#published.size - this.#withheldCount;
  }

  /** Octets of the names of a zone. */
  octetsOf(zone: number): number {
    return this.#nodes.octetsOf(zone);
  }

  /** From now on queries are answered; before they get SERVFAIL. */
  setReady(): void {
    Atomics.store(this.memory.words, HEADER.READY, 1);
  }

  /**
   * Starts a zone that nobody sees yet. Fill it with `setName`, the apex first, as it says whether the zone is signed;
   * then `publishZone` or `discardZone`.
   * @returns its reference
   */
  createZone(zone: ServedZone): number {
    this.#admit({ zoneOctets: 0 });
    return this.#create(zone, zone.restricted ? EXCEPTION.RESTRICTED : 0);
  }

  /**
   * Puts a place-holder where a zone ought to be, or in the place of the one that is there: all that is asked at and
   * below its apex is then SERVFAIL. There is room for it when there is none for zones.
   */
  withholdZone(zone: ServedZone): void {
    this.#arena.allowance = this.#arena.totalOctets;
    const exceptions = EXCEPTION.WITHHELD | (zone.restricted ? EXCEPTION.RESTRICTED : 0);
    const reference = this.#create(zone, exceptions);
    try {
      this.#show(reference, true);
    } catch (error) {
      this.#discard(reference);
      throw error;
    }
  }

  /**
   * Makes a new zone visible, in the place of the one with the same apex when there is one; or all that was done to a
   * zone since it was published last.
   */
  publishZone(zone: number): void {
    this.#admit({ ...this.#writingTo(zone), isNecessary: true });
    this.#show(zone, false);
  }

  /** The published zone of this apex (wire form, lower case); 0 when there is none. */
  publishedZone(apex: Uint8Array): number {
    const entry = this.#published.get(apexKey(apex));
    return entry === undefined || entry.isWithheld ? 0 : entry.reference;
  }

  /** Whose a zone is; null for nobody's. */
  resellerOf(zone: number): string | null {
    return this.#resellers[this.memory.words[(zone >> 2) + ZONE.RESELLER]!]!;
  }

  /** Takes a zone out of sight; does nothing when it is not there. */
  withdrawZone(apex: Uint8Array): void {
    const key = apexKey(apex);
    const entry = this.#published.get(key);
    if (!entry) return;
    this.#zones.remove(entry.hash, entry.reference);
    this.#published.delete(key);
    if (entry.isWithheld) this.#withheldCount -= 1;
    this.#discard(entry.reference);
  }

  /** Gives up what was not published: a new zone, or what was done to one that is visible. */
  discardZone(zone: number): void {
    if (this.publishedZone(this.#apexOf(zone)) === zone) this.#nodes.abandon(zone);
    else this.#discard(zone);
  }

  /**
   * Whether a published zone can be given these records at its apex. If not, because they begin or end its signing or
   * say that its names are hashed otherwise, the zone has to be built anew.
   */
  takesApex(zone: number, records: readonly CompiledRecord[]): boolean {
    this.#denialFinder.begin();
    for (const { type, rdata } of records) this.#denialFinder.add(type, rdata, 0, rdata.length);
    return isSameDenial(this.#denialFinder.denial, this.#denialAt(zone));
  }

  setNegativeTtl(zone: number, seconds: number): void {
    Atomics.store(this.memory.words, (zone >> 2) + ZONE.NEGATIVE_TTL, seconds);
  }

  /**
   * Replaces all records at one name of a zone; none removes the name. Empty non-terminals come and go by themselves.
   * @param owner wire form, at or below the zone's apex, case kept
   */
  setName(zone: number, owner: Uint8Array, records: readonly CompiledRecord[]): void {
    this.beginName(zone, this.#draft);
    for (const { type, ttl, rdata } of inEncodingOrder(records)) this.#draft.add(type, ttl, rdata, 0, rdata.length);
    this.endName(zone, owner, this.#draft);
  }

  /**
   * Adds records to a zone that nobody sees yet: all that a name has, but that of an NSEC3 chain may come apart from
   * what else its owner has.
   */
  addName(zone: number, owner: Uint8Array, records: readonly CompiledRecord[]): void {
    this.beginName(zone, this.#draft);
    for (const { type, ttl, rdata } of inEncodingOrder(records)) this.#draft.add(type, ttl, rdata, 0, rdata.length);
    this.endName(zone, owner, this.#draft, true);
  }

  /** As `setName`, for records that come one by one, into a draft; then `endName`. */
  beginName(zone: number, draft: NameDraft): void {
    const hasNsec3Chain = this.memory.words[(zone >> 2) + ZONE.DENIAL]! > DENIAL.NSEC;
    draft.begin({ apex: this.#apexOf(zone), hasNsec3Chain });
  }

  /**
   * @param keepsOther whether a part of the name that the draft says nothing of stays: its NSEC3, or all else
   * @throws when a published zone does not take the apex (`takesApex`)
   */
  endName(zone: number, owner: Uint8Array, draft: NameDraft, keepsOther = false): void {
    const nameLength = owner.length - this.#apexOf(zone).length;
    const isRemoval = draft.rrsets.count === 0 && draft.nsec3Rrsets.count === 0;
    this.#admit({ ...this.#writingTo(zone), isNecessary: nameLength === 0 || isRemoval });
    if (nameLength === 0) this.#setDenial(zone, draft.denial);
    draft.finish();
    const hasRrsets = draft.rrsets.count > 0 || !keepsOther;
    if (hasRrsets) this.#nodes.setRrsets(zone, owner, nameLength, draft.rrsets, draft.flags);
    if (!draft.hasNsec3Chain || nameLength === 0) return;
    const hasNsec3 = draft.nsec3Rrsets.count > 0 || !keepsOther;
    if (hasNsec3) this.#nodes.setNsec3(zone, owner, nameLength, draft.nsec3Rrsets);
  }

  /**
   * Ends a step: memory that no reader can still see is free again. Takes discarded zones apart, a part at a time so
   * that the thread is not held up.
   * @returns whether discarded nodes are left for another call
   */
  collect(limitNodes = Number.POSITIVE_INFINITY): boolean {
    this.#arena.advance();
    this.#nodes.settle();
    let left = limitNodes;
    while (left > 0 && this.#discarded.length > 0 && this.#arena.hasPassed(this.#discarded[0]!.epoch)) {
      const { zone } = this.#discarded[0]!;
      left -= this.#nodes.takeApart(zone, this.#apexOf(zone), left);
      if (this.memory.words[(zone >> 2) + ZONE.FIRST_NODE] !== 0) break;
      this.#freeZone(zone);
      this.#discarded.shift();
    }
    this.#arena.advance();
    return this.#arena.joinAhead() || this.#discarded.length > 0;
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

  /** Says how much memory may be in use while something is written. */
  #admit(writing: Writing): void {
    this.#arena.allowance = allowanceFor(this.#arena.totalOctets, writing);
  }

  #writingTo(zone: number): Writing {
    return { zoneOctets: this.#nodes.octetsOf(zone), grownBy: this.#nodes.grownBy(zone) };
  }

  #create({ apex, negativeTtlSeconds, resellerId = null }: ServedZone, exceptions: number): number {
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
    words[word + ZONE.EXCEPTIONS] = exceptions;
    words[word + ZONE.DENIAL] = DENIAL.NONE;
    words[word + ZONE.RESELLER] = this.#numberOf(resellerId);
    octets.set(apex, zone + ZONE.APEX * 4);
    try {
      this.#nodes.createApex(zone, apex);
    } catch (error) {
      this.#discard(zone);
      throw error;
    }
    return zone;
  }

  #show(zone: number, isWithheld: boolean): void {
    const apex = this.#apexOf(zone);
    const key = apexKey(apex);
    const previous = this.#published.get(key);
    const hash = previous?.hash ?? this.#apexHash(apex);
    if (!previous) this.#zones.makeRoom(hash);
    this.#nodes.publish(zone);
    if (previous?.reference === zone) return;
    const labelCount = previous?.labelCount ?? this.#apexName.labelCount;
    if (previous) {
      this.#zones.replace(hash, previous.reference, zone);
      this.#discard(previous.reference);
    } else {
      this.#zones.insert(hash, zone);
      const { words } = this.memory;
      if (labelCount > words[HEADER.DEEPEST_APEX]!) Atomics.store(words, HEADER.DEEPEST_APEX, labelCount);
    }
    this.#withheldCount += Number(isWithheld) - Number(previous?.isWithheld ?? false);
    this.#published.set(key, { reference: zone, hash, labelCount, isWithheld });
  }

  #numberOf(resellerId: string | null): number {
    const known = this.#resellerNumbers.get(resellerId);
    if (known !== undefined) return known;
    this.#resellerNumbers.set(resellerId, this.#resellers.length);
    return this.#resellers.push(resellerId) - 1;
  }

  #discard(zone: number): void {
    this.#discarded.push({ zone, epoch: this.#arena.epoch });
  }

  #freeZone(zone: number): void {
    const { words } = this.memory;
    const parameters = words[(zone >> 2) + ZONE.DENIAL]!;
    if (parameters > DENIAL.NSEC) this.#arena.retire(parameters, words[(parameters >> 2) + NSEC3_PARAMETERS.SIZE]!);
    this.#denials.delete(zone);
    this.#arena.retire(zone, words[(zone >> 2) + ZONE.SIZE]!);
  }

  #denialAt(zone: number): Denial {
    return this.#denials.get(zone) ?? { kind: "none" };
  }

  /** Takes down how a new zone denies, before any name but its apex is there. */
  #setDenial(zone: number, denial: Denial): void {
    if (isSameDenial(denial, this.#denialAt(zone))) return;
    if (this.publishedZone(this.#apexOf(zone)) === zone) throw new Error("a zone's denial changes with the zone only");
    this.#denials.set(zone, denial);
    const plain = denial.kind === "nsec" ? DENIAL.NSEC : DENIAL.NONE;
    const stored = denial.kind === "nsec3" ? this.#writeParameters(denial) : plain;
    this.memory.words[(zone >> 2) + ZONE.DENIAL] = stored;
  }

  #writeParameters({ iterations, salt }: Extract<Denial, { kind: "nsec3" }>): number {
    const size = this.#arena.blockSize(NSEC3_PARAMETERS.SALT * 4 + salt.length);
    const parameters = this.#arena.allocate(size);
    const { words, octets } = this.memory;
    words[(parameters >> 2) + NSEC3_PARAMETERS.ITERATIONS] = iterations;
    words[(parameters >> 2) + NSEC3_PARAMETERS.SALT_OCTETS] = salt.length;
    words[(parameters >> 2) + NSEC3_PARAMETERS.SIZE] = size;
    octets.set(salt, parameters + NSEC3_PARAMETERS.SALT * 4);
    return parameters;
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
