import { TYPE } from "../../core/dns/rr-types.ts";
import type { StreamedRecord } from "../../store/dns/published-zones.ts";
import type { ZoneState } from "../../store/dns/zone-states.ts";
import type { CompiledRecord } from "../zone-database/stored-rrset.ts";
import { checkZone } from "./stored-names.ts";
import { type NameBuilder, ZoneFiller } from "./zone-filler.ts";

/** What builds zones, which a zone database does, or a thread that makes images for it. */
export interface ZoneBuilder extends NameBuilder {
  createZone(zone: ZoneState): number;
  publishZone(zone: number): void;
  discardZone(zone: number): void;
  octetsOf(zone: number): number;
}

/** What becomes of the zones that `WholeZones` builds. */
export interface WholeZoneEvents {
  /** Asked before a zone that is whole is shown. */
  readonly isWanted: (zone: ZoneState) => boolean;
  readonly onPublished: (zone: ZoneState, reference: number) => void;
  /**
   * Told why a zone could not be built, when it has been given up; to go on with the next one it returns.
   * @param takenOctets what its names took by then
   */
  readonly onFailed: (zone: ZoneState, error: unknown, takenOctets: number) => void;
}

/**
 * Takes records in the order of `streamRecords`, builds each zone aside and publishes it after its last. Between two
 * records others may change the zone database.
 */
export class WholeZones {
  readonly #builder: ZoneBuilder;
  readonly #filler: ZoneFiller;
  readonly #zones: readonly ZoneState[];
  readonly #events: WholeZoneEvents;
  /** Index of the zone being loaded. */
  #index = 0;
  /** Its reference in the zone database; 0 before its first record. */
  #reference = 0;

  /** @param zones by ascending id */
  constructor(builder: ZoneBuilder, zones: readonly ZoneState[], events: WholeZoneEvents) {
    this.#builder = builder;
    this.#filler = new ZoneFiller(builder);
    this.#zones = zones;
    this.#events = events;
    this.#begin();
  }

  add(record: StreamedRecord): void {
    while (this.#index < this.#zones.length && this.#zones[this.#index]!.id < record.zoneId) this.#publish();
    // All zones are streamed when many are wanted: this may be none of them. Of one that failed the rest is passed over.
    if (this.#zones[this.#index]?.id !== record.zoneId) return;
    try {
      this.#filler.add(record);
    } catch (error) {
      this.#giveUp(error);
      this.#begin();
    }
  }

  /** Does without the zone at hand. */
  #giveUp(error: unknown): void {
    const zone = this.#zones[this.#index]!;
    const takenOctets = this.#reference === 0 ? 0 : this.#builder.octetsOf(this.#reference);
    if (this.#reference !== 0) this.#builder.discardZone(this.#reference);
    this.#reference = 0;
    this.#index += 1;
    this.#events.onFailed(zone, error, takenOctets);
  }

  finish(): void {
    while (this.#index < this.#zones.length) this.#publish();
  }

  discard(): void {
    if (this.#reference !== 0) this.#builder.discardZone(this.#reference);
    this.#reference = 0;
  }

  /** Begins with the next zone that can be begun. */
  #begin(): void {
    while (this.#index < this.#zones.length) {
      try {
        this.#beginZone(this.#zones[this.#index]!);
        return;
      } catch (error) {
        this.#giveUp(error);
      }
    }
  }

  #beginZone(zone: ZoneState): void {
    this.#reference = this.#builder.createZone(zone);
    checkZone(zone);
    // The apex is the first name in canonical order, and its SOA is no row.
    this.#filler.begin(this.#reference, zone.apex);
    this.#filler.addHere(soaOf(zone));
  }

  #publish(): void {
    const zone = this.#zones[this.#index]!;
    const isWanted = this.#events.isWanted(zone);
    try {
      this.#filler.end();
      if (isWanted) this.#builder.publishZone(this.#reference);
    } catch (error) {
      this.#giveUp(error);
      this.#begin();
      return;
    }
    if (isWanted) this.#events.onPublished(zone, this.#reference);
    else this.#builder.discardZone(this.#reference);
    this.#reference = 0;
    this.#index += 1;
    this.#begin();
  }
}

/** A zone's SOA, which is no row of the records. */
export function soaOf(zone: ZoneState): CompiledRecord {
  return { type: TYPE.SOA, ttl: zone.soaTtlSeconds, rdata: zone.soaRdata };
}
