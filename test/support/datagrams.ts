import { createSocket } from "node:dgram";
import { isIPv6 } from "node:net";

export interface ExchangeOptions {
  /** How often the query is sent at most. */
  readonly sendings?: number;
  /** Between two sendings, and after the last one. */
  readonly everyMs?: number;
  /** Takes answers from the address that was asked only. */
  readonly connected?: boolean;
}

/**
 * Sends a query until an answer comes: a busy machine loses datagrams, and is late.
 * @returns the first answer's octets
 */
export function exchangeDatagram(
  query: Uint8Array,
  { host, port }: { readonly host: string; readonly port: number },
  { sendings = 30, everyMs = 1_000, connected = false }: ExchangeOptions = {},
): Promise<Buffer> {
  const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
  return new Promise<Buffer>((resolve, reject) => {
    let sent = 0;
    const send = () => {
      if (sent === sendings) reject(new Error(`no answer from ${host}:${port} by UDP`));
      else if (connected) socket.send(query);
      else socket.send(query, port, host);
      sent += 1;
    };
    // Sendings are counted: where this process itself is held up, an answer that is there is found between two of them.
    const again = setInterval(send, everyMs);
    socket.once("close", () => clearInterval(again));
    socket.on("message", resolve);
    // Nobody listens there yet.
    socket.on("error", () => {});
    if (connected) socket.connect(port, host, send);
    else send();
  }).finally(() => socket.close());
}
