import {
  dkimMatches,
  dmarcNames,
  dmarcPolicy,
  type ExpectedRecord,
  expectedBounceMx,
  expectedBounceSpf,
  expectedDkim,
  expectedDmarc,
  expectedSpf,
  spfAllows,
  spfPolicies,
} from "../../core/mail/sender-records.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import type { Config } from "../../platform/config/config.ts";
import type { Resolver } from "../../platform/lookups/resolver.ts";
import type { LookUpTexts } from "../../platform/lookups/txt-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { InstanceDomain } from "../../store/mail/instances/instances.ts";
import { answersForDomain, hostingZone, type WriteZone } from "./domain-hosting.ts";

/** One point of the check-list. */
export interface SenderCheck {
  readonly name: "spf" | "dkim" | "dmarc" | "bounce";
  readonly expected: readonly ExpectedRecord[];
  /** What look-ups gave, as text. */
  readonly found: readonly string[];
  readonly ok: boolean;
}

/** The look-ups that the check-list needs. */
export interface SenderLookups {
  readonly texts: LookUpTexts;
  readonly resolver: Pick<Resolver, "resolveMx">;
}

/** Looks up what a sender domain and the bounce domain publish, and judges it. */
export async function checkSenderDomain(
  { bounceDomain, hostname }: Pick<Config, "bounceDomain" | "hostname">,
  { domain, dkimSelector, dkimRecord }: InstanceDomain,
  { texts, resolver }: SenderLookups,
): Promise<SenderCheck[]> {
  const dkim = expectedDkim(domain, dkimSelector, dkimRecord);
  const [spfTexts, dkimTexts, dmarcTexts, bounceTexts, bounceMx] = await Promise.all([
    texts(domain),
    texts(dkim.name),
    firstDmarc(texts, domain),
    texts(bounceDomain),
    resolver.resolveMx(bounceDomain),
  ]);
  const spfIsRight = spfAllows(spfTexts, bounceDomain, hostname);
  const exchanges = bounceMx.kind === "found" ? bounceMx.records : [];
  return [
    {
      name: "spf",
      expected: [expectedSpf(domain, bounceDomain, spfIsRight ? [] : spfTexts)],
      found: spfPolicies(spfTexts),
      ok: spfIsRight,
    },
    { name: "dkim", expected: [dkim], found: dkimTexts, ok: dkimMatches(dkimTexts, dkimRecord) },
    {
      name: "dmarc",
      expected: [expectedDmarc(domain)],
      found: dmarcTexts,
      // Signatures are made in the name of the sender domain itself, which both modes of alignment accept.
      ok: dmarcPolicy(dmarcTexts) !== undefined,
    },
    {
      name: "bounce",
      expected: [expectedBounceMx(bounceDomain, hostname), expectedBounceSpf(bounceDomain, hostname)],
      found: [...exchanges.map(({ preference, exchange }) => `${preference} ${exchange}`), ...spfPolicies(bounceTexts)],
      // RFC 7505: an empty name says that no mail is taken.
      ok: exchanges.some(({ exchange }) => exchange !== "") && spfPolicies(bounceTexts).length === 1,
    },
  ];
}

/** The texts of the nearest name that has a DMARC record (RFC 7489 §6.6.3). */
async function firstDmarc(texts: LookUpTexts, domain: string): Promise<readonly string[]> {
  for (const name of dmarcNames(domain)) {
    const found = (await texts(name)).filter((text) => /^v\s*=\s*DMARC1/.test(text));
    if (found.length > 0) return found;
  }
  return [];
}

/** What came of creating records. */
export interface RecordsCreated {
  readonly created: readonly ExpectedRecord[];
  /** Records that are there with another content: somebody has to decide. */
  readonly conflicts: readonly string[];
}

/**
 * Creates, in the zones that this deployment hosts, what the checks miss. A name that has such a record with another
 * content is left alone and reported, and so is a name below the domain that somebody else answers for.
 * @param wanted.domain the sender domain that the checks are about
 */
export async function createMissingRecords(
  context: { readonly db: Db },
  { domain, checks }: { readonly domain: string; readonly checks: readonly SenderCheck[] },
  write: WriteZone,
): Promise<Result<RecordsCreated, Refusal>> {
  const created: ExpectedRecord[] = [];
  const conflicts: string[] = [];
  for (const check of checks.filter((one) => !one.ok)) {
    for (const expected of check.expected) {
      const conflict = check.found.find((found) => isOfKind(found, expected));
      if (conflict !== undefined) {
        conflicts.push(`${expected.name} ${expected.type} is ${conflict}, wanted ${describe(expected)}`);
        continue;
      }
      const zone = await hostingZone(context, expected.name);
      if (!zone) continue;
      if (!(await answersForDomain(context, domain, zone))) {
        conflicts.push(`${expected.name} lies in a zone of somebody else`);
        continue;
      }
      const added = await write(zone, { creations: [expected], deletionIds: [], serial: undefined });
      if (added.ok) created.push(expected);
      // It is stored already, and not to be seen yet: look-ups of a moment ago may be remembered.
      else if (added.error.kind !== "unacceptable" || added.error.code !== "record-exists") return added;
    }
  }
  return ok({ created, conflicts });
}

/** Whether a record that was found stands where the expected one is to be. */
function isOfKind(found: string, { type, value }: ExpectedRecord): boolean {
  const isMx = /^\d+ /.test(found);
  if (type === "MX" || isMx) return isMx && type === "MX";
  return value.slice(0, 5).toLowerCase() === found.slice(0, 5).toLowerCase();
}

function describe({ value, preference }: ExpectedRecord): string {
  return preference === undefined ? value : `${preference} ${value}`;
}
