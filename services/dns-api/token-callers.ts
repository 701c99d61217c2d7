import type { KeyRing } from "../core/key-ring.ts";
import { recentMap } from "../core/recent-map.ts";
import { forbidden, type Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { hashToken, TOKEN_PREFIX } from "../operations/dns/tokens.ts";
import type { Clock } from "../platform/clock.ts";
import { isInBlocks } from "../platform/lookups/address-blocks.ts";
import { SharedLookups } from "../platform/lookups/shared-lookups.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import { findTokenCaller, noteUse, type TokenCaller } from "../store/dns/tokens.ts";

/** Uses of so many tokens are remembered, so that each is written down but once a minute. */
const MOST_USES = 10_000;
const MINUTE_MS = 60_000;

export interface TokenSurroundings {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly observe: Observe;
}

/** Who calls with tokens. */
export class TokenCallers {
  readonly #surroundings: TokenSurroundings;
  readonly #lookups = new SharedLookups<TokenCaller | undefined>();
  /** When the use of a token was last written down, in milliseconds, by its id. */
  readonly #noted = recentMap<number, number>(MOST_USES);

  constructor(surroundings: TokenSurroundings) {
    this.#surroundings = surroundings;
  }

  /** Refuses what is no token alike, and of one that is good tells who may hear it why it is not good now or from there. */
  async find(token: string, clientAddress: string): Promise<Result<DnsCaller, Refusal>> {
    const { db, keyRing } = this.#surroundings;
    if (!token.startsWith(TOKEN_PREFIX)) return refuse({ kind: "unauthenticated" });
    const hash = hashToken(keyRing, token);
    const found = await this.#lookups.find(hash.toString("latin1"), () => findTokenCaller(db, hash));
    return found ? this.admit(found, clientAddress) : refuse({ kind: "unauthenticated" });
  }

  /** The caller, unless its token is over or not for requests from there; notes the use. */
  admit({ caller, expiresAt }: TokenCaller, clientAddress: string): Result<DnsCaller, Refusal> {
    const { id, name, policy } = caller.token;
    const now = this.#surroundings.clock.nowMs();
    // What is no time and not null fails here: it opens nothing.
    if (expiresAt !== null && !(expiresAt.getTime() > now)) {
      return refuse(forbidden("token-over", { token: name, time: expiresAt.toISOString() }));
    }
    if (policy.networks && !isInBlocks(clientAddress, policy.networks)) {
      return refuse(forbidden("token-networks", { token: name, address: clientAddress }));
    }
    if (now - (this.#noted.get(id) ?? 0) >= MINUTE_MS) {
      this.#noted.set(id, now);
      this.#note(id, clientAddress, now);
    }
    return ok(caller);
  }

  /** Nobody waits for it: a request is answered whether or not its token's last use could be written down. */
  #note(id: number, address: string, now: number): void {
    const { db, observe } = this.#surroundings;
    noteUse(db, id, address, new Date(now)).catch((err: unknown) =>
      observe({ kind: "token-use-not-noted", level: "warn", err }),
    );
  }
}
