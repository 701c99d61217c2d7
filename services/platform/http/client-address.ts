import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { makeIsInBlocks } from "../lookups/address-blocks.ts";

/** For services that count a proxy on their own machine among the trusted ones, whatever the configuration names. */
export const LOOPBACK_PROXIES = ["127.0.0.0/8", "::1/128"] as const;

/**
 * Tells who asks: the peer, or where the peer is a trusted proxy, whom it names in X-Forwarded-For; through several
 * such proxies, the last that is none of them. Nobody else is believed, since anybody can write that header.
 * @param trustedProxies address blocks in CIDR form, or single addresses
 */
export function makeClientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  if (trustedProxies.length === 0) return peerAddress;
  const isTrusted = makeIsInBlocks(trustedProxies);
  return (request) => {
    const forwarded = String(request.headers["x-forwarded-for"] ?? "").split(",");
    let client = peerAddress(request);
    while (isIP(client) && isTrusted(client)) {
      const named = forwarded.pop()?.trim() ?? "";
      if (!isIP(named)) break;
      client = named;
    }
    return client;
  };
}

function peerAddress(request: IncomingMessage): string {
  return request.socket.remoteAddress ?? "";
}
