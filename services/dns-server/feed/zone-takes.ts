import { ZoneDatabaseFullError } from "../zone-database/memory.ts";
import type { StoredNodes } from "../zone-database/node-store.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import { ZoneImageTaker } from "../zone-database/zone-image.ts";
import type { ZonePublisher } from "./zone-publisher.ts";
import type { SnapshotZone } from "./zone-stream.ts";

/** Fills a zone database that nobody is answered from with the images of zones, and notes those that do not fit. */
export class ZoneTakes {
  readonly #writer: ZoneDatabaseWriter;
  readonly #publisher: ZonePublisher;
  readonly #images: ZoneImageTaker;
  /** The zone at hand; undefined where it is given up. */
  #kept: SnapshotZone | undefined;
  /** Its reference in the zone database; 0 while there is none. */
  #zone = 0;

  constructor(writer: ZoneDatabaseWriter, publisher: ZonePublisher) {
    this.#writer = writer;
    this.#publisher = publisher;
    this.#images = new ZoneImageTaker(writer);
  }

  /** Begins with the next zone. */
  begin(kept: SnapshotZone): void {
    this.#kept = kept;
    this.#zone = 0;
    try {
      this.#zone = this.#writer.createZone(kept);
    } catch (error) {
      this.giveUp(error);
      return;
    }
    this.#images.begin(this.#zone);
  }

  /** Takes the next part of its image, if it has not been given up. */
  take(part: StoredNodes): void {
    if (this.#kept === undefined) return;
    try {
      this.#images.take(part);
    } catch (error) {
      this.giveUp(error);
    }
  }

  /** Publishes the zone at hand, if it has not been given up. */
  end(): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    try {
      this.#writer.publishZone(this.#zone);
    } catch (error) {
      this.giveUp(error);
      return;
    }
    this.#publisher.adopt(kept.id, kept, this.#zone);
    this.#kept = undefined;
  }

  /** Gives up the zone at hand, of which there is no more. */
  discard(): void {
    if (this.#kept !== undefined && this.#zone !== 0) this.#writer.discardZone(this.#zone);
    this.#kept = undefined;
  }

  /** Gives up the zone at hand for a reason. @throws what is no fault of the zone's */
  giveUp(error: unknown): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    const takenOctets = this.#zone === 0 ? 0 : this.#writer.octetsOf(this.#zone);
    this.discard();
    if (error instanceof ZoneDatabaseFullError) this.#publisher.leaveOut(kept, takenOctets);
    else if (error instanceof CorruptRecordError) this.#publisher.noteCorrupt(kept, error);
    else throw error;
  }
}
