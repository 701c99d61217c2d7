import type { Db } from "../../../platform/postgres/db.ts";

/** An MTA-STS policy as it was fetched. */
interface KeptStsPolicy {
  readonly policyId: string;
  readonly mode: "enforce" | "testing" | "none";
  readonly mx: readonly string[];
  /** Seconds since it was last compared with the record in the DNS. */
  readonly ageSeconds: number;
}

/** The policy of a domain, while it is valid. */
export async function findStsPolicy(db: Db, domain: string): Promise<KeptStsPolicy | undefined> {
  const row = await db("sts_policies")
    .where({ domain })
    .whereRaw("expires_at > now()")
    .first("policy_id", "mode", "mx", db.raw("extract(epoch from now() - checked_at)::float8 as age_seconds"));
  return row && { policyId: row.policy_id, mode: row.mode, mx: row.mx, ageSeconds: row.age_seconds };
}

export async function keepStsPolicy(
  db: Db,
  domain: string,
  policy: Omit<KeptStsPolicy, "ageSeconds"> & { readonly maxAgeSeconds: number },
): Promise<void> {
  await db("sts_policies")
    .insert({
      domain,
      policy_id: policy.policyId,
      mode: policy.mode,
      mx: policy.mx,
      expires_at: db.raw("now() + make_interval(secs => ?)", [policy.maxAgeSeconds]),
      checked_at: db.fn.now(),
    })
    .onConflict("domain")
    .merge();
}
