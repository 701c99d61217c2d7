import koffi from "koffi";

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
const POLLIN = 1;

/** Layout of `struct sockaddr_in` and `struct sockaddr_in6`. */
export const SOCKADDR = { SIZE: 32, PORT: 2, ADDRESS_V4: 4, ADDRESS_V6: 8, OCTETS_V4: 16, OCTETS_V6: 28 };
/** Layout of `struct pollfd`. */
const POLLFD = { SIZE: 8, EVENTS: 4, RETURNED: 6 };
const RECEIVE_BUFFER_OCTETS = 8 * 1024 * 1024;

/** koffi takes a buffer for a pointer. */
type Call = (...values: (number | Uint8Array)[]) => number;

/** Finds the C library's calls in this very process. */
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

/** The C library's calls; each returns −1 for an error, which `koffi.errno()` then has. */
export const libc = bindCalls();

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

/** Whether the address stands for all of the host's. */
export function isWildcard({ octets }: BindAddress): boolean {
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

/** What the system said to the last call. */
export function socketError(call: string): Error {
  const number = koffi.errno();
  const [name = String(number)] = Object.entries(koffi.os.errno).find(([, value]) => value === number) ?? [];
  return Object.assign(new Error(`${call}: ${name}`), { code: name });
}
