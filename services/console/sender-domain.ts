import { ancestorOf, parseDomainName } from "../core/dns/name.ts";
import { joinPriority, parseRdata } from "../core/dns/rdata/rdata.ts";
import { TYPE } from "../core/dns/rr-types.ts";
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
} from "../core/mail/sender-records.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Resolver } from "../platform/resolver.ts";
import type { LookUpTexts } from "../platform/txt-lookup.ts";
import { findZoneOf } from "../store/dns/console-zones.ts";
import { readRecordsAt } from "../store/dns/records.ts";
import type { RecordDraft } from "../store/dns/zone-edit.ts";
import { notifyZones } from "../store/dns/zone-notices.ts";
import { changeRecords } from "../store/dns/zone-records.ts";
import type { Zone } from "../store/dns/zones.ts";
import type { InstanceDomain } from "../store/mail/instances.ts";
import type { ConsoleContext } from "./context.ts";

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
  { config }: Pick<ConsoleContext, "config">,
  { domain, dkimSelector, dkimRecord }: InstanceDomain,
  { texts, resolver }: SenderLookups,
): Promise<SenderCheck[]> {
  const { bounceDomain, hostname } = config;
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

/** The zone of this deployment that answers for a domain: not one that delegates it away. */
export async function hostingZone({ db }: Pick<ConsoleContext, "db">, domain: string): Promise<Zone | undefined> {
  const name = parseDomainName(domain);
  const zone = name.ok ? await findZoneOf(db, {}, name.value) : undefined;
  if (!name.ok || zone === undefined) return undefined;
  const depth = name.value.labelCount - zone.apex.labelCount;
  const belowApex = Array.from({ length: depth }, (_, labels) =>
    ancestorOf(name.value, name.value.labelCount - labels),
  );
  const isDelegated = (await readRecordsAt(db, zone.id, belowApex)).some(({ type }) => type === TYPE.NS);
  return isDelegated ? undefined : zone;
}

/** What came of creating records. */
export interface RecordsCreated {
  readonly created: readonly ExpectedRecord[];
  /** Records that are there with another content: somebody has to decide. */
  readonly conflicts: readonly string[];
}

/**
 * Creates, in the zones that this deployment hosts, what the checks miss. A name that has such a record with another
 * content is left alone and reported.
 */
export async function createMissingRecords(
  context: Pick<ConsoleContext, "db" | "secret" | "clock">,
  checks: readonly SenderCheck[],
  actor: string,
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
      const added = await addRecord(context, zone, expected, actor);
      if (added.ok) created.push(expected);
      // It is stored already, and not to be seen yet: look-ups of a moment ago may be remembered.
      else if (added.error.kind !== "unacceptable" || added.error.text !== "duplicated record") return added;
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

async function addRecord(
  { db, secret, clock }: Pick<ConsoleContext, "db" | "secret" | "clock">,
  zone: Zone,
  expected: ExpectedRecord,
  actor: string,
): Promise<Result<void, Refusal>> {
  const draft = draftOf(expected);
  if (!draft.ok) return draft;
  const target = { scope: {}, apex: zone.apex, domain: zone.name, actor, signer: { secret, clock } };
  const edits = { creations: [draft.value], modifications: [], deletionIds: [] };
  const changed = await changeRecords(db, target, edits, new Date(clock.nowMs()));
  if (!changed.ok) return changed;
  await notifyZones(db, [zone.id]);
  return ok(undefined);
}

function draftOf({ name, type, value, preference }: ExpectedRecord): Result<RecordDraft, Refusal> {
  const owner = parseDomainName(name);
  if (!owner.ok) return refuse(unacceptable(`${name}: ${owner.error.message}`));
  const code = TYPE[type];
  const text = type === "MX" ? joinPriority(code, String(preference), `${value}.`) : value;
  const rdata = parseRdata(code, text, owner.value, "value");
  if (!rdata.ok) return refuse(unacceptable(`${name}: ${rdata.error.message}`));
  return ok({ owner: owner.value, type: code, ttl: undefined, rdata: rdata.value });
}
