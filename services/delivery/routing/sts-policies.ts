import { type RecentMap, recentMap } from "../../core/recent-map.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { LookUpTexts } from "../../platform/lookups/txt-lookup.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findStsPolicy, keepStsPolicy } from "../../store/mail/queue/sts-policies.ts";
import { readStsPolicy, readStsRecord, type StsPolicy } from "./mta-sts.ts";

export interface StsSurroundings {
  readonly db: Db;
  readonly lookUpTexts: LookUpTexts;
  /** Fetches a policy file over HTTPS with a valid certificate, following no redirect (RFC 8461 §3.3). */
  fetchPolicy(url: string): Promise<Result<string, Sentence>>;
  readonly observe: Observe;
}

/** The policy in force for a domain, or undefined. */
export type FindPolicy = (domain: string) => Promise<Pick<StsPolicy, "mode" | "mx"> | undefined>;

const RECHECK_SECONDS = 3_600;
/** After a comparison that came to nothing (RFC 8461 §3.3). */
const RETRY_SECONDS = 300;
const MOST_NOTED = 10_000;
/** RFC 8461 §3.3; what is kept is read with every session. */
const MOST_CHARACTERS = 65_536;

/**
 * Finds MTA-STS policies: kept ones for as long as they say, compared with the DNS every hour. A new one that cannot
 * be had leaves the kept one in force, so that an attacker gains nothing by being in the way (RFC 8461 §5.1).
 */
export function makeFindPolicy(surroundings: StsSurroundings): FindPolicy {
  const { db, lookUpTexts, observe } = surroundings;
  /** Domains without a policy, and those whose policy could not be compared, and until when that is believed. */
  const absent = recentMap<string, number>(MOST_NOTED);
  const uncompared = recentMap<string, number>(MOST_NOTED);
  const underWay = new Map<string, ReturnType<FindPolicy>>();

  // The lanes of a destination ask together.
  return (domain) => {
    const look = underWay.get(domain) ?? find(domain).finally(() => underWay.delete(domain));
    underWay.set(domain, look);
    return look;
  };

  async function find(domain: string): ReturnType<FindPolicy> {
    if (isNoted(absent, domain)) return undefined;
    const kept = await findStsPolicy(db, domain);
    if (kept && (kept.ageSeconds < RECHECK_SECONDS || isNoted(uncompared, domain))) return kept;
    const policyId = readStsRecord(await lookUpTexts(`_mta-sts.${domain}`));
    if (policyId === undefined) return noteFailure(domain, kept);
    const fetched = await fetchPolicy(domain);
    if (fetched.ok) {
      await keepStsPolicy(db, domain, { ...fetched.value, policyId });
      return fetched.value;
    }
    observe({ kind: "sts-policy-not-read", level: "info", domain, reason: fetched.error });
    return noteFailure(domain, kept);
  }

  async function fetchPolicy(domain: string): Promise<Result<StsPolicy, string>> {
    const text = await surroundings.fetchPolicy(`https://mta-sts.${domain}/.well-known/mta-sts.txt`);
    if (!text.ok) return refuse(text.error.message);
    if (text.value.length > MOST_CHARACTERS) return refuse("larger than 64 KiB");
    const policy = readStsPolicy(text.value);
    return policy.ok ? ok(policy.value) : refuse(policy.error);
  }

  function noteFailure<T>(domain: string, kept: T | undefined): T | undefined {
    if (kept === undefined) note(absent, domain, RECHECK_SECONDS);
    else note(uncompared, domain, RETRY_SECONDS);
    return kept;
  }
}

function isNoted(notes: RecentMap<string, number>, domain: string): boolean {
  return (notes.get(domain) ?? 0) > performance.now();
}

function note(notes: RecentMap<string, number>, domain: string, seconds: number): void {
  notes.set(domain, performance.now() + seconds * 1_000);
}
