/**
 * What the thread that makes images is given: rows of zones (`copyPublishedZones`), then rows of their records (`copyRecords`), then
 * word that they have ended. Each message has whole rows, and is answered.
 */
export interface ToImageThread {
  readonly kind: "zones" | "records" | "end";
  readonly rows: Uint8Array;
}

/** What it has made of the rows that it was given in one message. */
export interface FromImageThread {
  readonly takenOctets: number;
  /** Whole items of zone-stream.ts; of a large zone some of the parts. */
  readonly zones: Int32Array;
}
