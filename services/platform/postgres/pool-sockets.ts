import { Socket } from "node:net";

/** The sockets of a pool, those of connections that are being made among them. */
export class PoolSockets {
  readonly #open = new Set<Socket>();
  #isGivenUp = false;

  /** The socket of the next connection, for the driver, which connects it at once. */
  readonly make = (): Socket => {
    const socket = new Socket();
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
    if (this.#isGivenUp) setImmediate(end, socket);
    return socket;
  };

  /** What waits for an answer fails as where the server is gone, and so does whatever is asked from now on. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#open.forEach(end);
  }
}

function end(socket: Socket): void {
  socket.destroy(new Error("Connection terminated: it is waited for no longer"));
}
