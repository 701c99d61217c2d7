import { parentPort } from "node:worker_threads";
import { CopyRow, readRows } from "../../store/copy-out.ts";
import { recordReader } from "../../store/dns/published-zones.ts";
import { type ZoneState, zoneStateMaker } from "../../store/dns/zone-state-rows.ts";
import type { NameDraft } from "../zone-database/name-draft.ts";
import { CorruptRecordError } from "../zone-database/stored-rrset.ts";
import { ZoneImageDraft } from "../zone-database/zone-image.ts";
import { WholeZones, type ZoneBuilder } from "./whole-zones.ts";
import type { FromImageThread, ToImageThread } from "./zone-image-messages.ts";
import { ZoneStreamWriter } from "./zone-stream.ts";

/** Builds zones as images, into what the main thread is going to have. */
class ImageBuilder implements ZoneBuilder {
  readonly #out: ZoneStreamWriter;
  readonly #image: ZoneImageDraft;
  #apex: Uint8Array = new Uint8Array(0);

  constructor(out: ZoneStreamWriter) {
    this.#out = out;
    this.#image = new ZoneImageDraft((part) => out.addPart(part));
  }

  createZone(zone: ZoneState): number {
    this.#out.beginZone(zone, 0);
    this.#apex = zone.apex;
    this.#image.begin();
    return 1;
  }

  beginName(_zone: number, draft: NameDraft): void {
    draft.begin({ apex: this.#apex, hasNsec3Chain: this.#image.denial.kind === "nsec3" });
  }

  endName(_zone: number, owner: Uint8Array, nameLength: number, draft: NameDraft): void {
    draft.finish();
    this.#image.putName({ owner, nameLength }, draft);
  }

  publishZone(): void {
    this.#image.end();
    this.#out.endZone();
  }

  /** What there is of it is passed over by whoever reads that the zone has failed; the next zone begins a new image. */
  discardZone(): void {
    this.#image.begin();
  }

  octetsOf(): number {
    return 0;
  }
}

/** Makes images of zones: some zones come, then their records, then the next ones. */
class ImageThread {
  readonly #out = new ZoneStreamWriter();
  readonly #builder = new ImageBuilder(this.#out);
  readonly #row = new CopyRow();
  readonly #makeZone = zoneStateMaker();
  readonly #readRecord = recordReader((record) => this.#loading!.add(record));
  #zones: ZoneState[] = [];
  /** Those whose records come. */
  #loading: WholeZones | undefined;

  take({ kind, rows }: ToImageThread): FromImageThread {
    const span = { start: 0, end: rows.length };
    if (kind === "zones") readRows(rows, span, this.#row, (row) => this.#zones.push(this.#makeZone(row)));
    else {
      this.#loading ??= this.#begin();
      if (kind === "records") readRows(rows, span, this.#row, this.#readRecord);
      else this.#end();
    }
    return { takenOctets: rows.length, zones: new Int32Array(this.#out.take().slice().buffer) };
  }

  #begin(): WholeZones {
    return new WholeZones(this.#builder, this.#zones, {
      isWanted: () => true,
      onPublished: () => {},
      onFailed: (_zone, error) => {
        if (!(error instanceof CorruptRecordError)) throw error;
        this.#out.failZone(error.message);
      },
    });
  }

  #end(): void {
    this.#loading!.finish();
    this.#loading = undefined;
    this.#zones = [];
  }
}

const port = parentPort!;
const thread = new ImageThread();
port.on("message", (message: ToImageThread) => {
  const answer = thread.take(message);
  port.postMessage(answer, [answer.zones.buffer as ArrayBuffer]);
});
