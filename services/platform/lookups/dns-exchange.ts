import { createSocket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import type { HostPort } from "../config/config-values.ts";

/**
 * Sends a DNS query by UDP, once, over a socket of its own. It is connected, so the system drops what others send.
 * @param options.fits tells the answer from what else may come; the first that fits is taken
 * @returns undefined when none comes in time, or there is no way to the server
 */
export function exchangeUdp(
  { host, port }: HostPort,
  query: Uint8Array,
  { timeoutMs, fits = () => true }: { readonly timeoutMs: number; readonly fits?: (octets: Uint8Array) => boolean },
): Promise<Uint8Array | undefined> {
  const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
  return new Promise<Uint8Array | undefined>((resolve) => {
    const late = setTimeout(() => resolve(undefined), timeoutMs);
    socket.once("close", () => clearTimeout(late));
    socket.on("message", (octets) => {
      if (fits(octets)) resolve(octets);
    });
    socket.on("error", () => resolve(undefined));
    // As a callback it would be called with the error as well, and send over a socket that is not connected.
    socket.once("connect", () => socket.send(query));
    socket.connect(port, host);
  }).finally(() => socket.close());
}

/**
 * The same by TCP, where two octets of length stand before each message (RFC 1035 §4.2.2).
 * @param options.timeoutMs for the whole of it: a server that says an octet at a time has no longer
 */
export function exchangeTcp(
  { host, port }: HostPort,
  query: Uint8Array,
  { timeoutMs }: { readonly timeoutMs: number },
): Promise<Uint8Array | undefined> {
  const socket = connect(port, host);
  return new Promise<Uint8Array | undefined>((resolve) => {
    let received = Buffer.alloc(0);
    const late = setTimeout(() => resolve(undefined), timeoutMs);
    socket.once("close", () => clearTimeout(late));
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => resolve(undefined));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2) return;
      const length = received.readUInt16BE(0);
      if (received.length >= 2 + length) resolve(received.subarray(2, 2 + length));
    });
    socket.write(Buffer.concat([Buffer.of(query.length >>> 8, query.length & 0xff), query]));
  }).finally(() => socket.destroy());
}
