import { request } from "node:http";

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}

/** Calls an API as its clients do, bodies on GET and DELETE included (fetch cannot send those). */
export function callApi(
  method: string,
  url: string,
  headers: Readonly<Record<string, string>>,
  body?: unknown,
): Promise<ApiAnswer> {
  const payload = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method,
      agent: false, // a connection for each call: servers are restarted under the tests
      headers: {
        ...(payload === undefined
          ? {}
          : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(payload) }),
        ...headers,
      },
    });
    outgoing.on("error", reject);
    outgoing.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const isJson = String(response.headers["content-type"]).includes("json");
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: isJson && text !== "" ? JSON.parse(text) : text,
        });
      });
    });
    outgoing.end(payload);
  });
}
