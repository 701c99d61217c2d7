import { Worker } from "node:worker_threads";
import type pg from "pg";
import { programFile, programRunner } from "../../platform/package-folder.ts";
import type { TakeMessages } from "../../store/copy-out.ts";
import { copyRecords, readAlongIndexes } from "../../store/dns/published-zones.ts";
import { selectionOf } from "../../store/dns/zone-selection.ts";
import { copyPublishedZones, type ZoneScope } from "../../store/dns/zone-states.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import type { FromImageThread, ToImageThread } from "./zone-image-messages.ts";
import type { ZonePublisher } from "./zone-publisher.ts";
import { ZoneTakes } from "./zone-takes.ts";

/** Zones whose rows are asked for at a time. */
const ZONES_A_STEP = 8_000;
/** Rows are gathered to so many octets before they go to the thread: each message costs both sides the same. */
const GATHERED_OCTETS = 1 << 17;
/** What `mostWaitingOctets` is unless given. */
const MOST_WAITING_OCTETS = 1 << 22;

/** Of the thread's heap: what is made of the zones of a step is garbage again before it is full. */
const YOUNG_GENERATION_MB = 48;

export interface FirstLoadOptions {
  readonly client: pg.Client;
  readonly writer: ZoneDatabaseWriter;
  readonly publisher: ZonePublisher;
  readonly scope: ZoneScope;
  /** Octets of rows that the thread may be behind with before the database has to wait. */
  readonly mostWaitingOctets?: number;
}

/**
 * Fills a zone database that nobody is answered from yet with many zones. A thread makes images of the rows that come,
 * while this one puts those that are made into the zone database and PostgreSQL makes the next rows.
 * @param ids of the zones, ascending, in the snapshot of the client
 */
export async function loadFirst(ids: readonly number[], options: FirstLoadOptions): Promise<void> {
  const program = programFile("dns-server/feed/zone-image-thread");
  const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_GENERATION_MB };
  const worker = new Worker(programRunner, { argv: [program], name: "dns-load", resourceLimits });
  const load = new FirstLoad(worker, options);
  worker.on("message", (message: FromImageThread) => load.take(message));
  worker.on("error", (error) => load.fail(error));
  worker.on("exit", () => load.fail(new Error("the thread that makes images of zones has ended")));
  try {
    await load.run(ids);
  } catch (error) {
    load.fail(error);
    throw error;
  } finally {
    await worker.terminate();
    load.end();
  }
}

class FirstLoad {
  readonly #worker: Worker;
  readonly #options: FirstLoadOptions;
  readonly #takes: ZoneTakes;
  #gathered: Uint8Array = Buffer.allocUnsafeSlow(GATHERED_OCTETS);
  #gatheredOctets = 0;
  readonly #mostWaitingOctets: number;
  /** Octets of rows that the thread has, and messages. */
  #waitingOctets = 0;
  #waitingMessages = 0;
  /** Called when there is less of them, or none more is to come. */
  #waiters: (() => void)[] = [];
  #failure: unknown;

  constructor(worker: Worker, options: FirstLoadOptions) {
    this.#worker = worker;
    this.#options = options;
    this.#mostWaitingOctets = options.mostWaitingOctets ?? MOST_WAITING_OCTETS;
    this.#takes = new ZoneTakes(options.writer, options.publisher.standings);
  }

  async run(ids: readonly number[]): Promise<void> {
    const { client, scope, writer } = this.#options;
    await readAlongIndexes(client);
    for (let first = 0; first < ids.length; first += ZONES_A_STEP) {
      const zones = selectionOf(ids.slice(first, first + ZONES_A_STEP));
      await copyPublishedZones(client, zones, scope, this.#gatherer("zones"));
      this.#send("zones");
      await copyRecords(client, zones, this.#gatherer("records"));
      this.#send("records");
      this.#send("end");
      // What tables leave when they grow is of use for the next zones.
      while (writer.collect());
    }
    while (this.#waitingMessages > 0 && this.#failure === undefined) await this.#untilTaken();
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Takes what the thread has made. */
  take({ takenOctets, zones }: FromImageThread): void {
    this.#waitingOctets -= takenOctets;
    this.#waitingMessages -= 1;
    try {
      if (this.#failure === undefined) this.#takeZones(zones);
    } catch (error) {
      this.fail(error);
    }
    this.#goOn();
  }

  /** Ends all, as far as it has come. */
  fail(error: unknown): void {
    this.#failure ??= error;
    this.#goOn();
  }

  /** Discards the zone at hand; to be called when the thread has ended. */
  end(): void {
    this.#takes.discard();
  }

  #goOn(): void {
    for (const goOn of this.#waiters.splice(0)) goOn();
  }

  #untilTaken(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #takeZones(chunk: Int32Array): void {
    this.#takes.begin(chunk);
    while (this.#takes.takeNext());
  }

  #gatherer(kind: RowKind): TakeMessages {
    return (octets, start, end) => {
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#gatheredOctets + end - start > this.#gathered.length) this.#send(kind);
      if (end - start > this.#gathered.length) this.#gathered = new Uint8Array(end - start);
      this.#gathered.set(octets.subarray(start, end), this.#gatheredOctets);
      this.#gatheredOctets += end - start;
      return this.#waitingOctets > this.#mostWaitingOctets ? this.#untilLess() : undefined;
    };
  }

  async #untilLess(): Promise<void> {
    while (this.#waitingOctets > this.#mostWaitingOctets / 2 && this.#failure === undefined) await this.#untilTaken();
  }

  /** Sends what has been gathered. */
  #send(kind: RowKind): void {
    const rows = this.#gathered.subarray(0, this.#gatheredOctets);
    if (rows.length === 0 && kind !== "end") return;
    this.#waitingOctets += rows.length;
    const message: ToImageThread = { kind, rows };
    this.#worker.postMessage(message, [rows.buffer as ArrayBuffer]);
    this.#waitingMessages += 1;
    this.#gathered = Buffer.allocUnsafeSlow(GATHERED_OCTETS);
    this.#gatheredOctets = 0;
  }
}

type RowKind = ToImageThread["kind"];
