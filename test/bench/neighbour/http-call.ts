import { request } from "node:http";

export interface HttpCall {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The client's own address. */
  readonly from: string;
}

/** One call from an address of its own, with its answer read and forgotten but for the beginning. @returns status and text */
export function call({ method, url, headers = {}, body, from }: HttpCall): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method,
      agent: false,
      localAddress: from,
      headers: {
        "Content-Type": "application/json",
        ...(body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(body)) }),
        ...headers,
      },
    });
    outgoing.setTimeout(PATIENCE_MS, () => outgoing.destroy(Object.assign(new Error(), { code: "TIMEOUT" })));
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        if (text.length < KEPT_CHARACTERS) text += chunk.toString("latin1");
      });
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
    });
    outgoing.end(body);
  });
}

const PATIENCE_MS = 120_000;
const KEPT_CHARACTERS = 65_536;

/** What a call came to, with the beginning of what was said where it is no success. */
export function outcomeOf({ status, text }: { readonly status: number; readonly text: string }): string {
  return status === 200 ? "200" : `${status} ${text.slice(0, 80)}`;
}
