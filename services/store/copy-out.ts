import type { Duplex } from "node:stream";
import type pg from "pg";

/** The signature, flags and extension length before the first row of binary COPY data. */
const HEADER_OCTETS = 19;
const FIRST_SIGNATURE_OCTET = 0x50;
/** The field count that ends binary COPY data. */
const TRAILER = -1;
/** Type and length in front of each message of the server, and the type that COPY's data has. */
const HEAD_OCTETS = 5;
const COPY_DATA = 0x64;
/** No message is longer: what seems to be is none. */
const MOST_MESSAGE_OCTETS = 2 ** 30;

const NO_OCTETS: Uint8Array = new Uint8Array(0);

/** A row of `copy … to stdout (format binary)`, valid only while it is handled. */
export class CopyRow {
  octets: Uint8Array = new Uint8Array(0);
  /** Where each field's octets begin and how many there are; −1 for null. */
  readonly starts: number[] = [];
  readonly lengths: number[] = [];

  int4(field: number): number {
    return int4At(this.octets, this.starts[field]!);
  }

  int8(field: number): number {
    const start = this.starts[field]!;
    return int4At(this.octets, start) * 2 ** 32 + (int4At(this.octets, start + 4) >>> 0);
  }

  bool(field: number): boolean {
    return this.octets[this.starts[field]!] !== 0;
  }

  /** Whether a field has these octets. */
  has(field: number, octets: Uint8Array): boolean {
    const start = this.starts[field]!;
    if (this.lengths[field] !== octets.length) return false;
    for (let index = 0; index < octets.length; index += 1) {
      if (this.octets[start + index] !== octets[index]) return false;
    }
    return true;
  }

  /** Copies a field's octets to a place in others: octet by octet, as they are few. @returns where they end there */
  copyTo(target: Uint8Array, at: number, field: number): number {
    const start = this.starts[field]!;
    const length = this.lengths[field]!;
    for (let index = 0; index < length; index += 1) target[at + index] = this.octets[start + index]!;
    return at + length;
  }

  /** A copy of a field's octets. */
  bytes(field: number): Uint8Array {
    const copy = new Uint8Array(this.lengths[field]!);
    this.copyTo(copy, 0, field);
    return copy;
  }
}

/**
 * Streams the rows of a query through binary COPY, which costs a fraction of what result rows do and holds one row at
 * a time.
 * @param query a SELECT without parameters
 * @param onRow called for each row, synchronously
 */
export function copyOut(client: pg.Client, query: string, onRow: (row: CopyRow) => void): Promise<void> {
  const row = new CopyRow();
  return copyMessages(client, query, (messages, start, end) => {
    readRows(messages, { start, end }, row, onRow);
    return undefined;
  });
}

/**
 * Takes whole messages that lie side by side, of which each has a row; valid only while they are handled. Where it returns a
 * promise the database has to wait with what comes behind until that resolves.
 */
export type TakeMessages = (octets: Uint8Array, start: number, end: number) => Promise<void> | undefined;

/** As `copyOut`, for rows that are read elsewhere, by `readRows`. */
export function copyMessages(client: pg.Client, query: string, onMessages: TakeMessages): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query(new CopyOutQuery(`copy (${query}) to stdout (format binary)`, onMessages, { resolve, reject }));
  });
}

/**
 * Reads the rows of what `copyMessages` has brought.
 * @param row is filled anew for each
 */
export function readRows(
  octets: Uint8Array,
  { start, end }: { readonly start: number; readonly end: number },
  row: CopyRow,
  onRow: (row: CopyRow) => void,
): void {
  // The server sends whole rows, one a message (PostgreSQL's protocol, COPY operations).
  for (let position = start; position < end; ) {
    const next = endOfMessage(octets, position);
    if (readRow(octets, position + HEAD_OCTETS, next, row)) onRow(row);
    position = next;
  }
}

interface Settle {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What pg's client calls as the server's messages come in. */
class CopyOutQuery {
  readonly #text: string;
  readonly #settle: Settle;
  readonly #data: CopyData;

  constructor(text: string, onMessages: TakeMessages, settle: Settle) {
    this.#text = text;
    this.#data = new CopyData(onMessages);
    this.#settle = settle;
  }

  submit(connection: pg.Connection): void {
    this.#data.takeFrom(connection.stream);
    connection.query(this.#text);
  }

  handleError(error: unknown): void {
    this.#data.release();
    this.#settle.reject(this.#data.failure ?? error);
  }

  handleReadyForQuery(): void {
    this.#data.release();
    if (this.#data.failure === undefined) this.#settle.resolve();
    else this.#settle.reject(this.#data.failure);
  }

  handleCommandComplete(): void {}
}

/**
 * Takes the rows out of what a connection's socket brings, in place, and lets pg have all other messages: pg makes
 * several objects of each row, which costs more than all else that is done with it.
 */
class CopyData {
  /** What whoever takes the rows has thrown, or what is wrong with the data: the rest of it is let pass. */
  failure: unknown;
  readonly #onMessages: TakeMessages;
  #stream: Duplex | undefined;
  /** Those of pg. */
  #listeners: readonly Listener[] = [];
  /** The beginning of a message. */
  #rest: Uint8Array = NO_OCTETS;

  constructor(onMessages: TakeMessages) {
    this.#onMessages = onMessages;
  }

  /** Begins before the query is sent, when no message is half read. */
  takeFrom(stream: Duplex): void {
    this.#stream = stream;
    this.#listeners = stream.listeners("data") as Listener[];
    stream.removeAllListeners("data");
    stream.on("data", this.#take);
  }

  /** Gives the socket back to pg. */
  release(): void {
    const stream = this.#stream;
    if (stream === undefined) return;
    this.#stream = undefined;
    stream.off("data", this.#take);
    for (const listener of this.#listeners) stream.on("data", listener);
  }

  readonly #take = (chunk: Buffer): void => {
    const stream = this.#stream!;
    // No Buffer: the same code has octets of other origin as well, and is faster where all are of one kind.
    const octets = new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.length);
    let start = 0;
    while (this.#rest.length > 0 && start < octets.length) start = this.#extendRest(octets, start);
    if (start < octets.length && !stream.destroyed) this.#takeMessages(stream, octets, start);
  };

  /** Adds what belongs to the message that is half there, and no more, so that those behind it stay where they are. */
  #extendRest(octets: Uint8Array, start: number): number {
    const rest = this.#rest;
    const wanted = rest.length < HEAD_OCTETS ? HEAD_OCTETS : endOfMessage(rest, 0);
    const end = Math.min(octets.length, start + wanted - rest.length);
    const longer = new Uint8Array(rest.length + end - start);
    longer.set(rest);
    longer.set(octets.subarray(start, end), rest.length);
    this.#rest = NO_OCTETS;
    this.#takeMessages(this.#stream!, longer, 0);
    return end;
  }

  #takeMessages(stream: Duplex, octets: Uint8Array, start: number): void {
    // The last message of a query has been: another one may have begun, to which these belong.
    if (this.#stream === undefined) {
      stream.emit("data", asBuffer(octets.subarray(start)));
      return;
    }
    let position = start;
    /** Where the data begins that has not been taken yet. */
    let data = start;
    while (position + HEAD_OCTETS <= octets.length) {
      const end = endOfMessage(octets, position);
      if (end < position + HEAD_OCTETS || end - position > MOST_MESSAGE_OCTETS) {
        stream.destroy(new Error("the database sends what is no message"));
        return;
      }
      if (end > octets.length) break;
      if (octets[position] !== COPY_DATA) {
        this.#takeData(octets, data, position);
        data = end;
        this.#pass(octets.subarray(position, end));
      }
      position = end;
      if (this.#stream === undefined) {
        if (position < octets.length) stream.emit("data", asBuffer(octets.subarray(position)));
        return;
      }
    }
    this.#takeData(octets, data, position);
    this.#rest = octets.subarray(position);
  }

  #takeData(octets: Uint8Array, start: number, end: number): void {
    if (start === end || this.failure !== undefined) return;
    try {
      const pause = this.#onMessages(octets, start, end);
      if (pause === undefined) return;
      const stream = this.#stream!;
      stream.pause();
      void pause.then(() => stream.resume());
    } catch (error) {
      // Thrown from here it would end the process.
      this.failure = error;
    }
  }

  #pass(message: Uint8Array): void {
    for (const listener of this.#listeners) listener.call(this.#stream, asBuffer(message));
  }
}

type Listener = (chunk: Buffer) => void;

/** Finds the fields of a row; false for the trailer. */
function readRow(octets: Uint8Array, start: number, end: number, row: CopyRow): boolean {
  // A row begins with a count of fields, which is small, the header with a letter.
  let position = octets[start] === FIRST_SIGNATURE_OCTET ? start + HEADER_OCTETS : start;
  if (position === end) return false;
  const fields = ((octets[position]! << 24) >> 16) | octets[position + 1]!;
  if (fields === TRAILER) return false;
  position += 2;
  row.octets = octets;
  for (let field = 0; field < fields; field += 1) {
    const length = int4At(octets, position);
    row.starts[field] = position + 4;
    row.lengths[field] = length;
    position += 4 + Math.max(length, 0);
  }
  if (position !== end) throw new Error("the database sends a row that is none");
  return true;
}

/** Where a message ends that begins at `start`: behind its type come the octets of all the rest. */
function endOfMessage(octets: Uint8Array, start: number): number {
  return start + 1 + int4At(octets, start + 1);
}

function int4At(octets: Uint8Array, at: number): number {
  return (octets[at]! << 24) | (octets[at + 1]! << 16) | (octets[at + 2]! << 8) | octets[at + 3]!;
}

function asBuffer(octets: Uint8Array): Buffer {
  return Buffer.from(octets.buffer, octets.byteOffset, octets.length);
}
