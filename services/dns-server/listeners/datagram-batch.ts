import koffi from "koffi";
import type { DatagramView } from "../answer-cache.ts";
import type { Client } from "../message/client.ts";
import { type BindAddress, isWildcard, libc, SOCKADDR, socketError } from "./linux-sockets.ts";

const MSG_DONTWAIT = 0x40;
const MSG_WAITFORONE = 0x10000;
const EINTR = 4;
const EAGAIN = 11;

/** Layout of `struct mmsghdr` and `struct iovec` on 64-bit Linux. */
const MMSGHDR = {
  SIZE: 64,
  NAME: 0,
  NAME_LENGTH: 8,
  IOV: 16,
  IOV_COUNT: 24,
  CONTROL: 32,
  CONTROL_LENGTH: 40,
  LENGTH: 56,
};
const IOVEC = { SIZE: 16, BASE: 0, LENGTH: 8 };
/** Room for one control message with the address that a packet was sent to; its data begins behind a 16-octet head. */
const CONTROL_OCTETS = 40;
const CONTROL_DATA = 16;

/** Datagrams taken and given to the kernel in one call. */
export const BATCH_SIZE = 64;
/** Room for each; longer queries than our payload size are none that anybody sends. */
const SLOT_OCTETS = 1280;
/** For arguments that are null pointers. */
const NO_BUFFER = null as unknown as Uint8Array;

/**
 * The buffers of one socket: what the kernel fills and what it sends from, laid out once, with the pointers between
 * them. All memory that pointers lead to is referenced from here.
 */
export class DatagramBatch {
  /** Each slot's datagram as it came. */
  readonly received: readonly DatagramView[];
  /** Where each slot's response is written. */
  readonly responses: readonly DatagramView[];
  readonly #descriptor: number;
  readonly #isV6: boolean;
  readonly #addresses = Buffer.alloc(BATCH_SIZE * SOCKADDR.SIZE);
  readonly #controls = Buffer.alloc(BATCH_SIZE * CONTROL_OCTETS);
  readonly #hasControls: boolean;
  /** Referenced for the pointers that lead to them. */
  readonly vectors: readonly Buffer[];
  readonly #receiveHeaders = Buffer.alloc(BATCH_SIZE * MMSGHDR.SIZE);
  readonly #receiveWords: Int32Array;
  readonly #sendHeaders = Buffer.alloc(BATCH_SIZE * MMSGHDR.SIZE);
  readonly #sendWords: Int32Array;
  readonly #sendVectorWords: Int32Array;
  /** The headers from each slot on, for going on after one that could not be sent. */
  readonly #sendHeadersFrom: readonly Uint8Array[];
  #toSend = 0;

  constructor(descriptor: number, address: BindAddress) {
    this.#descriptor = descriptor;
    this.#isV6 = address.octets.length === 16;
    this.#hasControls = isWildcard(address);
    const receiveArea = Buffer.alloc(BATCH_SIZE * SLOT_OCTETS);
    const responseArea = Buffer.alloc(BATCH_SIZE * SLOT_OCTETS);
    this.received = slots(receiveArea);
    this.responses = slots(responseArea);
    const receiveVectors = vectors(receiveArea);
    const sendVectors = vectors(responseArea);
    this.vectors = [receiveVectors, sendVectors];
    this.#receiveWords = wordsOf(this.#receiveHeaders);
    this.#sendWords = wordsOf(this.#sendHeaders);
    this.#sendVectorWords = wordsOf(sendVectors);
    this.#linkHeaders(this.#receiveHeaders, receiveVectors);
    this.#linkHeaders(this.#sendHeaders, sendVectors);
    this.#sendHeadersFrom = Array.from({ length: BATCH_SIZE }, (_, slot) =>
      this.#sendHeaders.subarray(slot * MMSGHDR.SIZE),
    );
  }

  /**
   * Takes what is there, at most a batch.
   * @param wait whether to wait for the first datagram, as long as the socket's time-out
   * @returns how many came; 0 when none did
   * @throws with the system's error number when the socket is broken
   */
  receive(wait: boolean): number {
    this.#toSend = 0;
    if (this.#hasControls) this.#resetControls();
    const flags = wait ? MSG_WAITFORONE : MSG_DONTWAIT;
    const count = libc.recvmmsg(this.#descriptor, this.#receiveHeaders, BATCH_SIZE, flags, NO_BUFFER);
    if (count >= 0) return count;
    const error = koffi.errno();
    if (error === EAGAIN || error === EINTR) return 0;
    throw socketError("recvmmsg");
  }

  /** Octets of a slot's datagram. */
  lengthOf(slot: number): number {
    return this.#receiveWords[slot * (MMSGHDR.SIZE >> 2) + (MMSGHDR.LENGTH >> 2)]!;
  }

  /** Fills in who sent a slot's datagram. */
  readClient(slot: number, client: Client): void {
    const start = slot * SOCKADDR.SIZE + (this.#isV6 ? SOCKADDR.ADDRESS_V6 : SOCKADDR.ADDRESS_V4);
    client.addressOctets = this.#isV6 ? 16 : 4;
    for (let index = 0; index < client.addressOctets; index += 1)
      client.address[index] = this.#addresses[start + index]!;
  }

  /** What it takes to answer a slot's datagram later, copied. */
  envelopeOf(slot: number): Envelope {
    return {
      name: copyOf(this.#addresses, slot * SOCKADDR.SIZE, this.#isV6 ? SOCKADDR.OCTETS_V6 : SOCKADDR.OCTETS_V4),
      control: this.#hasControls ? copyOf(this.#controls, slot * CONTROL_OCTETS, CONTROL_OCTETS) : undefined,
      controlOctets: this.#receiveWords[(slot * MMSGHDR.SIZE + MMSGHDR.CONTROL_LENGTH) >> 2]!,
    };
  }

  /** Where the next response is to be written; `queue` then adds it. */
  get nextResponse(): DatagramView {
    return this.responses[this.#toSend]!;
  }

  /** Adds the response of `length` octets to what goes out, to the sender of a slot's datagram. */
  queue(slot: number, length: number): void {
    const from = slot * (MMSGHDR.SIZE >> 2);
    const to = this.#toSend * (MMSGHDR.SIZE >> 2);
    // The sender's address, and the address of ours that it wrote to, stand where the kernel put them.
    for (let word = MMSGHDR.NAME >> 2; word < MMSGHDR.IOV >> 2; word += 1) {
      this.#sendWords[to + word] = this.#receiveWords[from + word]!;
    }
    if (this.#hasControls) {
      for (let word = MMSGHDR.CONTROL >> 2; word < (MMSGHDR.CONTROL >> 2) + 4; word += 1) {
        this.#sendWords[to + word] = this.#receiveWords[from + word]!;
      }
      // IPv4's structure carries the interface first; the route back is the routing table's to find.
      if (!this.#isV6) this.#controls.writeInt32LE(0, slot * CONTROL_OCTETS + CONTROL_DATA);
    }
    this.#sendVectorWords[this.#toSend * (IOVEC.SIZE >> 2) + (IOVEC.LENGTH >> 2)] = length;
    this.#toSend += 1;
  }

  /** Sends what was queued. A response that the kernel does not take is lost, as any datagram may be. */
  send(): void {
    for (let sent = 0; sent < this.#toSend; ) {
      const count = libc.sendmmsg(this.#descriptor, this.#sendHeadersFrom[sent]!, this.#toSend - sent, 0);
      if (count > 0) sent += count;
      else if (koffi.errno() !== EINTR) sent += 1;
    }
  }

  #linkHeaders(headers: Buffer, vectorArea: Buffer): void {
    const addresses = koffi.address(this.#addresses);
    const controls = koffi.address(this.#controls);
    const iovs = koffi.address(vectorArea);
    for (let slot = 0; slot < BATCH_SIZE; slot += 1) {
      const header = slot * MMSGHDR.SIZE;
      headers.writeBigUInt64LE(addresses + BigInt(slot * SOCKADDR.SIZE), header + MMSGHDR.NAME);
      headers.writeUInt32LE(this.#isV6 ? SOCKADDR.OCTETS_V6 : SOCKADDR.OCTETS_V4, header + MMSGHDR.NAME_LENGTH);
      headers.writeBigUInt64LE(iovs + BigInt(slot * IOVEC.SIZE), header + MMSGHDR.IOV);
      headers.writeBigUInt64LE(1n, header + MMSGHDR.IOV_COUNT);
      if (!this.#hasControls) continue;
      headers.writeBigUInt64LE(controls + BigInt(slot * CONTROL_OCTETS), header + MMSGHDR.CONTROL);
      headers.writeBigUInt64LE(BigInt(CONTROL_OCTETS), header + MMSGHDR.CONTROL_LENGTH);
    }
  }

  /** The kernel writes over the room that it was given with what it used. */
  #resetControls(): void {
    for (let slot = 0; slot < BATCH_SIZE; slot += 1) {
      this.#receiveWords[(slot * MMSGHDR.SIZE + MMSGHDR.CONTROL_LENGTH) >> 2] = CONTROL_OCTETS;
    }
  }
}

/** Who sent a datagram, and which of our addresses it came to; plain data, for another thread. */
export interface Envelope {
  /** `struct sockaddr`. */
  readonly name: Uint8Array;
  /** The control message with our address, where the socket is bound to all of them. */
  readonly control: Uint8Array | undefined;
  readonly controlOctets: number;
}

/** Answers a datagram from any thread. What the kernel does not take is lost, as any datagram may be. */
export function sendDatagram(descriptor: number, octets: Uint8Array, envelope: Envelope): void {
  const { control, controlOctets } = envelope;
  const name = Buffer.from(envelope.name);
  const payload = Buffer.from(octets);
  const vector = Buffer.alloc(IOVEC.SIZE);
  vector.writeBigUInt64LE(koffi.address(payload), IOVEC.BASE);
  vector.writeBigUInt64LE(BigInt(payload.length), IOVEC.LENGTH);
  const header = Buffer.alloc(MMSGHDR.SIZE);
  header.writeBigUInt64LE(koffi.address(name), MMSGHDR.NAME);
  header.writeUInt32LE(name.length, MMSGHDR.NAME_LENGTH);
  header.writeBigUInt64LE(koffi.address(vector), MMSGHDR.IOV);
  header.writeBigUInt64LE(1n, MMSGHDR.IOV_COUNT);
  const ownAddress = control && Buffer.from(control);
  if (ownAddress) {
    // As in `queue`: the route back is the routing table's to find.
    if (name.length === SOCKADDR.OCTETS_V4) ownAddress.writeInt32LE(0, CONTROL_DATA);
    header.writeBigUInt64LE(koffi.address(ownAddress), MMSGHDR.CONTROL);
    header.writeBigUInt64LE(BigInt(controlOctets), MMSGHDR.CONTROL_LENGTH);
  }
  libc.sendmmsg(descriptor, header, 1, MSG_DONTWAIT);
}

function copyOf(source: Buffer, start: number, octets: number): Uint8Array {
  return Uint8Array.prototype.slice.call(source, start, start + octets);
}

function slots(area: Buffer): DatagramView[] {
  return Array.from({ length: BATCH_SIZE }, (_, slot) => {
    const start = area.byteOffset + slot * SLOT_OCTETS;
    return {
      octets: new Uint8Array(area.buffer, start, SLOT_OCTETS),
      words: new Int32Array(area.buffer, start, SLOT_OCTETS >> 2),
    };
  });
}

function vectors(area: Buffer): Buffer {
  const base = koffi.address(area);
  const filled = Buffer.alloc(BATCH_SIZE * IOVEC.SIZE);
  for (let slot = 0; slot < BATCH_SIZE; slot += 1) {
    filled.writeBigUInt64LE(base + BigInt(slot * SLOT_OCTETS), slot * IOVEC.SIZE + IOVEC.BASE);
    filled.writeBigUInt64LE(BigInt(SLOT_OCTETS), slot * IOVEC.SIZE + IOVEC.LENGTH);
  }
  return filled;
}

function wordsOf(buffer: Buffer): Int32Array {
  return new Int32Array(buffer.buffer, buffer.byteOffset, buffer.length >> 2);
}
