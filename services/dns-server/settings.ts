import { hkdfSync, randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { secretsOf } from "../core/secret-box.ts";
import type { Config } from "../platform/config.ts";
import { TCP_IDLE_SECONDS } from "./listen-tcp.ts";
import type { PipelineSettings } from "./pipeline.ts";
import { createRateLimitTable } from "./rate-limit.ts";

/** What the pipelines of all threads are set up with. */
export function pipelineSettings(config: Config, secret: string): PipelineSettings {
  const { dns, limitLoopback } = config;
  return {
    identity: { version: dns.version, id: dns.serverId },
    edns: {
      nsid: Buffer.from(dns.nsid ?? anonymousServerId(secret)),
      // Servers that share the secret accept each other's cookies (RFC 9018 §5).
      cookieSecret: derive(secret, "dns cookies"),
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
function anonymousServerId(secret: string): string {
  return Buffer.from(derive(secret, `dns nsid ${hostname()}`))
    .toString("hex")
    .slice(0, 16);
}

function derive(secret: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", secretsOf(secret)[0], "", purpose, 16));
}
