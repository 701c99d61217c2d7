import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { isLoopback } from "../platform/http/limits.ts";

/**
 * Who asks: the peer, or whom a proxy on this machine names last in X-Forwarded-For. Nobody else is believed, since
 * anybody can write that header.
 */
export function clientAddress(request: IncomingMessage): string {
  const peer = request.socket.remoteAddress ?? "";
  const forwarded = request.headers["x-forwarded-for"];
  if (forwarded === undefined || !isLoopback(peer)) return peer;
  const last = String(forwarded).split(",").at(-1)?.trim() ?? "";
  return isIP(last) ? last : peer;
}
