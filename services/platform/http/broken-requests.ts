import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import type { HttpRefusal } from "./dialect.ts";

/**
 * How an API words a refusal; what is no API answers with the bare status.
 * @param path of the request, as far as it is known
 */
export type DescribeRefusal = (refusal: Refusal, path: string | undefined) => HttpRefusal;

/** So many header fields a request may have: browsers behind a chain of proxies send half of them. */
export const MOST_HEADER_FIELDS = 100;

/**
 * For `maxHeadersCount` of a server: Node drops what is beyond it silently, so one more is kept than there may be, and
 * {@link hasTooManyFields} sees it.
 */
export const KEPT_HEADER_FIELDS = MOST_HEADER_FIELDS + 1;

/** @param rawHeaders names and values by turns; the pseudo-headers of HTTP/2 are no fields */
export function hasTooManyFields(rawHeaders: readonly string[]): boolean {
  if (rawHeaders.length <= 2 * MOST_HEADER_FIELDS) return false;
  const fields = rawHeaders.filter((text, index) => index % 2 === 0 && !text.startsWith(":"));
  return fields.length > MOST_HEADER_FIELDS;
}

/** For a client to take the answer, and to close. */
const LINGER_MS = 2_000;

const REASONS: Readonly<Record<BrokenStatus, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  413: "Content Too Large",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
  501: "Not Implemented",
};

/**
 * Answers what Node refuses before any handler sees it (RFC 9112 §3.2, RFC 9110 §15.5) as the API answers everything
 * else: requests that are no HTTP, that take too long, or whose headers are too large; and CONNECT, which is for proxies
 * (RFC 9110 §9.3.6).
 */
export function answerBrokenRequests(server: Server, describe: DescribeRefusal | undefined): void {
  const unfinished = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on("request", ({ socket }, response) => {
    const responses = unfinished.get(socket) ?? new Set();
    unfinished.set(socket, responses.add(response));
    response.once("close", () => responses.delete(response));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    // Of pipelined requests, the response whose turn it is has the socket.
    const current = [...(unfinished.get(socket) ?? [])].find((one) => one.socket === socket);
    // Half an answer is on its way, or nobody is there any more.
    if (error.code === "ECONNRESET" || !socket.writable || current?.headersSent) {
      socket.destroy();
      return;
    }
    const status = STATUS_OF_ERROR.get(error.code) ?? 400;
    endWith(socket, status, wordsOf(status, current && pathOf(current.req), describe));
  });
  server.on("connect", (_request, socket) => {
    socket.on("error", () => {}).resume();
    // What came before it on the same connection has the turn to answer.
    if ((unfinished.get(socket)?.size ?? 0) > 0) socket.destroy();
    else endWith(socket, 501, wordsOf(501, undefined, describe));
  });
}

function endWith(socket: Duplex, status: BrokenStatus, { headers, body }: Words): void {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${REASONS[status]}\r\n${fields.join("")}\r\n${body}`);
  // Who leaves his side open would keep the place of what he began to ask.
  const lingering = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(lingering));
}

/**
 * Answers 431 to a request of more than {@link MOST_HEADER_FIELDS}, before any of them is read; and 400 to one of HTTP/1.1
 * without Host, and to any with two of them or one that names no host: whoever stands between would take it for another
 * host's (RFC 9112 §3.2). Node asks for the first alone, and without a body.
 * So with two Authorization fields, of which Node takes the first, and others may take the last (RFC 9110 §5.3).
 * So with a Transfer-Encoding other than chunked, and with any in HTTP/1.0, which knows none (RFC 9112 §6.1).
 * A target that names its host itself has it put into Host, whatever that said (§3.2.2), and becomes a path.
 * @returns whether it was answered
 */
export function answerBrokenHead(
  request: IncomingMessage,
  response: ServerResponse,
  describe: DescribeRefusal | undefined,
): boolean {
  const refuse = (status: BrokenStatus) => {
    answerBroken(request, response, status, describe);
    return true;
  };
  if (hasTooManyFields(request.rawHeaders)) return refuse(431);
  const [host, ...others] = request.headersDistinct.host ?? [];
  const coding = request.headers["transfer-encoding"];
  const [, authority, path = ""] = ABSOLUTE_FORM.exec(request.url!) ?? [];
  const isSound =
    (request.headersDistinct.authorization ?? []).length < 2 &&
    (coding === undefined || (request.httpVersion === "1.1" && coding.toLowerCase() === "chunked")) &&
    (host === undefined ? request.httpVersion !== "1.1" : others.length === 0 && HOST.test(host)) &&
    (authority === undefined || (authority !== "" && HOST.test(authority)));
  if (!isSound) return refuse(400);
  if (authority !== undefined) {
    request.headers.host = authority;
    request.url = path.startsWith("/") ? path : `/${path}`;
  }
  return false;
}

/** RFC 9110 §7.2, RFC 3986 §3.2.2: an address in brackets or a name, which may be empty, and a port. */
const HOST = /^(?:\[[\da-f:.v]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*)(?::\d*)?$/i;
/** RFC 9112 §3.2.2: a scheme, the authority, and the rest of the URI. */
const ABSOLUTE_FORM = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)(.*)$/i;

const STATUS_OF_ERROR: ReadonlyMap<string | undefined, BrokenStatus> = new Map([
  ["ERR_HTTP_REQUEST_TIMEOUT", 408],
  ["HPE_CHUNK_EXTENSIONS_OVERFLOW", 413],
  ["HPE_HEADER_OVERFLOW", 431],
]);

/** What the refusals say, by their status. */
export const BROKEN_REQUESTS: Readonly<Record<400 | 408 | 413 | 417 | 431 | 501, Refusal>> = {
  400: unacceptable("http-malformed"),
  408: unacceptable("http-too-slow"),
  413: { kind: "too-large" },
  417: unacceptable("http-expectation"),
  431: unacceptable("http-fields-too-large"),
  501: unacceptable("http-no-proxy"),
};

type BrokenStatus = keyof typeof BROKEN_REQUESTS;

/** Answers a request for what is wrong with its HTTP, and closes its connection. */
export function answerBroken(
  request: IncomingMessage,
  response: ServerResponse,
  status: BrokenStatus,
  describe: DescribeRefusal | undefined,
): void {
  const { headers, body } = wordsOf(status, pathOf(request), describe);
  response.writeHead(status, headers).end(body);
}

interface Words {
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body: string;
}

function wordsOf(status: BrokenStatus, path: string | undefined, describe: DescribeRefusal | undefined): Words {
  const refusal = describe?.(BROKEN_REQUESTS[status], path);
  const body = refusal ? JSON.stringify(refusal.body) : "";
  const headers = { Connection: "close", "Content-Length": Buffer.byteLength(body) };
  return { headers: refusal ? { ...headers, "Content-Type": JSON_TYPE, ...refusal.headers } : headers, body };
}

const JSON_TYPE = "application/json; charset=utf-8";

/** The path of a request, whose target may name its host too. */
function pathOf({ url }: IncomingMessage): string {
  const [, , rest] = ABSOLUTE_FORM.exec(url!) ?? [];
  return (rest ?? url!).split(/[?#]/, 1)[0]!;
}
