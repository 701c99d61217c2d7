import type { KeyRing } from "../core/key-ring.ts";
import type { ContentScanner } from "../operations/mail/content-scan.ts";
import type { Clock } from "../platform/clock.ts";
import type { Config } from "../platform/config/config.ts";
import type { OpenPublicLook } from "../platform/lookups/authoritative-lookup.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { ServiceContext } from "../platform/service.ts";
import type { JobRunner } from "./jobs.ts";
import type { SignIn } from "./sign-in.ts";

/** What the console's operations work with. */
export interface ConsoleContext {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly config: Config;
  readonly clock: Clock;
  readonly observe: Observe;
  /** Where a sibling listens (see platform/service.ts). */
  readonly addressOf: ServiceContext["addressOf"];
  readonly signIn: SignIn;
  readonly jobs: JobRunner;
  /** Looks at what is sent from here. */
  readonly content: ContentScanner;
  /** What the world sees of sender domains. */
  readonly openLook: OpenPublicLook;
}
