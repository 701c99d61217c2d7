import { z } from "zod";
import { bySchema, readConfigFile } from "./config-file.ts";

const count = z.int().min(1);

/**
 * The content of config/domain-upkeep.json.
 * `checkSeconds`: between two looks at what a domain publishes. `newKeySeconds`: between two looks for a new key that name
 * servers do not all have yet. `keepOldKeyDays`: for so long a key stays published that nothing is signed with any more.
 * `certificates`, of hosts of sender domains: `perDay`, `perInstanceAndDay`: orders within 24 hours, of the deployment and of
 * one instance. `retrySeconds`, `mostRetrySeconds`: after the first failure, and after any number. `warnDays`: the domain's
 * checklist tells of one that ends sooner and could not be renewed. `seenSeconds`, `lookSeconds`: for so long a proof is
 * waited for at all name servers, and how often is looked.
 */
const upkeepFile = z.strictObject({
  checkSeconds: count,
  newKeySeconds: count,
  keepOldKeyDays: count,
  certificates: z.strictObject({
    perDay: count,
    perInstanceAndDay: count,
    retrySeconds: count,
    mostRetrySeconds: count,
    warnDays: count,
    seenSeconds: count,
    lookSeconds: count,
  }),
});

export type DomainUpkeepPolicy = z.output<typeof upkeepFile>;

/** How sender domains are kept: config/domain-upkeep.json. */
export const upkeepPolicy: DomainUpkeepPolicy = readConfigFile("domain-upkeep.json", bySchema(upkeepFile));
