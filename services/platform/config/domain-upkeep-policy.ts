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
}

export const upkeepPolicy: DomainUpkeepPolicy = JSON.parse(
  readFileSync(join(packageFolder, "config", "domain-upkeep.json"), "utf8"),
);
