import { createSecureContext, type SecureContext } from "node:tls";
import type { KeyRing } from "../core/key-ring.ts";
import { recentMap } from "../core/recent-map.ts";
import { TLS_SERVER } from "../platform/certificate.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { findServedCertificate } from "../store/mail/instances/host-certificates.ts";

/** A new certificate is served after so long at most; one that is gone, too, unless the database cannot be asked. */
const KEPT_MS = 10_000;
/** Names that strangers ask for are remembered as well. */
const MOST_KEPT = 10_000;
/** No host has a longer name. */
const MOST_CHARACTERS = 253;

interface Kept {
  readonly context: Promise<SecureContext | undefined>;
  readonly untilMs: number;
}

/** The certificates of hosts of sender domains, by the name that a client asks for (RFC 6066 §3). */
export class HostCertificates {
  readonly #db: Db;
  readonly #keyRing: KeyRing;
  readonly #observe: Observe;
  readonly #kept = recentMap<string, Kept>(MOST_KEPT);

  constructor(db: Db, keyRing: KeyRing, observe: Observe) {
    this.#db = db;
    this.#keyRing = keyRing;
    this.#observe = observe;
  }

  /** @returns undefined for a name that has none of its own */
  find(serverName: string): Promise<SecureContext | undefined> {
    const host = serverName.toLowerCase().replace(/\.$/, "");
    if (host.length > MOST_CHARACTERS || !/^[a-z0-9_.-]+$/.test(host)) return Promise.resolve(undefined);
    const kept = this.#kept.get(host);
    if (kept !== undefined && performance.now() < kept.untilMs) return kept.context;
    const context = this.#read(host).catch((err: unknown) => {
      this.#observe({ kind: "host-certificate-not-read", level: "warn", host, err });
      return kept?.context;
    });
    this.#kept.set(host, { context, untilMs: performance.now() + KEPT_MS });
    return context;
  }

  async #read(host: string): Promise<SecureContext | undefined> {
    const found = await findServedCertificate(this.#db, this.#keyRing, host);
    return found && createSecureContext({ ...found, ...TLS_SERVER });
  }
}
