import type { Observe } from "../../platform/observability/observation.ts";
import type { ZoneState, ZoneSummary } from "../../store/dns/zone-states.ts";
import { ZoneDatabaseFullError } from "../zone-database/memory.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { type LeftOutZone, LeftOutZones, smallestThatFit } from "./left-out-zones.ts";
import { type ServedZone, ServedZones } from "./served-zones.ts";
import { apexText, isApex } from "./stored-names.ts";
import { UnreadableZones } from "./unreadable-zones.ts";

/** Nodes of a zone that was given up that are taken apart at once. */
const COLLECT_NODES = 2_000;

/** Below every version: of zones that are not held, and of those whose versions say nothing. */
export const UNKNOWN_VERSION = -1;

/** What is known of a zone of which nothing is answered as it, or its company, is suspended. */
export type SuspendedZone = Pick<ZoneSummary, "id" | "apex" | "resellerId">;

/**
 * How each zone stands. A zone is in one of the last three at most, but for a suspended one that is left out and finds no room
 * for SERVFAIL either; what is left out or unreadable may be served as well, as an older version, and has no place-holder then.
 *
 * | standing   | why                                  | what stands in the zone database           |
 * |------------|--------------------------------------|--------------------------------------------|
 * | served     | it was published                     | a version of it                            |
 * | left out   | there is no room for the latest      | a version before, or else SERVFAIL for all |
 * | unreadable | the latest has no such record        | a version before, or else SERVFAIL for all |
 * | suspended  | it is, or its company                | REFUSED for all                            |
 *
 * Apart from that it may be held back: another connection loads it meanwhile, which publishes nothing of what is withdrawn.
 */
export class ZoneStandings {
  readonly #writer: ZoneDatabaseWriter;
  readonly #observe: Observe;
  readonly #served: ServedZones;
  readonly #leftOut: LeftOutZones;
  readonly #unreadable = new UnreadableZones();
  readonly #suspended = new Map<number, SuspendedZone>();
  /** Whether those that are held back have been withdrawn since. */
  readonly #heldBack = new Map<number, "as it was" | "withdrawn">();
  #isFilling = false;
  #changes = 0;

  constructor(writer: ZoneDatabaseWriter, observe: Observe, nowMs: () => number) {
    this.#writer = writer;
    this.#observe = observe;
    this.#served = new ServedZones(writer);
    this.#leftOut = new LeftOutZones(nowMs);
  }

  /** The zones that do not fit into memory, or whose latest versions do not, those that need least first. */
  get leftOut(): readonly LeftOutZone[] {
    return this.#leftOut.list();
  }

  /** The apexes of zones whose latest versions cannot be read. */
  get unreadable(): Iterable<Uint8Array> {
    return this.#unreadable.apexes();
  }

  /** Zones that ought to be answered for, as far as the database has been read. */
  get expectedCount(): number {
    const leftOut = this.leftOut.filter(({ servedVersion }) => servedVersion === undefined).length;
    return this.#served.size + leftOut + [...this.#unreadable.ids()].filter((id) => !this.#served.has(id)).length;
  }

  /** Whether a zone, or its latest version, is not answered: there is no room for it, or it cannot be read. */
  isLeftOut(id: number): boolean {
    return this.#leftOut.has(id) || this.#unreadable.has(id);
  }

  get served(): Pick<ServedZones, "has" | "get" | "ids"> {
    return this.#served;
  }

  /** All that is in the zone database, or ought to be. */
  *knownIds(): Generator<number> {
    yield* this.#served.ids();
    for (const { zone } of this.leftOut) yield zone.id;
    yield* this.#unreadable.ids();
    yield* this.#suspended.keys();
  }

  get suspended(): Iterable<SuspendedZone> {
    return this.#suspended.values();
  }

  /** The version that is answered. */
  versionOf(id: number): number {
    return this.#served.versionOf(id) ?? UNKNOWN_VERSION;
  }

  /** Whether a zone is answered as the database has it. */
  isCurrent({ id, version }: ZoneState): boolean {
    return this.#served.versionOf(id) === version;
  }

  /** Whether this version of a zone was found unreadable, and is to be left alone. */
  isTried(zone: ZoneState): boolean {
    return this.#unreadable.isTried(zone);
  }

  /** Has what was found unreadable be tried again. */
  tryUnreadableAgain(): void {
    this.#unreadable.tryAgain();
  }

  /** Counts what happens to the zone database. */
  get changes(): number {
    return this.#changes;
  }

  countChanges(count: number): void {
    this.#changes += count;
  }

  /** Ids and versions say nothing any more: place-holders go, and every zone is to be loaded whole. */
  distrust(): void {
    this.withdraw(this.leftOut.filter((one) => one.servedVersion === undefined).map(({ zone }) => zone.id));
    this.withdraw([...this.#unreadable.ids()].filter((id) => !this.#served.has(id)));
    this.withdraw(this.#suspended.keys());
    this.#served.setAll(UNKNOWN_VERSION);
  }

  /** Takes over a zone that somebody else has put into the zone database. */
  adopt(id: number, zone: ServedZone, reference?: number): void {
    this.#served.set(id, zone, reference);
    this.#leftOut.remove(id);
    this.#unreadable.delete(id);
    this.#suspended.delete(id);
  }

  /** Notes that a zone that somebody else would have put into a zone database that nobody is answered from does not fit. */
  leaveOut(zone: ZoneSummary, takenOctets: number): void {
    this.#leaveOut(zone, takenOctets, 0);
    this.collectAll();
  }

  /**
   * Notes that a zone cannot be taken in as the database has it. It stays as it is answered; all of one that is not is
   * SERVFAIL.
   */
  noteCorrupt(zone: ZoneSummary, err: CorruptRecordError): void {
    const { id } = zone;
    const shown = isApex(zone.apex) ? zone : { ...zone, ...this.known(id) };
    const isWithheld = this.#served.has(id) || this.#unreadable.has(id);
    if (!isWithheld) this.#showPlaceHolder(shown, () => this.#writer.withholdZone(shown));
    this.#leftOut.remove(id);
    this.#suspended.delete(id);
    const isNews = this.#unreadable.add({ id, apex: shown.apex, version: zone.version });
    if (isNews) this.#observe({ kind: "zone-corrupt", level: "error", ...nameOf(zone), err });
  }

  /**
   * Takes larger zones out of a zone database that nobody is answered from, for smaller ones that did not fit.
   * @param octets what each zone needs, those that are there and those that are not
   * @returns the ids of those that fit now and are not there
   */
  makeRoomForSmaller(octets: ReadonlyMap<ZoneSummary, number>): ReadonlySet<number> {
    let room = this.#writer.leftOctetsForMany({ zoneOctets: Number.POSITIVE_INFINITY });
    for (const [{ id }, needed] of octets) if (this.#served.has(id)) room += needed;
    const kept = smallestThatFit(new Map([...octets].map(([{ id }, needed]) => [id, needed])), room);
    const smaller = new Set([...kept].filter((id) => !this.#served.has(id)));
    if (smaller.size === 0) return smaller;
    for (const [zone, needed] of octets) {
      if (kept.has(zone.id) || !this.#served.delete(zone.id)) continue;
      this.#leaveOut(zone, needed, 0);
    }
    this.collectAll();
    return smaller;
  }

  /** Fills a zone database that nobody is answered from yet: nobody minds while all that was given up is taken apart. */
  async fill(publish: () => Promise<void>): Promise<void> {
    this.#isFilling = true;
    try {
      await publish();
    } finally {
      this.#isFilling = false;
    }
  }

  /** Takes apart all that was given up. */
  collectAll(): void {
    while (this.#writer.collect());
  }

  /** Takes zones out of the zone database. */
  withdraw(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) {
      this.#noteWithdrawn(id);
      const zone = this.known(id);
      if (!zone) continue;
      this.#changes += 1;
      this.#writer.withdrawZone(zone.apex);
      this.#forget(id);
    }
  }

  #forget(id: number): void {
    this.#served.delete(id);
    this.#leftOut.remove(id);
    this.#unreadable.delete(id);
    this.#suspended.delete(id);
  }

  /** Has all of a zone be REFUSED from now on. */
  suspend(zone: SuspendedZone): void {
    const { id, apex, resellerId } = zone;
    if (this.#suspended.has(id)) return;
    this.#noteWithdrawn(id);
    if (this.#showPlaceHolder(zone, () => this.#writer.suspendZone({ apex, resellerId, negativeTtlSeconds: 0 }))) {
      this.#changes += 1;
      this.#forget(id);
      this.#suspended.set(id, { id, apex, resellerId });
    } else this.withdraw([id]);
  }

  /** A zone that has a standing. */
  known(id: number): Pick<ServedZone, "apex"> | undefined {
    const shown = this.#served.get(id) ?? this.#leftOut.get(id)?.zone;
    return shown ?? this.#unreadable.get(id) ?? this.#suspended.get(id);
  }

  /**
   * Prepares for what the database has of a zone now: where it has another apex than before it is withdrawn there.
   * @returns false where its apex is no name: then it is unreadable
   */
  admit(zone: ZoneState): boolean {
    if (!isApex(zone.apex)) {
      this.noteCorrupt(zone, new CorruptRecordError("the zone's apex is no name"));
      return false;
    }
    const known = this.known(zone.id);
    if (known !== undefined && Buffer.compare(known.apex, zone.apex) !== 0) this.withdraw([zone.id]);
    // As it is answered it is right again.
    if (this.#unreadable.has(zone.id) && this.isCurrent(zone)) this.#unreadable.delete(zone.id);
    return true;
  }

  /** Notes that a zone has changed. */
  noteChanged(zone: ZoneState): void {
    this.#leftOut.note(zone);
  }

  /** Whether a zone is tried again only when there may be room: see `takeDue`. */
  waitsForRoom(id: number): boolean {
    return this.#leftOut.has(id);
  }

  /** Zones that were left out and may fit now, those that need least first; to be tried by `ZonePublisher.publishHeldBack`. */
  takeDue(): readonly ZoneSummary[] {
    const { isCollecting, waitingOctets } = this.#writer;
    const roomFor = ({ zone, servedVersion, takenOctets }: LeftOutZone) => {
      const isChange = servedVersion !== undefined;
      const zoneOctets = isChange ? this.#writer.octetsOf(this.#writer.publishedZone(zone.apex)) : takenOctets;
      return this.#writer.leftOctets({ zoneOctets, ...(isChange && { grownBy: takenOctets }) });
    };
    return this.#leftOut.takeDue(roomFor, !isCollecting && waitingOctets === 0);
  }

  /**
   * Answers no more for zones whose last version has been served for longer than their SOA lets a secondary do
   * without news (RFC 1034 §4.3.5, EXPIRE).
   */
  expireOutdated(nowMs: number): void {
    for (const { zone, servedVersion, since, takenOctets } of this.leftOut) {
      if (servedVersion === undefined) continue;
      if (nowMs - since.getTime() <= zone.expireSeconds * 1_000) continue;
      this.#served.delete(zone.id);
      this.#leaveOut(zone, takenOctets, 0);
    }
  }

  /** Has zones left alone until they are released. Done again, it forgets that they were withdrawn before. */
  holdBack(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) this.#heldBack.set(id, "as it was");
  }

  release(zoneIds: Iterable<number>): void {
    for (const id of zoneIds) this.#heldBack.delete(id);
  }

  isHeldBack(id: number): boolean {
    return this.#heldBack.has(id);
  }

  /** Whether a zone that is held back has been withdrawn since. */
  isGone(id: number): boolean {
    return this.#heldBack.get(id) === "withdrawn";
  }

  #noteWithdrawn(id: number): void {
    if (this.#heldBack.has(id)) this.#heldBack.set(id, "withdrawn");
  }

  /** @param reference its own, where the caller knows it */
  notePublished(zone: ZoneState, reference?: number): void {
    this.#served.set(zone.id, zone, reference);
    this.#unreadable.delete(zone.id);
    this.#suspended.delete(zone.id);
    if (this.#leftOut.remove(zone.id)) this.#observe({ kind: "zone-fits-again", level: "info", ...nameOf(zone) });
  }

  /** Notes why a zone could not be published. @throws what is no fault of the zone's */
  takeFailure(zone: ZoneState, error: unknown, attempt: { readonly takenOctets: number; readonly ms: number }): void {
    // Gone while it was loaded, it is missed by nobody.
    const isGone = this.isGone(zone.id);
    if (error instanceof ZoneDatabaseFullError) {
      if (!isGone) this.#leaveOut(zone, attempt.takenOctets, attempt.ms);
    } else if (error instanceof CorruptRecordError) {
      if (!isGone) this.noteCorrupt(zone, error);
    } else throw error;
  }

  /** Leaves a zone as it is answered, or all of it SERVFAIL where it is not: it does not fit. */
  #leaveOut(zone: ZoneSummary, takenOctets: number, ms: number): void {
    const writer = this.#writer;
    const servedVersion = this.#served.versionOf(zone.id);
    if (servedVersion === undefined && this.#showPlaceHolder(zone, () => writer.withholdZone(zone)))
      this.#suspended.delete(zone.id);
    this.#unreadable.delete(zone.id);
    if (this.#leftOut.add(zone, { servedVersion, takenOctets, ms })) {
      const { usedOctets, totalOctets } = writer;
      const memory = { servesLastVersion: servedVersion !== undefined, takenOctets, usedOctets, totalOctets };
      this.#observe({ kind: "zone-left-out", level: "error", ...nameOf(zone), ...memory });
    }
    // What the attempt had taken is for others.
    if (this.#isFilling) this.collectAll();
    else writer.collect(COLLECT_NODES);
  }

  /** Even for a place-holder there may be room only after what was given up is taken apart. @returns whether it is shown */
  #showPlaceHolder(zone: SuspendedZone, show: () => void): boolean {
    if (!isApex(zone.apex)) return false;
    do {
      try {
        show();
        return true;
      } catch (error) {
        if (!(error instanceof ZoneDatabaseFullError)) throw error;
      }
    } while (this.#writer.collect(COLLECT_NODES));
    this.#observe({ kind: "zone-not-withheld", level: "error", ...nameOf(zone) });
    return false;
  }
}

/** A zone as observations name it. */
export function nameOf({ id, apex }: Pick<ZoneSummary, "id" | "apex">): {
  readonly zone: string;
  readonly zoneId: number;
} {
  return { zone: apexText(apex), zoneId: id };
}
