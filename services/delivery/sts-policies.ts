import { ok, type Result, refuse } from "../core/result.ts";
import type { Db } from "../platform/db.ts";
import type { Observe } from "../platform/observation.ts";
import type { LookUpTexts } from "../platform/txt-lookup.ts";
import { findStsPolicy, keepStsPolicy } from "../store/mail/sts-policies.ts";
import { readStsPolicy, readStsRecord, type StsPolicy } from "./mta-sts.ts";

export interface StsSurroundings {
  readonly db: Db;
  readonly lookUpTexts: LookUpTexts;
  /** Fetches a policy file over HTTPS with a valid certificate, following no redirect (RFC 8461 §3.3). */
  fetchPolicy(url: string): Promise<Result<string, string>>;
  readonly observe: Observe;
}

/** The policy in force for a domain, or undefined. */
export type FindPolicy = (domain: string) => Promise<Pick<StsPolicy, "mode" | "mx"> | undefined>;

const RECHECK_SECONDS = 3_600;
const MOST_ABSENT = 10_000;

/**
 * Finds MTA-STS policies: kept ones for as long as they say, compared with the DNS every hour. A new one that cannot
 * be had leaves the kept one in force, so that an attacker gains nothing by being in the way (RFC 8461 §5.1).
 */
export function makeFindPolicy(surroundings: StsSurroundings): FindPolicy {
  const { db, lookUpTexts, observe } = surroundings;
  /** Domains without a policy, and until when that is believed. */
  const absent = new Map<string, number>();

  return async (domain) => {
    if ((absent.get(domain) ?? 0) > performance.now()) return undefined;
    const kept = await findStsPolicy(db, domain);
    if (kept && kept.ageSeconds < RECHECK_SECONDS) return kept;
    const policyId = readStsRecord(await lookUpTexts(`_mta-sts.${domain}`));
    if (policyId === undefined) return kept ?? noteAbsence(domain);
    const fetched = await fetchPolicy(domain);
    if (fetched.ok) {
      await keepStsPolicy(db, domain, { ...fetched.value, policyId });
      return fetched.value;
    }
    observe({ kind: "sts-policy-not-read", level: "info", domain, reason: fetched.error });
    return kept ?? noteAbsence(domain);
  };

  async function fetchPolicy(domain: string): Promise<Result<StsPolicy, string>> {
    const text = await surroundings.fetchPolicy(`https://mta-sts.${domain}/.well-known/mta-sts.txt`);
    if (!text.ok) return text;
    const policy = readStsPolicy(text.value);
    return policy.ok ? ok(policy.value) : refuse(policy.error);
  }

  function noteAbsence(domain: string): undefined {
    if (absent.size >= MOST_ABSENT) absent.clear();
    absent.set(domain, performance.now() + RECHECK_SECONDS * 1_000);
  }
}
