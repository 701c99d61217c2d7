import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Requests that a client may have sent ahead of the one that is being answered. */
export const MOST_AHEAD = 32;

/**
 * Has the requests of a connection carried out one after the other. Node hands on all that a client has sent ahead, and
 * keeps their answers in memory until it is their turn (RFC 9112 §9.3.2).
 */
export class PipelinedRequests {
  /** What waits behind the request that is being answered. */
  readonly #ahead = new WeakMap<Socket, (() => void)[]>();

  /** @param handle called when all before it is answered; not at all when the connection ends before. */
  take({ socket }: IncomingMessage, response: ServerResponse, handle: () => void): void {
    const begin = () => {
      response.once("close", () => this.#goOn(socket));
      handle();
    };
    const waiting = this.#ahead.get(socket);
    if (waiting === undefined) {
      this.#ahead.set(socket, []);
      begin();
    } else if (waiting.length < MOST_AHEAD) waiting.push(begin);
    // Nobody sends so many who also reads.
    else socket.destroy();
  }

  #goOn(socket: Socket): void {
    const begin = socket.writable ? this.#ahead.get(socket)?.shift() : undefined;
    if (begin) begin();
    else if (socket.writable) this.#ahead.delete(socket);
  }
}
