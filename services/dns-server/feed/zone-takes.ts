import { ZoneDatabaseFullError } from "../zone-database/memory.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { ZoneImageTaker } from "../zone-database/zone-image.ts";
import type { ZoneStandings } from "./zone-standings.ts";
import { type SnapshotZone, ZoneStreamReader } from "./zone-stream.ts";

/** Fills a zone database that nobody is answered from with the images of zones, and notes those that do not fit. */
export class ZoneTakes {
  readonly #writer: ZoneDatabaseWriter;
  readonly #standings: ZoneStandings;
  readonly #isWanted: (zone: SnapshotZone) => boolean;
  readonly #zones = new ZoneStreamReader();
  readonly #images: ZoneImageTaker;
  /** The zone at hand; undefined where it is not wanted or given up. */
  #kept: SnapshotZone | undefined;
  /** Its reference in the zone database; 0 while there is none. */
  #zone = 0;

  /** @param isWanted which zones are taken of those that come */
  constructor(
    writer: ZoneDatabaseWriter,
    standings: ZoneStandings,
    isWanted: (zone: SnapshotZone) => boolean = () => true,
  ) {
    this.#writer = writer;
    this.#standings = standings;
    this.#isWanted = isWanted;
    this.#images = new ZoneImageTaker(writer);
  }

  /** Begins with the next chunk of zones (zone-stream.ts). */
  begin(chunk: Int32Array): void {
    this.#zones.begin(chunk);
  }

  /** Takes the next piece of it: the head of a zone, a part of its image, or its end. @returns whether there was one */
  takeNext(): boolean {
    if (this.#zones.isEmpty) return false;
    if (this.#zones.isInZone) this.#takeRest();
    else this.#beginZone(this.#zones.nextZone());
    return true;
  }

  #beginZone(zone: SnapshotZone): void {
    this.#zone = 0;
    this.#kept = this.#isWanted(zone) ? zone : undefined;
    if (this.#kept === undefined) return;
    try {
      this.#zone = this.#writer.createZone(zone);
    } catch (error) {
      this.#giveUp(error);
      return;
    }
    this.#images.begin(this.#zone);
  }

  /** The next part of the zone at hand, or what is behind its last. */
  #takeRest(): void {
    try {
      const part = this.#zones.nextPart();
      if (part === undefined) this.#end();
      else if (this.#kept !== undefined) this.#images.take(part);
    } catch (error) {
      this.#giveUp(error);
    }
  }

  /** Publishes the zone at hand, if it has not been given up. */
  #end(): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    this.#writer.publishZone(this.#zone);
    this.#standings.adopt(kept.id, kept, this.#zone);
    this.#kept = undefined;
  }

  /** Gives up the zone at hand, of which there is no more. */
  discard(): void {
    if (this.#kept !== undefined && this.#zone !== 0) this.#writer.discardZone(this.#zone);
    this.#kept = undefined;
  }

  /** Gives up the zone at hand for a reason. @throws what is no fault of the zone's */
  #giveUp(error: unknown): void {
    const kept = this.#kept;
    if (kept === undefined) {
      // Whoever made the image gave up a zone that is not wanted or has been given up here before.
      if (error instanceof CorruptRecordError) return;
      throw error;
    }
    const takenOctets = this.#zone === 0 ? 0 : this.#writer.octetsOf(this.#zone);
    this.discard();
    if (error instanceof ZoneDatabaseFullError) this.#standings.leaveOut(kept, takenOctets);
    else if (error instanceof CorruptRecordError) this.#standings.noteCorrupt(kept, error);
    else throw error;
  }
}
