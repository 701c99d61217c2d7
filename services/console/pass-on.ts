import type { IncomingMessage } from "node:http";
import { PassThrough, type Readable } from "node:stream";
import { DELEGATION_SCHEME, type Delegation, makeDelegationToken } from "../core/delegation-token.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { type Method, RawReply, type Request } from "../platform/http/endpoint.ts";
import { BROKEN_OFF } from "../platform/http/request-body.ts";
import { REQUEST_ID_HEADER } from "../platform/http/request-id.ts";
import { traceHeaders } from "../platform/observability/tracing.ts";
import type { AddressName } from "../platform/service.ts";
import type { AdminCaller } from "./caller.ts";
import type { ConsoleContext } from "./context.ts";

/** Where a request goes on to. */
export interface Destination {
  /** In whose name, and to what it is confined. */
  readonly delegation: Delegation;
  readonly method: Method;
  /** Below the API's base, as it goes on the wire: still percent-encoded, query included. */
  readonly path: string;
}

const APIS = {
  dns: { address: "dns_api", base: "/api/v1" },
  mail: { address: "mail_api", base: "/v1" },
} as const satisfies { [audience in Delegation["audience"]]: { address: AddressName; base: string } };

/** What of a request and of its answer concerns the API, rather than the connection or the session. */
const PASSED_ON = ["accept", "content-type", "content-length", "content-encoding", "idempotency-key"] as const;
const PASSED_BACK = ["retry-after", "allow", "accept-encoding", "content-disposition"] as const;

/**
 * Sends a request on to one of the two APIs, its unread body octet by octet, with a token in the place of a key.
 * @param body what to send in the place of the request's own, as JSON
 */
export async function passOn(
  { keyRing, clock, addressOf, observe }: ConsoleContext,
  { incoming, headers }: Pick<Request<AdminCaller, unknown, unknown>, "incoming" | "headers">,
  { delegation, method, path }: Destination,
  body?: object,
): Promise<Result<RawReply, Refusal>> {
  const { address, base } = APIS[delegation.audience];
  const url = new URL(`${await addressOf(address)}${base}/${path}`);
  // Dot segments would lead to another operation than the one that was judged.
  if (url.pathname + url.search !== `${base}/${path}`) return refuse({ kind: "unknown-path" });
  const hasBody = headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
  const own = body === undefined ? undefined : JSON.stringify(body);
  const token = makeDelegationToken(keyRing, delegation, clock.nowMs());
  // Nothing of its own body is there to send on any more.
  if (own === undefined && incoming.destroyed) return BROKEN_OFF;
  const given = new AbortController();
  incoming.once("close", () => {
    if (!incoming.complete) given.abort();
  });
  try {
    const { request: send } = await import("undici");
    const answer = await send(url, {
      method,
      headers: {
        ...(own === undefined ? pick(headers, PASSED_ON) : { "content-type": "application/json" }),
        ...pick(headers, [REQUEST_ID_HEADER]),
        ...traceHeaders(),
        authorization: `${DELEGATION_SCHEME} ${token}`,
      },
      body: own ?? (hasBody ? detached(incoming) : null),
      signal: given.signal,
    });
    const type = String(answer.headers["content-type"] ?? "application/octet-stream");
    const reply: Readable = answer.body;
    // A visitor who leaves in the middle destroys the reply, which then fails once more: that is nobody's failure.
    reply.on("error", () => {});
    return ok(new RawReply(type, reply, answer.statusCode, pick(answer.headers, PASSED_BACK)));
  } catch (err) {
    observe({ kind: "api-away", level: "warn", address, err });
    return refuse({ kind: "unavailable" });
  }
}

/**
 * A request's body as a stream of its own. An API that refuses early has no use for the rest of it, and undici then
 * destroys what it sends from: the visitor's connection is not to go with that, for the answer has yet to be sent.
 */
function detached(incoming: IncomingMessage): Readable {
  const body = new PassThrough();
  // What is left is read and thrown away: a client that still sends does not see the answer before it has sent all.
  body.once("close", () => incoming.unpipe(body).resume());
  return incoming.pipe(body);
}

function pick(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  names: readonly string[],
): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const name of names) {
    const value = headers[name];
    if (value !== undefined) picked[name] = String(value);
  }
  return picked;
}
