import type { KeyRing } from "../core/key-ring.ts";
import type { ContentScanner } from "../operations/mail/content-scan.ts";
import type { CredentialPlaces } from "../operations/mail/credential-places.ts";
import type { Clock } from "../platform/clock.ts";
import type { Config } from "../platform/config/config.ts";
import type { TurnLimits } from "../platform/fair-turns.ts";
import type { Resolver } from "../platform/lookups/resolver.ts";
import type { Db } from "../platform/postgres/db.ts";

/** What the operations of the mail API work with. */
export interface MailServices {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly config: Config;
  readonly clock: Clock;
  readonly resolver: Resolver;
  readonly places: CredentialPlaces;
  readonly content: ContentScanner;
  /** How many large sends are stored at a time; as `SendQueue` has it where absent. */
  readonly largeSends?: TurnLimits;
}
