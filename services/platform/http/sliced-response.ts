import { type IncomingMessage, ServerResponse } from "node:http";

/** Octets that are handed on at a time: what the client has not taken stays countable, and nothing is kept of the rest. */
export const SLICE_OCTETS = 16 * 1024;

/**
 * A response whose body leaves slice by slice, as the client takes it. As one it would be copied whole for each client that
 * does not read, by TLS or where it is a text.
 */
export class SlicedResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  override end(...parameters: unknown[]): this {
    const [body, encoding] = parameters;
    const octets = typeof body === "string" ? octetsOf(body, encoding) : body;
    if (!(octets instanceof Uint8Array) || octets.length <= SLICE_OCTETS) {
      return super.end(...(parameters as Parameters<ServerResponse["end"]>));
    }
    const done = parameters.find((one) => typeof one === "function");
    if (done !== undefined) this.once("finish", done as () => void);
    this.#sendFrom(octets, 0);
    return this;
  }

  #sendFrom(octets: Uint8Array, start: number): void {
    let at = start;
    while (octets.length - at > SLICE_OCTETS) {
      // The client has gone.
      if (this.destroyed) return;
      const slice = octets.subarray(at, at + SLICE_OCTETS);
      at += SLICE_OCTETS;
      if (this.write(slice)) continue;
      this.once("drain", () => this.#sendFrom(octets, at));
      return;
    }
    super.end(octets.subarray(at));
  }
}

/** @returns the text itself where it is no longer than a slice */
function octetsOf(text: string, encoding: unknown): string | Buffer {
  if (text.length * 3 <= SLICE_OCTETS) return text;
  return Buffer.from(text, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
}
