import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../package-folder.ts";

/** How sender domains are kept (config/domain-upkeep.json). */
export interface DomainUpkeepPolicy {
  /** Between two looks at what a domain publishes. */
  readonly checkSeconds: number;
  /** Between two looks for a new key that name servers do not all have yet. */
  readonly newKeySeconds: number;
  /** For so long a key stays published that nothing is signed with any more. */
  readonly keepOldKeyDays: number;
  /** Of hosts of sender domains. */
  readonly certificates: {
    /** Orders within 24 hours: of the deployment, and of one instance. */
    readonly perDay: number;
    readonly perInstanceAndDay: number;
    /** After the first failure, and after any number. */
    readonly retrySeconds: number;
    readonly mostRetrySeconds: number;
    /** The domain's checklist tells of one that ends sooner and could not be renewed. */
    readonly warnDays: number;
    /** For so long a proof is waited for at all name servers, and how often is looked. */
    readonly seenSeconds: number;
    readonly lookSeconds: number;
  };
}

export const upkeepPolicy: DomainUpkeepPolicy = JSON.parse(
  readFileSync(join(packageFolder, "config", "domain-upkeep.json"), "utf8"),
);
