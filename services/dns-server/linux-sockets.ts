import koffi from "koffi";
import type { Client } from "./client.ts";

/** Constants of the Linux kernel's interface that the sockets need. */
const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_RCVBUF = 8;
const SO_REUSEPORT = 15;
const SO_RCVTIMEO = 20;
const SO_RCVBUFFORCE = 33;
const IPPROTO_IP = 0;
const IP_PKTINFO = 8;
const IP_MTU_DISCOVER = 10;
const IPPROTO_IPV6 = 41;
const IPV6_MTU_DISCOVER = 23;
const IPV6_V6ONLY = 26;
const IPV6_RECVPKTINFO = 49;
/** Datagrams leave whole or in fragments of the interface's size; forged path MTUs are not believed (RFC 9715 §3.1). */
const PMTUDISC_OMIT = 5;
const MSG_DONTWAIT = 0x40;
const MSG_WAITFORONE = 0x10000;
const POLLIN = 1;
const EINTR = 4;
const EAGAIN = 11;

/** Layout of `struct mmsghdr`, `struct iovec`, `struct sockaddr_in6` and `struct pollfd` on 64-bit Linux. */
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
const SOCKADDR = { SIZE: 32, PORT: 2, ADDRESS_V4: 4, ADDRESS_V6: 8, OCTETS_V4: 16, OCTETS_V6: 28 };
const POLLFD = { SIZE: 8, EVENTS: 4, RETURNED: 6 };
/** Room for one control message with the address that a packet was sent to; its data begins behind a 16-octet head. */
const CONTROL_OCTETS = 40;
const CONTROL_DATA = 16;

/** Datagrams taken and given to the kernel in one call. */
export const BATCH_SIZE = 64;
/** Room for each; longer queries than our payload size are none that anybody sends. */
const SLOT_OCTETS = 1280;
const RECEIVE_BUFFER_OCTETS = 8 * 1024 * 1024;

/** koffi takes a buffer for a pointer. */
type Call = (...values: (number | Uint8Array)[]) => number;

/** The C library's calls, found in this very process. */
function bindCalls(): {
  [name in "socket" | "setsockopt" | "bind" | "close" | "poll" | "recvmmsg" | "sendmmsg"]: Call;
} {
  const library = koffi.load(null);
  return {
    socket: library.func("int socket(int, int, int)"),
    setsockopt: library.func("int setsockopt(int, int, int, void *, uint)"),
    bind: library.func("int bind(int, void *, uint)"),
    close: library.func("int close(int)"),
    poll: library.func("int poll(void *, ulong, int)"),
    recvmmsg: library.func("int recvmmsg(int, void *, uint, int, void *)"),
    sendmmsg: library.func("int sendmmsg(int, void *, uint, int)"),
  };
}

const libc = bindCalls();
/** For arguments that are null pointers. */
const NO_BUFFER = null as unknown as Uint8Array;

/** A local address in the form that the sockets use. */
export interface BindAddress {
  /** 4 or 16 octets in network order. */
  readonly octets: Uint8Array;
  readonly port: number;
}

/** Opens a UDP socket that shares its port with the other threads'. @throws with the system's error number */
export function openUdpSocket(address: BindAddress, receiveTimeoutMs: number): number {
  const isV6 = address.octets.length === 16;
  const descriptor = libc.socket(isV6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) throw socketError("socket");
  try {
    setOption(descriptor, SOL_SOCKET, SO_REUSEPORT, 1);
    // Beyond the system's limit where we may (CAP_NET_ADMIN), else up to it.
    if (!trySetOption(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_OCTETS)) {
      trySetOption(descriptor, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_OCTETS);
    }
    if (isV6) setOption(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (isV6) trySetOption(descriptor, IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_OMIT);
    else trySetOption(descriptor, IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_OMIT);
    if (isWildcard(address)) {
      if (isV6) setOption(descriptor, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
      else setOption(descriptor, IPPROTO_IP, IP_PKTINFO, 1);
    }
    setReceiveTimeout(descriptor, receiveTimeoutMs);
    const name = socketAddress(address);
    if (libc.bind(descriptor, name, isV6 ? SOCKADDR.OCTETS_V6 : SOCKADDR.OCTETS_V4) < 0) throw socketError("bind");
    return descriptor;
  } catch (error) {
    libc.close(descriptor);
    throw error;
  }
}

export function closeSocket(descriptor: number): void {
  libc.close(descriptor);
}

/** Waits until one of several sockets has something; `isReadable` then tells which. */
export class Poll {
  readonly #entries: Buffer;
  readonly #count: number;

  constructor(descriptors: readonly number[]) {
    this.#count = descriptors.length;
    this.#entries = Buffer.alloc(descriptors.length * POLLFD.SIZE);
    for (const [index, descriptor] of descriptors.entries()) {
      this.#entries.writeInt32LE(descriptor, index * POLLFD.SIZE);
      this.#entries.writeInt16LE(POLLIN, index * POLLFD.SIZE + POLLFD.EVENTS);
    }
  }

  wait(timeoutMs: number): void {
    if (libc.poll(this.#entries, this.#count, timeoutMs) <= 0) {
      for (let index = 0; index < this.#count; index += 1) {
        this.#entries.writeInt16LE(0, index * POLLFD.SIZE + POLLFD.RETURNED);
      }
    }
  }

  isReadable(index: number): boolean {
    return this.#entries.readInt16LE(index * POLLFD.SIZE + POLLFD.RETURNED) !== 0;
  }
}

/**
 * The buffers of one socket: what the kernel fills and what it sends from, laid out once, with the pointers between
 * them. All memory that pointers lead to is referenced from here.
 */
export class DatagramBatch {
  /** Each slot's datagram as it came. */
  readonly received: readonly Uint8Array[];
  /** Where each slot's response is written. */
  readonly responses: readonly Uint8Array[];
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

  /** Where the next response is to be written; `queue` then adds it. */
  get nextResponse(): Uint8Array {
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

function slots(area: Buffer): Uint8Array[] {
  return Array.from(
    { length: BATCH_SIZE },
    (_, slot) => new Uint8Array(area.buffer, area.byteOffset + slot * SLOT_OCTETS, SLOT_OCTETS),
  );
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

function isWildcard({ octets }: BindAddress): boolean {
  return octets.every((octet) => octet === 0);
}

function socketAddress({ octets, port }: BindAddress): Buffer {
  const isV6 = octets.length === 16;
  const name = Buffer.alloc(SOCKADDR.SIZE);
  name.writeUInt16LE(isV6 ? AF_INET6 : AF_INET, 0);
  name.writeUInt16BE(port, SOCKADDR.PORT);
  name.set(octets, isV6 ? SOCKADDR.ADDRESS_V6 : SOCKADDR.ADDRESS_V4);
  return name;
}

function setReceiveTimeout(descriptor: number, timeoutMs: number): void {
  const value = Buffer.alloc(16);
  value.writeBigInt64LE(BigInt(Math.floor(timeoutMs / 1000)), 0);
  value.writeBigInt64LE(BigInt((timeoutMs % 1000) * 1000), 8);
  if (libc.setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, value, value.length) < 0) throw socketError("setsockopt");
}

function setOption(descriptor: number, level: number, option: number, value: number): void {
  if (!trySetOption(descriptor, level, option, value)) throw socketError("setsockopt");
}

function trySetOption(descriptor: number, level: number, option: number, value: number): boolean {
  const octets = Buffer.alloc(4);
  octets.writeInt32LE(value);
  return libc.setsockopt(descriptor, level, option, octets, octets.length) === 0;
}

function socketError(call: string): Error {
  const number = koffi.errno();
  const [name = String(number)] = Object.entries(koffi.os.errno).find(([, value]) => value === number) ?? [];
  return Object.assign(new Error(`${call}: ${name}`), { code: name });
}
