import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { AnswerCache } from "../answer-cache.ts";
import { Client } from "../message/client.ts";
import { DEFER, DROP, Pipeline } from "../pipeline.ts";
import { Statistics } from "../reports/statistics.ts";
import { ZoneDatabaseMemory } from "../zone-database/memory.ts";
import { ZoneDatabaseReader } from "../zone-database/reader.ts";
import { DatagramBatch } from "./datagram-batch.ts";
import { closeSocket, openUdpSocket, Poll } from "./linux-sockets.ts";
import { CONTROL_WORD, MAX_DEFERRED, type UdpWorkerData, type UdpWorkerMessage } from "./udp-worker-messages.ts";

/** How often an idle worker looks whether it is to stop. */
const IDLE_MS = 200;

/** From -20, the first, to 19. */
const NICENESS = -10;

run(workerData as UdpWorkerData);

/** The whole life of a UDP worker: it never returns to its event loop until it is told to stop. */
function run(data: UdpWorkerData): void {
  const descriptors: number[] = [];
  comeFirst();
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

/**
 * Puts this thread (on Linux a priority is a thread's) ahead of the one that takes changes in and of a database on the
 * same machine, so that an answer never waits for their time slice. Without CAP_SYS_NICE it runs as everybody does.
 */
function comeFirst(): void {
  try {
    setPriority(NICENESS);
  } catch (error) {
    const code = (error as { info?: { code?: string } }).info?.code ?? "";
    if (!["EACCES", "EPERM"].includes(code)) throw error;
  }
}

function tell(message: UdpWorkerMessage): void {
  parentPort?.postMessage(message);
}

function serve(data: UdpWorkerData, descriptors: readonly number[]): void {
  const control = new Int32Array(data.control);
  const reader = new ZoneDatabaseReader(new ZoneDatabaseMemory(data.zoneDatabase), data.index);
  const statistics = new Statistics(data.statistics).row(data.index);
  const { answerCacheMebioctets } = data;
  const cache = answerCacheMebioctets === 0 ? undefined : new AnswerCache(reader, answerCacheMebioctets);
  const pipeline = new Pipeline(reader, data.settings, statistics, cache);
  const batches = descriptors.map((descriptor, index) => new DatagramBatch(descriptor, data.addresses[index]!));
  const client = new Client();
  const [only] = batches;
  if (batches.length === 1) {
    while (Atomics.load(control, CONTROL_WORD.STOP) === 0) answerBatch(only!, true);
    return;
  }
  const poll = new Poll(descriptors);
  while (Atomics.load(control, CONTROL_WORD.STOP) === 0) {
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
      const length = pipeline.respondAgain(packet, batch.lengthOf(slot), batch.nextResponse, client, nowSeconds);
      if (length === DEFER) defer(batch, slot);
      else if (length !== DROP) batch.queue(slot, length);
    }
    reader.leave();
    batch.send();
  }

  /** Hands a query to the main thread, which answers it over the same socket. */
  function defer(batch: DatagramBatch, slot: number): void {
    if (Atomics.add(control, CONTROL_WORD.DEFERRED, 1) >= MAX_DEFERRED) {
      Atomics.sub(control, CONTROL_WORD.DEFERRED, 1);
      return;
    }
    tell({
      kind: "deferred",
      packet: batch.received[slot]!.octets.slice(0, batch.lengthOf(slot)),
      address: client.address.slice(0, client.addressOctets),
      descriptor: descriptors[batches.indexOf(batch)]!,
      envelope: batch.envelopeOf(slot),
    });
  }
}
