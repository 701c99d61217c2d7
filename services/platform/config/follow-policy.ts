import { z } from "zod";
import { bySchema, readConfigFile } from "./config-file.ts";

const count = z.int().min(1);
const bounds = z
  .strictObject({ least: count, most: count })
  .refine(({ least, most }) => least <= most, "least must not be above most");

/**
 * The content of config/follow.json.
 * `followersAZone`: aliases and pools that a zone has at most. `targetsACompany`: different names that those of a company
 * follow.
 * `alias.ttlSeconds`: between which the TTL of what an alias follows is held; it is asked for again when that is over.
 * `nodataSeconds`: the same where it has no address. `retrySeconds`: after a question that was not answered; it doubles up
 * to `most`. `nxdomain`: so many answers in a row, so far apart, that the name does not exist withdraw its addresses.
 * `questionsAtOnce`: names that wait for the resolver; where more are due, resellers take turns, and their companies.
 * `checks.retryMs`: between the tries that make a member down. `atOnce`, `aTenantAtOnce`, `aResellerAtOnce`: checks under
 * way, in all, of one company, and of all of a reseller. `aTenantASecond`, `aResellerASecond`, `anAddressASecond`: checks that
 * a process begins for one company, for all of a reseller, and of one address. `aTenantHas`: addresses of members of
 * one company that are checked at all. `newOfATenantMs`, `newOfAnAddressMs`: a process waits so long between the first
 * checks of two places, addresses with their ports, of one company and of one address: so nobody scans through us.
 * Addresses that the operator allows have no bound but the number.
 */
const followFile = z.strictObject({
  followersAZone: count,
  targetsACompany: count,
  alias: z.strictObject({
    ttlSeconds: bounds,
    nodataSeconds: bounds,
    retrySeconds: z.strictObject({ first: count, most: count }),
    nxdomain: z.strictObject({ confirmations: count, everySeconds: count }),
    questionsAtOnce: count,
  }),
  checks: z.strictObject({
    retryMs: count,
    atOnce: count,
    aTenantAtOnce: count,
    aResellerAtOnce: count,
    aTenantHas: count,
    aTenantASecond: count,
    aResellerASecond: count,
    newOfATenantMs: count,
    newOfAnAddressMs: count,
    anAddressASecond: count,
  }),
});

export type FollowPolicy = z.output<typeof followFile>;

/** How aliases and pools follow: config/follow.json. */
export const followPolicy: FollowPolicy = readConfigFile("follow.json", bySchema(followFile));
