import { createHmac, randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { KeyRing } from "../core/key-ring.ts";
import type { Config } from "../platform/config/config.ts";
import { TCP_IDLE_SECONDS } from "./listeners/listen-tcp.ts";
import type { PipelineSettings } from "./pipeline.ts";
import { createRateLimitTable } from "./rate-limit.ts";

/** A key of SipHash-2-4. */
const COOKIE_SECRET_OCTETS = 16;

/** What the pipelines of all threads are set up with. */
export function pipelineSettings(config: Config, keyRing: KeyRing): PipelineSettings {
  const { dns, limitLoopback } = config;
  return {
    identity: { version: dns.version, id: dns.serverId },
    edns: {
      nsid: Buffer.from(dns.nsid ?? anonymousServerId(keyRing)),
      // Servers that share the key accept each other's cookies (RFC 9018 §5).
      cookieSecret: new Uint8Array(keyRing.keyFor("dns-cookie").export().subarray(0, COOKIE_SECRET_OCTETS)),
      tcpIdleSeconds: TCP_IDLE_SECONDS,
    },
    rateLimit: {
      answersPerSecond: dns.rrlPerSecond,
      allow: dns.rrlAllow,
      limitLoopback,
      seed: randomBytes(4).readInt32LE(),
      table: createRateLimitTable(),
    },
  };
}

/** Tells servers of a cluster apart without telling strangers their names (RFC 5001 §3.1). */
function anonymousServerId(keyRing: KeyRing): string {
  return createHmac("sha256", keyRing.keyFor("dns-nsid")).update(hostname()).digest("hex").slice(0, 16);
}
