import { Worker } from "node:worker_threads";
import type { HostPort } from "../../platform/config/config-values.ts";
import { programFile, programRunner } from "../../platform/package-folder.ts";
import { Client } from "../message/client.ts";
import type { PipelineSettings } from "../pipeline.ts";
import type { Statistics } from "../reports/statistics.ts";
import type { AuthorisedResponder } from "../transfer/authorised-responder.ts";
import type { BindAddress } from "./linux-sockets.ts";
import type { UdpListener } from "./listen-udp.ts";
import { CONTROL_WORD, type UdpWorkerData, type UdpWorkerMessage } from "./udp-worker-messages.ts";

export interface UdpWorkersOptions {
  /** How many threads; each has sockets of its own for all addresses. */
  readonly workers: number;
  /** What answers that are given again may take of a thread's memory, a power of two; 0: none is. */
  readonly answerCacheMebioctets: number;
  readonly zoneDatabase: readonly SharedArrayBuffer[];
  readonly settings: PipelineSettings;
  /** Answers what the workers' pipelines defer. */
  readonly authorised: Pick<AuthorisedResponder, "answer">;
  /** With a row for each worker, the first worker's being 1; row 0 is the main thread's. */
  readonly statistics: Statistics;
  /** Told when a worker ends by itself; the kernel then gives its queries to the others. */
  readonly onFailure: (error: Error) => void;
}

/**
 * Opens the batching UDP listener: worker threads with sockets that share the port, each in a loop of `recvmmsg`,
 * answers and `sendmmsg`. Linux only, and only where koffi has a build.
 * Rejects, with the system's error as `code`, when an address cannot be had.
 */
export async function listenUdpBatch(addresses: readonly HostPort[], options: UdpWorkersOptions): Promise<UdpListener> {
  // Not before this listener is wanted: koffi is not there on every platform.
  const { sendDatagram } = await import("./datagram-batch.ts");
  const control = new Int32Array(new SharedArrayBuffer(4 * Object.keys(CONTROL_WORD).length));
  const ends: Promise<void>[] = [];
  const stopAll = async () => {
    Atomics.store(control, CONTROL_WORD.STOP, 1);
    await Promise.all(ends);
  };
  const starts = Array.from({ length: options.workers }, (_, index) => {
    const data: UdpWorkerData = {
      zoneDatabase: options.zoneDatabase,
      index: index + 1,
      addresses: addresses.map(bindAddress),
      settings: options.settings,
      answerCacheMebioctets: options.answerCacheMebioctets,
      statistics: options.statistics.buffer,
      control: control.buffer as SharedArrayBuffer,
    };
    const worker = new Worker(programRunner, {
      argv: [programFile("dns-server/listeners/udp-worker")],
      workerData: data,
      name: `dns-udp-${index + 1}`,
    });
    ends.push(new Promise((resolve) => worker.once("exit", () => resolve())));
    worker.on("message", (message: UdpWorkerMessage) => {
      if (message.kind === "deferred") void answerDeferred(message);
    });
    return untilListening(worker, options.onFailure);
  });
  const results = await Promise.allSettled(starts);
  const failure = results.find((result) => result.status === "rejected");
  if (failure) {
    await stopAll();
    throw failure.reason;
  }
  return { stop: stopAll };

  async function answerDeferred({ packet, address, descriptor, envelope }: DeferredQuery): Promise<void> {
    const client = new Client();
    client.address.set(address);
    client.addressOctets = address.length;
    try {
      await options.authorised.answer(packet, client, async (message) => {
        // A stopped worker has closed its sockets, and their numbers may be others' by now.
        if (Atomics.load(control, CONTROL_WORD.STOP) === 0) sendDatagram(descriptor, message, envelope);
        return true;
      });
    } finally {
      Atomics.sub(control, CONTROL_WORD.DEFERRED, 1);
    }
  }
}

type DeferredQuery = Extract<UdpWorkerMessage, { kind: "deferred" }>;

/** Waits for the sockets; whatever goes wrong later is the listener's to hear. */
function untilListening(worker: Worker, onFailure: (error: Error) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    let listening = false;
    const fail = (error: Error) => {
      if (listening) onFailure(error);
      else reject(error);
    };
    worker.on("message", (message: UdpWorkerMessage) => {
      if (message.kind === "failed") {
        fail(Object.assign(new Error(message.text), { code: message.code }));
      } else if (message.kind === "listening") {
        listening = true;
        resolve();
      }
    });
    worker.on("error", fail);
  });
}

function bindAddress({ host, port }: HostPort): BindAddress {
  const client = new Client();
  client.setAddress(host);
  return { octets: client.address.slice(0, client.addressOctets), port };
}
