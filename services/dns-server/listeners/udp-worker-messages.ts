import type { PipelineSettings } from "../pipeline.ts";
import type { Envelope } from "./datagram-batch.ts";
import type { BindAddress } from "./linux-sockets.ts";

/** What a UDP worker is given at its start. */
export interface UdpWorkerData {
  readonly zoneDatabase: readonly SharedArrayBuffer[];
  /** This thread's number among the zone database's readers and in the statistics. */
  readonly index: number;
  readonly addresses: readonly BindAddress[];
  readonly settings: PipelineSettings;
  /** 0: no answer is given again. */
  readonly answerCacheMebioctets: number;
  readonly statistics: SharedArrayBuffer;
  /** Words of `CONTROL_WORD`, which the workers share with the main thread. */
  readonly control: SharedArrayBuffer;
}

/** The main thread has enough to do with so many deferred queries; whoever is turned away asks again. */
export const MAX_DEFERRED = 1_000;

/** Words by which the threads agree. */
export const CONTROL_WORD = {
  /** 1 when the workers are to stop. */
  STOP: 0,
  /** Deferred queries that the main thread has not answered yet. */
  DEFERRED: 1,
} as const;

/** What a UDP worker says: that its sockets are open, or cannot be, or that the main thread must answer a query. */
export type UdpWorkerMessage =
  | { readonly kind: "listening" }
  | { readonly kind: "failed"; readonly code: string; readonly text: string }
  | {
      readonly kind: "deferred";
      readonly packet: Uint8Array;
      /** Address of the client. */
      readonly address: Uint8Array;
      readonly descriptor: number;
      readonly envelope: Envelope;
    };
