import type { Server } from "node:http";
import type { Socket } from "node:net";

/** So many octets a second a client takes at least of what is there for it. */
export const LEAST_OCTETS_PER_SECOND = 2_048;

/** How often in the time that a client may be behind it is looked how far it is. */
const LOOKS = 12;

interface Reader {
  /** Octets that it had taken at the last look. */
  taken: number;
  /** Octets that it should have taken beside them. */
  behind: number;
}

/**
 * Ends connections whose clients take answers too slowly: those that are further behind the least pace than by `mostMs`. Time
 * in which nothing is there for a client, because an answer is still being made, is not its own.
 * @param event at which the server has a connection that speaks HTTP
 */
export function endSlowReaders(server: Server, event: "connection" | "secureConnection", mostMs: number): void {
  const readers = new Map<Socket, Reader>();
  server.on(event, (socket: Socket) => {
    readers.set(socket, { taken: 0, behind: 0 });
    socket.once("close", () => readers.delete(socket));
  });
  const everyMs = mostMs / LOOKS;
  const leastOctets = (LEAST_OCTETS_PER_SECOND * everyMs) / 1_000;
  const looks = setInterval(() => {
    for (const [socket, reader] of readers) {
      const { writableLength: left, bytesWritten } = socket;
      const taken = bytesWritten - left;
      reader.behind += (left > 0 ? leastOctets : 0) - (taken - reader.taken);
      reader.behind = Math.max(0, reader.behind);
      reader.taken = taken;
      if (reader.behind >= leastOctets * LOOKS) socket.destroy();
    }
  }, everyMs).unref();
  server.once("close", () => clearInterval(looks));
}
