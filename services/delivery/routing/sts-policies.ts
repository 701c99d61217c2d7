import type { AppliedSts, StsFailure } from "../../core/mail/reports/tls-session.ts";
import { type RecentMap, recentMap } from "../../core/recent-map.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { LookUpTexts } from "../../platform/lookups/txt-lookup.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findStsPolicy, keepStsPolicy } from "../../store/mail/queue/sts-policies.ts";
import { readStsPolicy, readStsRecord, type StsPolicy } from "./mta-sts.ts";

interface StsSurroundings {
  readonly db: Db;
  readonly lookUpTexts: LookUpTexts;
  /** Fetches a policy file over HTTPS with a valid certificate, following no redirect (RFC 8461 §3.3). */
  fetchPolicy(url: string): Promise<Result<string, Sentence>>;
  readonly observe: Observe;
}

/** The policy in force for a domain; undefined where it announces none. */
export type FindPolicy = (domain: string) => Promise<AppliedSts | undefined>;

const RECHECK_SECONDS = 3_600;
/** After a comparison that came to nothing (RFC 8461 §3.3). */
const RETRY_SECONDS = 300;
const MOST_NOTED = 10_000;

/**
 * Finds MTA-STS policies: kept ones for as long as they say, compared with the DNS every hour. A new one that cannot
 * be had leaves the kept one in force, so that an attacker gains nothing by being in the way (RFC 8461 §5.1).
 */
export function makeFindPolicy(surroundings: StsSurroundings): FindPolicy {
  const { db, lookUpTexts, observe } = surroundings;
  /** Domains without a policy, and those whose policy could not be compared, and until when that is believed. */
  const absent = recentMap<string, number>(MOST_NOTED);
  const failures = recentMap<string, StsFailure>(MOST_NOTED);
  const uncompared = recentMap<string, number>(MOST_NOTED);
  const underWay = new Map<string, ReturnType<FindPolicy>>();

  // The lanes of a destination ask together.
  return (domain) => {
    const look = underWay.get(domain) ?? find(domain).finally(() => underWay.delete(domain));
    underWay.set(domain, look);
    return look;
  };

  async function find(domain: string): ReturnType<FindPolicy> {
    if (isNoted(absent, domain)) return withoutPolicy(failures.get(domain));
    const kept = await findStsPolicy(db, domain);
    if (kept && (kept.ageSeconds < RECHECK_SECONDS || isNoted(uncompared, domain))) return kept;
    const policyId = readStsRecord(await lookUpTexts(`_mta-sts.${domain}`));
    if (policyId === undefined) return noteFailure(domain, kept, undefined);
    const fetched = await fetchPolicy(domain);
    if (fetched.ok) {
      await keepStsPolicy(db, domain, { ...fetched.value, policyId });
      return fetched.value;
    }
    const { reason, failure } = fetched.error;
    observe({ kind: "sts-policy-not-read", level: "info", domain, reason });
    return noteFailure(domain, kept, failure);
  }

  async function fetchPolicy(domain: string): Promise<Result<StsPolicy, NotRead>> {
    const text = await surroundings.fetchPolicy(`https://mta-sts.${domain}/.well-known/mta-sts.txt`);
    if (!text.ok) {
      const isCertificate = text.error.code === "certificate";
      const failure = isCertificate ? "sts-webpki-invalid" : "sts-policy-fetch-error";
      return refuse({ reason: text.error.message, failure });
    }
    const policy = readStsPolicy(text.value);
    return policy.ok ? ok(policy.value) : refuse({ reason: policy.error, failure: "sts-policy-invalid" });
  }

  function noteFailure(
    domain: string,
    kept: AppliedSts | undefined,
    failure: StsFailure | undefined,
  ): AppliedSts | undefined {
    if (kept !== undefined) {
      note(uncompared, domain, RETRY_SECONDS);
      return kept;
    }
    note(absent, domain, RECHECK_SECONDS);
    if (failure === undefined) failures.delete(domain);
    else failures.set(domain, failure);
    return withoutPolicy(failure);
  }
}

/** Why a policy that is announced could not be had: for people, and for reports. */
interface NotRead {
  readonly reason: string;
  readonly failure: StsFailure;
}

function withoutPolicy(failure: StsFailure | undefined): AppliedSts | undefined {
  return failure && { mode: "none", mx: [], failure };
}

function isNoted(notes: RecentMap<string, number>, domain: string): boolean {
  return (notes.get(domain) ?? 0) > performance.now();
}

function note(notes: RecentMap<string, number>, domain: string, seconds: number): void {
  notes.set(domain, performance.now() + seconds * 1_000);
}
