import { TYPE } from "../core/dns/rr-types.ts";
import type { StreamedRecord, ZoneState } from "../store/dns/published-zones.ts";
import { LOWER_CASE } from "./picture/layout.ts";
import { NameDraft } from "./picture/name-draft.ts";
import type { PictureRecord } from "./picture/stored-rrset.ts";
import type { PictureWriter } from "./picture/writer.ts";

/** What becomes of the zones that `WholeZones` builds. */
export interface WholeZoneEvents {
  /** Asked before a zone that is whole is shown. */
  readonly isWanted: (zone: ZoneState) => boolean;
  readonly onPublished: (zone: ZoneState) => void;
  /** Told why a zone could not be built; to go on with the next one it returns. */
  readonly onFailed: (zone: ZoneState, error: unknown) => void;
}

/**
 * Takes records in the order of `streamRecords`, builds each zone aside and publishes it after its last. Between two
 * records others may change the picture.
 */
export class WholeZones {
  readonly #writer: PictureWriter;
  readonly #draft = new NameDraft();
  readonly #zones: readonly ZoneState[];
  readonly #events: WholeZoneEvents;
  /** Index of the zone being loaded. */
  #index = 0;
  /** Its reference in the picture; 0 before its first record. */
  #reference = 0;
  /** The name at hand. */
  #owner: Uint8Array = new Uint8Array(0);

  /** @param zones by ascending id */
  constructor(writer: PictureWriter, zones: readonly ZoneState[], events: WholeZoneEvents) {
    this.#writer = writer;
    this.#zones = zones;
    this.#events = events;
    this.#begin();
  }

  add(record: StreamedRecord): void {
    while (this.#index < this.#zones.length && this.#zones[this.#index]!.id < record.zoneId) this.#publish();
    // All zones are streamed when many are wanted: this may be none of them. Of one that failed the rest is passed over.
    if (this.#zones[this.#index]?.id !== record.zoneId) return;
    try {
      this.#put(record);
    } catch (error) {
      this.#giveUp(error);
    }
  }

  #put({ octets, ownerStart, ownerOctets, type, ttl, rdataStart, rdataOctets }: StreamedRecord): void {
    if (!isSameName(this.#owner, octets, ownerStart, ownerOctets)) {
      this.#writer.endName(this.#reference, this.#owner, this.#draft);
      // A copy: `slice` of the Buffer that this is would be a view of octets that are about to change.
      this.#owner = Uint8Array.prototype.slice.call(octets, ownerStart, ownerStart + ownerOctets);
      this.#writer.beginName(this.#reference, this.#draft);
    }
    this.#draft.add(type, ttl, octets, rdataStart, rdataStart + rdataOctets);
  }

  /** Goes on with the next zone. */
  #giveUp(error: unknown): void {
    this.#events.onFailed(this.#zones[this.#index]!, error);
    this.#writer.discardZone(this.#reference);
    this.#index += 1;
    this.#begin();
  }

  finish(): void {
    while (this.#index < this.#zones.length) this.#publish();
  }

  discard(): void {
    if (this.#index < this.#zones.length) this.#writer.discardZone(this.#reference);
  }

  #begin(): void {
    const zone = this.#zones[this.#index];
    if (!zone) return;
    this.#reference = this.#writer.createZone({
      apex: zone.apex,
      negativeTtlSeconds: negativeTtlSeconds(zone),
      restricted: zone.restricted,
      resellerId: zone.resellerId,
    });
    // The apex is the first name in canonical order, and its SOA is no row.
    const { type, ttl, rdata } = soaOf(zone);
    this.#owner = zone.apex;
    this.#writer.beginName(this.#reference, this.#draft);
    this.#draft.add(type, ttl, rdata, 0, rdata.length);
  }

  #publish(): void {
    const zone = this.#zones[this.#index]!;
    try {
      this.#writer.endName(this.#reference, this.#owner, this.#draft);
    } catch (error) {
      this.#giveUp(error);
      return;
    }
    if (this.#events.isWanted(zone)) {
      this.#writer.publishZone(this.#reference);
      this.#events.onPublished(zone);
    } else {
      this.#writer.discardZone(this.#reference);
    }
    this.#index += 1;
    this.#begin();
  }
}

/** A zone's SOA, which is no row of the records. */
export function soaOf(zone: ZoneState): PictureRecord {
  return { type: TYPE.SOA, ttl: zone.soaTtlSeconds, rdata: zone.soaRdata };
}

/** TTL of negative answers (RFC 2308 §5). */
export function negativeTtlSeconds(zone: ZoneState): number {
  return Math.min(zone.soaTtlSeconds, zone.minimumSeconds);
}

/** Whether a name is the one that stands among other octets, ASCII case aside (RFC 4343). */
function isSameName(name: Uint8Array, octets: Uint8Array, start: number, length: number): boolean {
  if (name.length !== length) return false;
  for (let index = 0; index < length; index += 1) {
    if (LOWER_CASE[name[index]!] !== LOWER_CASE[octets[start + index]!]) return false;
  }
  return true;
}
