import { type Denial, DenialFinder, isSameDenial } from "./denial.ts";
import { Epochs } from "./epochs.ts";
import { HashTable } from "./hash-table.ts";
import { DENIAL, EXCEPTION, HEADER, SEGMENT_MASK, ZONE, ZONE_SHARD_BITS } from "./layout.ts";
import { LookupName } from "./lookup-name.ts";
import { ZoneDatabaseMemory } from "./memory.ts";
import { NameDraft } from "./name-draft.ts";
import type { StoredNodes } from "./node-store.ts";
import { ZoneDatabaseReader } from "./reader.ts";
import type { Writing } from "./room.ts";
import { type CompiledRecord, inEncodingOrder } from "./stored-rrset.ts";
import type { ZoneNodes } from "./zone-nodes.ts";
import { ZoneSegment } from "./zone-segment.ts";

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
  readonly #epochs: Epochs;
  readonly #segments: readonly ZoneSegment[];
  readonly #zones: HashTable;
  readonly #reader: ZoneDatabaseReader;
  /** For names whose records come all at once. */
  readonly #draft = new NameDraft();
  readonly #denialFinder = new DenialFinder();
  readonly #apexName = new LookupName();
  #zoneCount = 0;
  /** The hash is keyed, so it is enough that no two zones share a seed. */
  #nextSeed = 1;
  /** The zone that `#apex` belongs to. */
  #apexZone = 0;
  #apex: Uint8Array = new Uint8Array(0);
  /** The oldest first, from `#firstDiscarded` on. */
  #discarded: DiscardedZone[] = [];
  #firstDiscarded = 0;
  /** Zones have a reseller's place in this list. */
  readonly #resellers: (string | null)[] = [null];
  readonly #resellerNumbers = new Map<string | null, number>([[null, 0]]);

  constructor(memory: ZoneDatabaseMemory = ZoneDatabaseMemory.create()) {
    this.memory = memory;
    this.#epochs = new Epochs(memory.first);
    this.#segments = memory.segments.map(({ number }) => new ZoneSegment(memory, number, this.#epochs));
    const place = { shards: HEADER.ZONE_SHARDS, shardBits: ZONE_SHARD_BITS };
    this.#zones = new HashTable(memory.first, this.#segments[0]!.arena, place);
    this.#reader = new ZoneDatabaseReader(memory);
  }

  /** Octets that the zones take. */
  get usedOctets(): number {
    return this.#sum(({ arena }) => arena.usedOctets);
  }

  /** Octets that there could be in use. */
  get totalOctets(): number {
    return this.#sum(({ arena }) => arena.totalOctets);
  }

  /** Octets of those in use that are on their way to be free: what was replaced or withdrawn, as far as it is counted. */
  get waitingOctets(): number {
    return this.#sum(({ arena }) => arena.waitingOctets);
  }

  /** Octets of blocks that are kept for the next change of an index. */
  get spareOctets(): number {
    return this.#sum(({ nodes }) => nodes.spareOctets);
  }

  /** Free blocks of a segment, for whoever checks the books. */
  freeBlocks(segment = 0): Iterable<{ readonly reference: number; readonly octets: number }> {
    return this.#segments[segment]!.arena.freeBlocks();
  }

  /** Octets that could be taken for one zone or change: a part of what is free is kept for small ones (room.ts). */
  leftOctets(writing: Writing): number {
    return Math.max(...this.#segments.map((segment) => segment.leftOctets(writing)));
  }

  /** As `leftOctets`, for many zones. */
  leftOctetsForMany(writing: Writing): number {
    return this.#sum((segment) => Math.max(0, segment.leftOctets(writing)));
  }

  /** Whether a zone could be built anew in another segment than its own, where there is more room. */
  hasRoomElsewhere(zone: number): boolean {
    const writing = { zoneOctets: this.octetsOf(zone) };
    const own = this.#segmentOf(zone);
    const left = own.leftOctets(writing) + writing.zoneOctets;
    return this.#segments.some((other) => other !== own && other.leftOctets(writing) > left);
  }

  /** Whether zones that are out of sight wait to be taken apart. */
  get isCollecting(): boolean {
    return this.#discarded.length > this.#firstDiscarded;
  }

  /** Zones that are answered for, place-holders left out. */
  get zoneCount(): number {
    return this.#zoneCount;
  }

  /** Octets of the names of a zone. */
  octetsOf(zone: number): number {
    return zone === 0 ? 0 : this.#nodesOf(zone).octetsOf(zone);
  }

  /**
   * Makes room in the tables of an empty zone database for what is about to come, so that they need not be made anew as it does.
   * @throws ZoneDatabaseFullError
   */
  expect({ zones, nodes }: { readonly zones: number; readonly nodes: number }): void {
    for (const segment of this.#segments) {
      segment.admitSmallZone();
      segment.nodes.expect(nodes / this.#segments.length);
    }
    this.#segments[0]!.withTableAllowance(() => this.#zones.expect(zones));
  }

  /** From now on queries are answered; before they get SERVFAIL. */
  setReady(): void {
    Atomics.store(this.memory.first.words, HEADER.READY, 1);
  }

  /**
   * Starts a zone that nobody sees yet. Fill it with `setName`, the apex first, as it says whether the zone is signed;
   * then `publishZone` or `discardZone`.
   * @returns its reference
   */
  createZone(zone: ServedZone): number {
    const segment = this.#roomiest();
    segment.admitSmallZone();
    return this.#create(segment, zone, zone.restricted ? EXCEPTION.RESTRICTED : 0);
  }

  /**
   * Puts a place-holder where a zone ought to be, or in the place of the one that is there: all that is asked at and
   * below its apex is then SERVFAIL. There is room for it when there is none for zones.
   */
  withholdZone(zone: ServedZone): void {
    const segment = this.#roomiest();
    segment.admitPlaceHolder();
    this.#showPlaceHolder(segment, zone, EXCEPTION.WITHHELD | (zone.restricted ? EXCEPTION.RESTRICTED : 0));
  }

  /**
   * The same of a suspended zone, with REFUSED for SERVFAIL: the zone above answers in its place only where it is the same
   * reseller's. It needs room as a small zone does.
   * @throws ZoneDatabaseFullError
   */
  suspendZone(zone: ServedZone): void {
    const segment = this.#roomiest();
    segment.admitSmallZone();
    this.#showPlaceHolder(segment, zone, EXCEPTION.SUSPENDED);
  }

  #showPlaceHolder(segment: ZoneSegment, zone: ServedZone, exceptions: number): void {
    const reference = this.#create(segment, zone, exceptions);
    try {
      this.#show(reference);
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
    this.#segmentOf(zone).admitName(zone, true);
    this.#show(zone);
  }

  /** The published zone of this apex (wire form, lower case); 0 when there is none. */
  publishedZone(apex: Uint8Array): number {
    const { zone } = this.#find(apex);
    return zone !== 0 && this.#isPlaceHolder(zone) ? 0 : zone;
  }

  /** Whose a zone is; null for nobody's. */
  resellerOf(zone: number): string | null {
    return this.#resellers[this.#segmentOf(zone).field(zone, ZONE.RESELLER)]!;
  }

  /** Takes a zone out of sight; does nothing when it is not there. */
  withdrawZone(apex: Uint8Array): void {
    const { zone, hash } = this.#find(apex);
    if (zone === 0) return;
    this.#zones.remove(hash, zone);
    this.#countZoneSet();
    this.#zoneCount -= this.#isPlaceHolder(zone) ? 0 : 1;
    this.#discard(zone);
  }

  /** Gives up what was not published: a new zone, or what was done to one that is visible. */
  discardZone(zone: number): void {
    if (this.publishedZone(this.#apexOf(zone)) === zone) this.#nodesOf(zone).abandon(zone);
    else this.#discard(zone);
  }

  /**
   * Whether a published zone can be given these records at its apex. If not, because they begin or end its signing or
   * say that its names are hashed otherwise, the zone has to be built anew.
   */
  takesApex(zone: number, records: readonly CompiledRecord[]): boolean {
    this.#denialFinder.begin();
    for (const { type, rdata } of records) this.#denialFinder.add(type, rdata, 0, rdata.length);
    return isSameDenial(this.#denialFinder.denial, this.denialOf(zone));
  }

  /** How a zone denies existence. */
  denialOf(zone: number): Denial {
    return this.#segmentOf(zone).denialOf(zone);
  }

  /** What `setVersion` has said last of a published zone; 0 before. */
  versionOf(zone: number): number {
    const segment = this.#segmentOf(zone);
    return segment.field(zone, ZONE.VERSION_HIGH) * 2 ** 32 + (segment.field(zone, ZONE.VERSION_LOW) >>> 0);
  }

  /** Keeps a number with a zone, for whoever publishes it. */
  setVersion(zone: number, version: number): void {
    const segment = this.#segmentOf(zone);
    segment.setField(zone, ZONE.VERSION_HIGH, Math.floor(version / 2 ** 32));
    segment.setField(zone, ZONE.VERSION_LOW, version | 0);
  }

  /** The apex of a zone, in wire form and lower case. */
  apexOf(zone: number): Uint8Array {
    return this.#segmentOf(zone).apexOf(zone);
  }

  setNegativeTtl(zone: number, seconds: number): void {
    const segment = this.#segmentOf(zone);
    segment.setField(zone, ZONE.NEGATIVE_TTL, seconds);
    segment.setField(zone, ZONE.PUBLISHED, segment.field(zone, ZONE.PUBLISHED) + 1);
  }

  /**
   * Replaces all records at one name of a zone; none removes the name. Empty non-terminals come and go by themselves.
   * @param owner wire form, at or below the zone's apex, case kept
   */
  setName(zone: number, owner: Uint8Array, records: readonly CompiledRecord[]): void {
    this.beginName(zone, this.#draft);
    for (const { type, ttl, rdata } of inEncodingOrder(records)) this.#draft.add(type, ttl, rdata, 0, rdata.length);
    this.endName(zone, owner, owner.length - this.#apexOf(zone).length, this.#draft);
  }

  /** As `setName`, for records that come one by one, into a draft; then `endName`. */
  beginName(zone: number, draft: NameDraft): void {
    const hasNsec3Chain = this.#segmentOf(zone).field(zone, ZONE.DENIAL) > DENIAL.NSEC;
    draft.begin({ apex: this.#apexOf(zone), hasNsec3Chain });
  }

  /**
   * @param nameLength octets of the owner in front of the apex, which need not follow
   * @throws when a published zone does not take the apex (`takesApex`)
   */
  endName(zone: number, owner: Uint8Array, nameLength: number, draft: NameDraft): void {
    const isRemoval = draft.rrsets.count === 0 && draft.nsec3Rrsets.count === 0;
    this.#segmentOf(zone).admitName(zone, nameLength === 0 || isRemoval);
    if (nameLength === 0) this.setDenial(zone, draft.denial);
    draft.finish();
    const nodes = this.#nodesOf(zone);
    nodes.setRrsets(zone, owner, nameLength, draft.rrsets, draft.flags);
    if (draft.hasNsec3Chain && nameLength > 0) nodes.setNsec3(zone, owner, nameLength, draft.nsec3Rrsets);
  }

  /** Puts names into a zone that nobody sees yet, as a zone database has had them: the apex first, after its denial. */
  putNodes(zone: number, nodes: StoredNodes): void {
    this.#segmentOf(zone).admitName(zone, false);
    this.#nodesOf(zone).putNodes(zone, nodes);
  }

  /** Takes down how a new zone denies, before any name but its apex is there. */
  setDenial(zone: number, denial: Denial): void {
    if (isSameDenial(denial, this.denialOf(zone))) return;
    if (this.publishedZone(this.#apexOf(zone)) === zone) throw new Error("a zone's denial changes with the zone only");
    this.#segmentOf(zone).writeDenial(zone, denial);
  }

  /**
   * Ends a step: memory that no reader can still see is free again. Takes discarded zones apart, a part at a time so
   * that the thread is not held up.
   * @returns whether discarded nodes are left for another call
   */
  collect(limitNodes = Number.POSITIVE_INFINITY): boolean {
    this.#advance();
    for (const { nodes } of this.#segments) nodes.settle();
    let left = limitNodes;
    while (left > 0 && this.isCollecting && this.#epochs.hasPassed(this.#discarded[this.#firstDiscarded]!.epoch)) {
      const { zone } = this.#discarded[this.#firstDiscarded]!;
      const segment = this.#segmentOf(zone);
      left -= segment.nodes.takeApart(zone, left);
      if (segment.field(zone, ZONE.FIRST_NODE) !== 0) break;
      segment.freeZone(zone);
      this.#firstDiscarded += 1;
    }
    // Not each time: there may be millions of them.
    if (this.#firstDiscarded * 2 > this.#discarded.length) {
      this.#discarded = this.#discarded.slice(this.#firstDiscarded);
      this.#firstDiscarded = 0;
    }
    this.#advance();
    let isJoining = false;
    for (const { arena } of this.#segments) isJoining = arena.joinAhead() || isJoining;
    return isJoining || this.isCollecting;
  }

  /**
   * The nodes of a published zone as they stand now, in no order, kept from being freed until `release` is called:
   * what a transfer reads while changes go on.
   */
  snapshot(zone: number): { readonly nodes: Int32Array; readonly release: () => void } {
    return { nodes: this.#segmentOf(zone).nodesOf(zone), release: this.#epochs.pin() };
  }

  #segmentOf(zone: number): ZoneSegment {
    return this.#segments[zone & SEGMENT_MASK]!;
  }

  #nodesOf(zone: number): ZoneNodes {
    return this.#segmentOf(zone).nodes;
  }

  #sum(of: (segment: ZoneSegment) => number): number {
    return this.#segments.reduce((sum, segment) => sum + of(segment), 0);
  }

  /** The segment for the next zone: zones stay where they are, so that all segments fill alike. */
  #roomiest(): ZoneSegment {
    let roomiest = this.#segments[0]!;
    for (const segment of this.#segments) if (segment.leftForSmallZone > roomiest.leftForSmallZone) roomiest = segment;
    return roomiest;
  }

  #advance(): void {
    this.#epochs.advance();
    for (const { arena } of this.#segments) arena.free();
  }

  /** The zone with an apex, a place-holder as well; 0 for none, and for what is no name. */
  #find(apex: Uint8Array): { readonly zone: number; readonly hash: number } {
    if (this.#apexName.read(apex, 0, apex.length) !== apex.length) return NOWHERE;
    const hash = this.#reader.apexHash(this.#apexName);
    return { zone: this.#reader.findApex(hash, this.#apexName), hash };
  }

  #isPlaceHolder(zone: number): boolean {
    return (this.#reader.exceptionsOf(zone) & (EXCEPTION.WITHHELD | EXCEPTION.SUSPENDED)) !== 0;
  }

  #create(segment: ZoneSegment, served: ServedZone, exceptions: number): number {
    const { apex, negativeTtlSeconds, resellerId = null } = served;
    const reseller = this.#numberOf(resellerId);
    const zone = segment.createZone({ apex, seed: this.#nextSeed++, negativeTtlSeconds, exceptions, reseller });
    // The block may have been another zone's before.
    this.#apexZone = zone;
    this.#apex = apex;
    segment.nodes.begin(zone);
    return zone;
  }

  #show(zone: number): void {
    this.#segmentOf(zone).readApex(zone, this.#apexName);
    const hash = this.#reader.apexHash(this.#apexName);
    const previous = this.#reader.findApex(hash, this.#apexName);
    if (previous === 0) this.#segments[0]!.withTableAllowance(() => this.#zones.makeRoom(hash));
    this.#nodesOf(zone).publish(zone);
    if (previous === zone) return;
    if (previous !== 0) {
      this.#zones.replace(hash, previous, zone);
      this.#zoneCount -= this.#isPlaceHolder(previous) ? 0 : 1;
      this.#discard(previous);
    } else {
      this.#zones.insert(hash, zone);
      const { words } = this.memory.first;
      const { labelCount } = this.#apexName;
      if (labelCount > words[HEADER.DEEPEST_APEX]!) Atomics.store(words, HEADER.DEEPEST_APEX, labelCount);
    }
    this.#countZoneSet();
    this.#zoneCount += this.#isPlaceHolder(zone) ? 0 : 1;
  }

  /** After each change of the zone table. */
  #countZoneSet(): void {
    Atomics.add(this.memory.first.words, HEADER.ZONE_SET, 1);
  }

  #numberOf(resellerId: string | null): number {
    const known = this.#resellerNumbers.get(resellerId);
    if (known !== undefined) return known;
    this.#resellerNumbers.set(resellerId, this.#resellers.length);
    return this.#resellers.push(resellerId) - 1;
  }

  #discard(zone: number): void {
    this.#discarded.push({ zone, epoch: this.#epochs.current });
  }

  #apexOf(zone: number): Uint8Array {
    if (zone !== this.#apexZone) {
      this.#apex = this.#segmentOf(zone).apexOf(zone);
      this.#apexZone = zone;
    }
    return this.#apex;
  }
}

/** What is found where there is no zone. */
const NOWHERE = { zone: 0, hash: 0 } as const;
