import { parentPort, workerData } from "node:worker_threads";
import { Client } from "./client.ts";
import { type BindAddress, closeSocket, DatagramBatch, openUdpSocket, Poll } from "./linux-sockets.ts";
import { PictureMemory } from "./picture/memory.ts";
import { PictureReader } from "./picture/reader.ts";
import { DROP, Pipeline, type PipelineSettings } from "./pipeline.ts";
import { Statistics } from "./statistics.ts";

/** What a UDP worker is given at its start. */
export interface UdpWorkerData {
  readonly picture: SharedArrayBuffer;
  /** This thread's number among the picture's readers and in the statistics. */
  readonly index: number;
  readonly addresses: readonly BindAddress[];
  readonly settings: PipelineSettings;
  readonly statistics: SharedArrayBuffer;
  /** One word: 1 when the workers are to stop. */
  readonly stop: SharedArrayBuffer;
}

/** What a UDP worker says: that its sockets are open, or that they cannot be. */
export type UdpWorkerMessage =
  | { readonly kind: "listening" }
  | { readonly kind: "failed"; readonly code: string; readonly text: string };

/** How often an idle worker looks whether it is to stop. */
const IDLE_MS = 200;

run(workerData as UdpWorkerData);

/** The whole life of a UDP worker: it never returns to its event loop until it is told to stop. */
function run(data: UdpWorkerData): void {
  const descriptors: number[] = [];
  try {
    for (const address of data.addresses) descriptors.push(openUdpSocket(address, IDLE_MS));
    tell({ kind: "listening" });
    serve(data, descriptors);
  } catch (error) {
    const { code = "", message } = error as Error & { code?: string };
    tell({ kind: "failed", code, text: message });
  } finally {
    for (const descriptor of descriptors) closeSocket(descriptor);
  }
}

function tell(message: UdpWorkerMessage): void {
  parentPort?.postMessage(message);
}

function serve(data: UdpWorkerData, descriptors: readonly number[]): void {
  const stop = new Int32Array(data.stop);
  const reader = new PictureReader(new PictureMemory(data.picture), data.index);
  const statistics = new Statistics(data.statistics).row(data.index);
  const pipeline = new Pipeline(reader, data.settings, statistics);
  const batches = descriptors.map((descriptor, index) => new DatagramBatch(descriptor, data.addresses[index]!));
  const client = new Client();
  const [only] = batches;
  if (batches.length === 1) {
    while (Atomics.load(stop, 0) === 0) answerBatch(only!, true);
    return;
  }
  const poll = new Poll(descriptors);
  while (Atomics.load(stop, 0) === 0) {
    poll.wait(IDLE_MS);
    for (const [index, batch] of batches.entries()) if (poll.isReadable(index)) answerBatch(batch, false);
  }

  function answerBatch(batch: DatagramBatch, wait: boolean): void {
    const count = batch.receive(wait);
    if (count === 0) return;
    const nowSeconds = Math.floor(Date.now() / 1000);
    reader.enter();
    for (let slot = 0; slot < count; slot += 1) {
      batch.readClient(slot, client);
      const packet = batch.received[slot]!;
      const length = pipeline.respond(packet, batch.lengthOf(slot), batch.nextResponse, client, nowSeconds);
      if (length !== DROP) batch.queue(slot, length);
    }
    reader.leave();
    batch.send();
  }
}
