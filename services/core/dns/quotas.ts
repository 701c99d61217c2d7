import { type Refusal, unacceptable } from "../refusal.ts";
import { sentence } from "../sentences.ts";

/** What a company or a reseller may have or do so much of. A quota more is a name here, a number in config/quotas.json. */
export const QUOTA_NAMES = [
  "zones",
  "records",
  "octets",
  "signed_zones",
  "records_per_change",
  "changes_per_minute",
  "zone_files_in_work",
  "acls",
  "tokens",
] as const;
export type QuotaName = (typeof QUOTA_NAMES)[number];

/** How much of each is allowed; what is absent has no bound. */
export type QuotaLimits = Readonly<Partial<Record<QuotaName, number>>>;

/** What is counted with the zones. */
export const COUNTED_QUOTAS = ["zones", "signed_zones", "records", "octets"] as const;
export type CountedQuota = (typeof COUNTED_QUOTAS)[number];

/** How much of what is counted somebody has, or how much a change adds. */
export type Usage = Readonly<Record<CountedQuota, number>>;

export const NO_USAGE: Usage = { zones: 0, signed_zones: 0, records: 0, octets: 0 };

/** Whose quota it is, as sentences say it. */
export type QuotaHolder = { readonly reseller: string } | { readonly company: string };

/** The default with what differs for one holder. */
export function limitsOf(defaults: QuotaLimits, own: QuotaLimits): QuotaLimits {
  return { ...defaults, ...own };
}

/** The first quota that a change would exceed; what does not grow is never refused. */
export function findExceeded(limits: QuotaLimits, used: Usage, added: Usage): CountedQuota | undefined {
  return COUNTED_QUOTAS.find((name) => added[name] > 0 && used[name] + added[name] > (limits[name] ?? Infinity));
}

/** What is said of a change that needs more than is allowed. */
export function quotaExceeded(
  holder: QuotaHolder,
  quota: QuotaName,
  { allowed, used, wanted }: { readonly allowed: number; readonly used: number; readonly wanted: number },
): Refusal {
  const [[kind, name]] = Object.entries(holder) as [[string, string]];
  return unacceptable("quota-exceeded", { quota, holder: `${kind} ${name}`, allowed, used, wanted });
}

/** What is said of who does too much at a time: it may be done later. */
export function quotaExceededForNow(
  holder: QuotaHolder,
  quota: QuotaName,
  { allowed, retryAfterSeconds }: { readonly allowed: number; readonly retryAfterSeconds: number },
): Refusal {
  const [[kind, name]] = Object.entries(holder) as [[string, string]];
  return {
    kind: "rate-limited",
    retryAfterSeconds,
    ...sentence("quota-exceeded-for-now", { quota, holder: `${kind} ${name}`, allowed, seconds: retryAfterSeconds }),
  };
}

/** What a zone may hold beyond what it takes, so that most of its changes are charged to no row but its own. */
const MOST_RESERVED = { records: 64, octets: 16_384 } as const;

/** All zones together hold about this part of what was free at most. */
const RESERVED_PART = 8;

/**
 * How much more than it needs a zone is given, of records or octets.
 * @param free what is left when the zone has what it needs @param zones how many zones share it
 */
export function reserveOf(counted: "records" | "octets", free: number, zones: number): number {
  const fair = Math.floor(free / (RESERVED_PART * Math.max(1, zones)));
  return Math.max(0, Math.min(MOST_RESERVED[counted], fair));
}

/** Reads `name=value`; `default` for a value gives the holder the default again (null). */
export function readQuotaSetting(
  text: string,
  names: readonly QuotaName[],
): { readonly name: QuotaName; readonly value: number | null } | undefined {
  const [name, value, extra] = text.split("=");
  const known = names.find((one) => one === name);
  if (known === undefined || value === undefined || extra !== undefined) return undefined;
  if (value === "default") return { name: known, value: null };
  if (!/^\d{1,15}$/.test(value)) return undefined;
  // A change of no record at all is none.
  return known === "records_per_change" && Number(value) === 0 ? undefined : { name: known, value: Number(value) };
}
