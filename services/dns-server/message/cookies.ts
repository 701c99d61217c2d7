import type { Client } from "./client.ts";
import type { Query } from "./query.ts";
import { SipHash24 } from "./siphash.ts";

/** RFC 9018 §4.2: version 1, three reserved octets, timestamp, hash. */
const SERVER_COOKIE_OCTETS = 16;
const CLIENT_COOKIE_OCTETS = 8;
/** Octets of a whole cookie as the server sends it. */
export const COOKIE_OCTETS = CLIENT_COOKIE_OCTETS + SERVER_COOKIE_OCTETS;
const VERSION = 1;
/** RFC 9018 §4.3. */
const MAX_AGE_SECONDS = 3600;
const MAX_AHEAD_SECONDS = 300;
const RENEW_AFTER_SECONDS = 1800;

/**
 * DNS cookies (RFC 7873) in the interoperable form (RFC 9018), so that servers which share the secret accept each
 * other's.
 */
export class Cookies {
  readonly #hash: SipHash24;
  /** Client cookie, version, reserved, timestamp, client address; then the hash. */
  readonly #input = new Uint8Array(CLIENT_COOKIE_OCTETS + 8 + 16);
  readonly #digest = new Uint8Array(8);

  /** @param secret 16 octets */
  constructor(secret: Uint8Array) {
    this.#hash = new SipHash24(secret);
  }

  /** Whether the query carries a server cookie of ours for this client that is neither too old nor ahead of time. */
  isValid(query: Query, client: Client, nowSeconds: number): boolean {
    if (query.cookieOctets !== COOKIE_OCTETS) return false;
    const { octets, cookieStart } = query;
    const server = cookieStart + CLIENT_COOKIE_OCTETS;
    if (octets[server] !== VERSION) return false;
    if (!isFresh(this.#ageSeconds(query, nowSeconds), MAX_AGE_SECONDS)) return false;
    for (let index = 0; index < COOKIE_OCTETS - 8; index += 1) this.#input[index] = octets[cookieStart + index]!;
    this.#digestFor(client);
    let difference = 0;
    for (let index = 0; index < 8; index += 1) difference |= this.#digest[index]! ^ octets[server + 8 + index]!;
    return difference === 0;
  }

  /** Writes the cookie that the client is to use from now on: its own again while that is young. */
  write(
    out: Uint8Array,
    to: number,
    query: Query,
    client: Client,
    request: { valid: boolean; nowSeconds: number },
  ): void {
    const { octets, cookieStart } = query;
    const kept = request.valid && isFresh(this.#ageSeconds(query, request.nowSeconds), RENEW_AFTER_SECONDS);
    const copied = kept ? COOKIE_OCTETS : CLIENT_COOKIE_OCTETS;
    for (let index = 0; index < copied; index += 1) out[to + index] = octets[cookieStart + index]!;
    if (kept) return;
    for (let index = 0; index < CLIENT_COOKIE_OCTETS; index += 1) this.#input[index] = octets[cookieStart + index]!;
    this.#input[8] = VERSION;
    this.#input.fill(0, 9, 12);
    for (let index = 0; index < 4; index += 1) this.#input[12 + index] = request.nowSeconds >>> (24 - 8 * index);
    this.#digestFor(client);
    for (let index = 8; index < 16; index += 1) out[to + index] = this.#input[index]!;
    for (let index = 0; index < 8; index += 1) out[to + 16 + index] = this.#digest[index]!;
  }

  #ageSeconds({ octets, cookieStart }: Query, nowSeconds: number): number {
    const at = cookieStart + CLIENT_COOKIE_OCTETS + 4;
    const issued = (octets[at]! << 24) | (octets[at + 1]! << 16) | (octets[at + 2]! << 8) | octets[at + 3]!;
    // RFC 1982 arithmetic, as RFC 9018 §4.3 asks for.
    return (nowSeconds - issued) | 0;
  }

  #digestFor({ address, addressOctets }: Client): void {
    for (let index = 0; index < addressOctets; index += 1) this.#input[16 + index] = address[index]!;
    this.#hash.hash(this.#input, { start: 0, end: 16 + addressOctets }, this.#digest, 0);
  }
}

function isFresh(ageSeconds: number, maxAgeSeconds: number): boolean {
  return ageSeconds <= maxAgeSeconds && ageSeconds >= -MAX_AHEAD_SECONDS;
}
