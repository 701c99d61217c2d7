import { createHash } from "node:crypto";
import { parseDomainName, sameName } from "../../core/dns/name.ts";
import { TYPE, typeMnemonic } from "../../core/dns/rr-types.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import {
  isOfDeployment,
  type PresentRecords,
  type PublishedKey,
  planSetup,
  type SetupItem,
  type SetupQuestion,
  type SetupWants,
  setupQuestions,
  type Unserved,
} from "../../core/mail/domain-setup/domain-setup.ts";
import { STS_WITHDRAWN } from "../../core/mail/domain-setup/mta-sts.ts";
import { setupValue } from "../../core/mail/domain-setup/record-values.ts";
import { reportsToFormer } from "../../core/mail/domain-setup/tag-list.ts";
import { reportAddresses } from "../../core/mail/reports/report-addresses.ts";
import { conflict, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Config } from "../../platform/config/config.ts";
import type { OpenPublicLook } from "../../platform/lookups/authoritative-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { listFurtherKeys } from "../../store/mail/instances/dkim-keys.ts";
import {
  type DomainUpkeep,
  findServedStsPolicy,
  noteAgreement,
  postponeDomain,
} from "../../store/mail/instances/domain-upkeep.ts";
import { mayChangeZone } from "../../store/mail/instances/instance-companies.ts";
import type { InstanceDomain } from "../../store/mail/instances/instances.ts";
import { answersForDomain, hostingZone, type WriteZone, type ZoneRecord, type ZoneWrite } from "./domain-hosting.ts";
import { type Findings, questionKey, readFindings, readPublic, spfLookups } from "./public-records.ts";

export interface SetupSurroundings {
  readonly db: Db;
  readonly config: Pick<Config, "acmeDirectory" | "bounceDomain" | "hostname" | "trackingUrl">;
  readonly openLook: OpenPublicLook;
  readonly clock: Clock;
  /** Makes the addresses that reports about a domain go to. */
  readonly keyRing: KeyRing;
}

/** A sender domain, and how it is to be set up. */
export interface DomainToSetUp {
  readonly own: InstanceDomain;
  readonly upkeep: DomainUpkeep;
}

/**
 * By whose right a zone is changed. The operator's, or that of an instance's users: in zones of companies that gave leave,
 * and never in what is the deployment's. That an instance may send from a domain says nothing of whose its zone is: anybody
 * with a key makes zones of any name.
 */
export type SetupRight = "operator" | "instance";

export interface ProposedItem extends SetupItem {
  /** The zone hosted here that it would be written to; undefined: it has to be done elsewhere, or by somebody else. */
  readonly zone: string | undefined;
}

export interface SetupProposal {
  readonly items: readonly ProposedItem[];
  /** What agreeing to it refers to: another proposal has another one. */
  readonly fingerprint: string;
  /** Whether the domain lies in a zone of this deployment that the caller may change. */
  readonly mayWrite: boolean;
}

/** What is wanted of a domain, by its settings and keys. */
export async function wantsOf(
  { db, config, keyRing, clock }: Pick<SetupSurroundings, "db" | "config" | "keyRing" | "clock">,
  { own, upkeep }: DomainToSetUp,
  flatten: boolean,
): Promise<SetupWants> {
  const further = await listFurtherKeys(db, upkeep);
  const first: PublishedKey = { selector: own.dkimSelector, record: own.dkimRecord, state: "signing" };
  const { bounceDomain, hostname } = config;
  const target = trackingHost(config);
  const { dmarc, tls } = reportAddresses(keyRing, upkeep, { bounceDomain, tracking: "" });
  const { trackingHost: host } = upkeep;
  const sts = await stsOf(db, upkeep, new Date(clock.nowMs()));
  return {
    ...{ domain: own.domain, bounceDomain, hostname, flatten },
    keys: [first, ...further],
    reports: { dmarc: addressIn(dmarc), tls: upkeep.tlsReports ? addressIn(tls) : undefined },
    unserved: unservedParts(upkeep, target),
    tracking: host !== null && target !== undefined ? { host, target } : undefined,
    sts: sts && target !== undefined ? { ...sts, target } : undefined,
  };
}

/** The policy that is served for a domain; one that is withdrawn counts as long as no other instance has one for it. */
async function stsOf(
  db: Db,
  { domain, stsMode, stsExchangers, stsEndsAt }: DomainUpkeep,
  now: Date,
): Promise<Omit<NonNullable<SetupWants["sts"]>, "target"> | undefined> {
  if (stsMode !== null) {
    return stsExchangers.length > 0 ? { policy: { mode: stsMode, exchangers: stsExchangers } } : undefined;
  }
  if (stsEndsAt === null) return undefined;
  const served = await findServedStsPolicy(db, domain);
  return served && served.mode !== "none" ? undefined : { policy: STS_WITHDRAWN, isOver: stsEndsAt <= now };
}

function unservedParts(
  { domain, stsMode, stsExchangers, trackingHost }: DomainUpkeep,
  target: string | undefined,
): Unserved[] {
  const policyHost = stsMode === null ? null : `mta-sts.${domain}`;
  const hosts = [
    { part: "tracking" as const, name: trackingHost },
    { part: "mta-sts-host" as const, name: policyHost },
  ].flatMap(({ part, name }): Unserved[] =>
    name === null ? [] : [{ part, name, type: "CNAME", kind: "no-tracking-service" }],
  );
  if (target === undefined) return hosts;
  return policyHost === null || stsExchangers.length > 0
    ? []
    : [{ part: "mta-sts", name: `_mta-sts.${domain}`, type: "TXT", kind: "no-exchanger" }];
}

function addressIn(uri: string): string {
  return uri.slice("mailto:".length);
}

/** The name under which recipients reach the tracking service; undefined where there is no public one. */
function trackingHost({ trackingUrl }: Pick<Config, "trackingUrl">): string | undefined {
  return trackingUrl === null ? undefined : new URL(trackingUrl).hostname;
}

/** What would make a domain's mail aligned, signed and reported, as differences from what it has. Changes nothing. */
export async function proposeSetup(
  surroundings: SetupSurroundings,
  to: DomainToSetUp,
  { right, flatten = false }: { readonly right: SetupRight; readonly flatten?: boolean },
): Promise<SetupProposal> {
  const { proposal } = await propose(surroundings, to, { right, flatten });
  return proposal;
}

interface Place {
  readonly zone: Zone;
  /** Those at the names that are asked for. */
  readonly records: readonly StoredRecord[];
}

interface Proposed {
  readonly proposal: SetupProposal;
  readonly wants: SetupWants;
  /** By name: where the caller may write. */
  readonly places: ReadonlyMap<string, Place>;
}

async function propose(
  surroundings: SetupSurroundings,
  to: DomainToSetUp,
  { right, flatten }: { readonly right: SetupRight; readonly flatten: boolean },
): Promise<Proposed> {
  const wants = await wantsOf(surroundings, to, flatten);
  const questions = setupQuestions(wants);
  const places = await findPlaces(surroundings, { questions, upkeep: to.upkeep, right });
  const look = surroundings.openLook();
  const elsewhere = await readPublic(
    look,
    questions.filter(({ name }) => !places.has(name)),
  );
  const found: Findings = new Map([...elsewhere, ...readPlaces(places, questions)]);
  const items = (await planSetup(wants, readFindings(found), spfLookups(look))).map((item) => {
    const isOthers = isOfDeployment(item) && right !== "operator";
    return { ...item, zone: isOthers ? undefined : places.get(item.name)?.zone.name };
  });
  const mayWrite = places.has(wants.domain);
  return { proposal: { items, fingerprint: fingerprintOf(items), mayWrite }, wants, places };
}

/** The zones hosted here that the caller may change, with what they have at the names. */
async function findPlaces(
  { db }: SetupSurroundings,
  {
    questions,
    upkeep: { instanceId, domain },
    right,
  }: { readonly questions: readonly SetupQuestion[]; readonly upkeep: DomainUpkeep; readonly right: SetupRight },
): Promise<Map<string, Place>> {
  const places = new Map<string, Place>();
  for (const name of new Set(questions.map((question) => question.name))) {
    const zone = await hostingZone({ db }, name);
    const owner = parseDomainName(`${name}.`);
    if (zone === undefined || !owner.ok || !(await answersForDomain({ db }, domain, zone))) continue;
    if (right !== "operator" && !(await mayChangeZone(db, instanceId, zone.id))) continue;
    const records = await readRecordsAt(db, zone.id, [owner.value]);
    places.set(name, { zone, records: records.filter((record) => sameName(record.owner, owner.value)) });
  }
  return places;
}

function readPlaces(
  places: ReadonlyMap<string, Place>,
  questions: readonly SetupQuestion[],
): [string, PresentRecords][] {
  return questions.flatMap((question) => {
    const place = places.get(question.name);
    if (place === undefined) return [];
    const type = TYPE[question.type];
    const values = place.records.filter((record) => record.type === type).map(({ rdata }) => setupValue(type, rdata));
    const others = place.records.filter((record) => record.type !== type).map((record) => typeMnemonic(record.type));
    return [[questionKey(question), { values, answered: true, others: [...new Set(others)] }]];
  });
}

function isChange({ action, zone }: ProposedItem): boolean {
  return zone !== undefined && (action === "add" || action === "modify" || action === "remove");
}

function fingerprintOf(items: readonly ProposedItem[]): string {
  const changes = items
    .filter(isChange)
    .map(({ zone, name, type, action, before, after }) => [
      ...[zone, name, type, action],
      ...[before ?? null, after ?? null],
    ]);
  return createHash("sha256").update(JSON.stringify(changes)).digest("hex").slice(0, 16);
}

/** Who agrees, to what, and how zones are changed in his name. */
interface Agreement {
  readonly right: SetupRight;
  readonly flatten: boolean;
  readonly fingerprint: string;
  readonly login: string;
  readonly write: WriteZone;
}

/** What came of it. */
interface SetupWritten {
  readonly written: readonly ProposedItem[];
  /** Zones that refused their part. */
  readonly refused: readonly { readonly zone: string; readonly reason: Refusal }[];
}

/**
 * Writes what was proposed, zone by zone, each in one change; a zone that was changed since it was read refuses. From now on
 * the domain's keys in the zone that answers for it follow by themselves.
 * @returns refused when it is another proposal by now: somebody has to look again
 */
export async function agreeToSetup(
  surroundings: SetupSurroundings,
  to: DomainToSetUp,
  agreement: Agreement,
): Promise<Result<SetupWritten, Refusal>> {
  const { proposal, places } = await propose(surroundings, to, agreement);
  if (proposal.fingerprint !== agreement.fingerprint) {
    return refuse(conflict("setup-changed", { domain: to.own.domain }));
  }
  const done = await writeItems(proposal.items.filter(isChange), places, agreement.write);
  const home = places.get(to.own.domain);
  if (home !== undefined) {
    const agreed = { zoneId: home.zone.id, by: agreement.login, byOperator: agreement.right === "operator" };
    await noteAgreement(surroundings.db, to.upkeep, agreed);
  }
  await postponeDomain(surroundings.db, to.upkeep, new Date(0));
  return ok(done);
}

async function writeItems(
  items: readonly ProposedItem[],
  places: ReadonlyMap<string, Place>,
  write: WriteZone,
): Promise<SetupWritten> {
  const written: ProposedItem[] = [];
  const refused: { zone: string; reason: Refusal }[] = [];
  for (const zone of new Set(items.map((item) => item.zone!))) {
    const own = items.filter((item) => item.zone === zone);
    const first = places.get(own[0]!.name)!.zone;
    const outcome = await write(first, writeOf(own, places, first.soa.serial));
    if (outcome.ok) written.push(...own);
    else refused.push({ zone, reason: outcome.error });
  }
  return { written, refused };
}

function writeOf(items: readonly ProposedItem[], places: ReadonlyMap<string, Place>, serial: number): ZoneWrite {
  const creations = items.flatMap(({ name, type, action, after }): ZoneRecord[] => {
    if (action === "remove" || after === undefined) return [];
    if (type !== "MX") return [{ name, type, value: after }];
    const [preference, value = ""] = after.split(" ");
    return [{ name, type, value, preference: Number(preference) }];
  });
  const deletionIds = items.flatMap(({ name, type, action, before }) => {
    if (action === "add") return [];
    const isGone = (record: StoredRecord) =>
      record.type === TYPE[type] && setupValue(record.type, record.rdata) === before;
    return places
      .get(name)!
      .records.filter(isGone)
      .map(({ id }) => id);
  });
  return { creations, deletionIds, serial };
}

/**
 * Keeps what follows by itself in the zone that somebody agreed to: a new key comes, one that is done with goes, the id of
 * an MTA-STS policy is that of the policy, the records of one that was withdrawn for long enough go, and addresses for reports
 * are those that the secret in force signs. Nothing is done where the zone is another one by now, or where the leave that it
 * went by is withdrawn.
 */
export async function keepPublished(
  surroundings: SetupSurroundings,
  to: DomainToSetUp,
  write: WriteZone,
): Promise<SetupWritten> {
  const { zoneId, byOperator } = to.upkeep;
  const home = zoneId === null ? undefined : await hostingZone(surroundings, to.own.domain);
  if (home === undefined || home.id !== zoneId) return { written: [], refused: [] };
  const right: SetupRight = byOperator ? "operator" : "instance";
  const { proposal, wants, places } = await propose(surroundings, to, { right, flatten: false });
  const isOfPolicy = ({ part }: SetupItem) => part === "mta-sts" || part === "mta-sts-host";
  const addresses: { readonly [part in SetupItem["part"]]?: string | undefined } = {
    dmarc: wants.reports.dmarc,
    "tls-rpt": wants.reports.tls,
  };
  const isResigned = ({ part, before = "" }: SetupItem) => reportsToFormer(before, addresses[part] ?? "");
  const follows = proposal.items.filter(
    (item) =>
      isChange(item) &&
      (item.part === "dkim" ||
        (item.part === "mta-sts" && item.action === "modify") ||
        isResigned(item) ||
        (isOfPolicy(item) && item.action === "remove")),
  );
  return writeItems(follows, places, write);
}
