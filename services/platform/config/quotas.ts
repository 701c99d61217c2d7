import { z } from "zod";
import { QUOTA_NAMES, type QuotaLimits, type QuotaName } from "../../core/dns/quotas.ts";
import { bySchema, readConfigFile } from "./config-file.ts";

/**
 * The content of config/quotas.json: what a company and a reseller may have unless the database says otherwise for one of
 * them. `octets` are of the zone database (`PALOMAR_DNS_MEMORY` in all); a name that is absent has no bound.
 */
const limits = z
  .partialRecord(z.enum(QUOTA_NAMES), z.int().min(0))
  .refine(({ records_per_change: most }) => most !== 0, { error: "a change may make one record at least" });
const quotaFile = z.strictObject({
  // ACLs are a reseller's.
  company: limits.refine(({ acls }) => acls === undefined, { error: "companies have no ACLs" }),
  reseller: limits,
});

export type QuotaKind = keyof z.output<typeof quotaFile>;

/** The defaults: config/quotas.json. */
export const quotaDefaults: Readonly<Record<QuotaKind, QuotaLimits>> = readConfigFile(
  "quotas.json",
  bySchema(quotaFile),
);

/** The quotas that there are for a company or a reseller. */
export function quotaNamesOf(kind: QuotaKind): readonly QuotaName[] {
  return kind === "reseller" ? QUOTA_NAMES : QUOTA_NAMES.filter((name) => name !== "acls");
}
