/**
 * What a sender domain should publish, as differences from what it has: records to add, to change and to take away, and
 * those that somebody has to decide about. Nothing that is there is lost: policies are merged, and what goes is shown.
 */
import {
  dkimMatches,
  dmarcNames,
  expectedBounceMx,
  expectedBounceSpf,
  expectedDkim,
  expectedSpf,
  spfAllows,
  spfPolicies,
} from "../sender-records.ts";
import { type ServedStsPolicy, stsPolicyId } from "./mta-sts.ts";
import { countSpf, flattenSpf, parseSpf, type SpfCost, type SpfFault, type SpfLookups } from "./spf.ts";
import { formatTags, parseTags, type Tag, tagValue, withReportsTo } from "./tag-list.ts";

/** What a record is there for. */
export type SetupPart =
  | "spf"
  | "dkim"
  | "dmarc"
  | "bounce-mx"
  | "bounce-spf"
  /** That reports about other domains are welcome at the bounce domain (RFC 7489 §7.1). */
  | "dmarc-reports"
  | "tracking"
  | "mta-sts-host"
  | "mta-sts"
  | "tls-rpt";

/** A key as far as its publication goes: an old one stays, one that is done with goes. */
export interface PublishedKey {
  readonly selector: string;
  /** The TXT value that publishes it. */
  readonly record: string;
  readonly state: "new" | "signing" | "old" | "done";
}

/** What is wanted of a domain. Names are A-labels in lower case, without the final dot. */
export interface SetupWants {
  readonly domain: string;
  readonly bounceDomain: string;
  /** The machine that sends, and takes what comes back. */
  readonly hostname: string;
  readonly keys: readonly PublishedKey[];
  /** Where reports go. */
  readonly reports: { readonly dmarc: string; readonly tls: string | undefined };
  /** Of recipients' links: a host of the domain, and the tracking service that it leads to. */
  readonly tracking: { readonly host: string; readonly target: string } | undefined;
  /** For mail to the domain; its policy is served by the tracking service. `isOver`: its records are to go. */
  readonly sts: { readonly policy: ServedStsPolicy; readonly target: string; readonly isOver?: boolean } | undefined;
  /** What was asked for and cannot be had. */
  readonly unserved?: readonly Unserved[];
  /** Addresses in the place of what the SPF policy includes. */
  readonly flatten: boolean;
}

/** Something that was asked for, and why there is none. */
export type Unserved = Place & { readonly kind: "no-tracking-service" | "no-exchanger" };

/** A name and type that is looked at. */
export interface SetupQuestion {
  readonly name: string;
  readonly type: "TXT" | "MX" | "CNAME";
}

/** What a name has of one type. */
export interface PresentRecords {
  /** Texts of TXT, `preference name` of MX, the name of CNAME; only those that all servers have. */
  readonly values: readonly string[];
  /** False: nobody said what is there. */
  readonly answered: boolean;
  /** Servers that say something else than others. */
  readonly differing?: readonly string[] | undefined;
  /** Types of other records at the name, where a CNAME is wanted. */
  readonly others?: readonly string[] | undefined;
}

export type ReadPresent = (question: SetupQuestion) => PresentRecords;

type SetupFault =
  | SpfFault
  | "unanswered"
  | "servers-differ"
  /** Of several policies none counts; one has to go. */
  | "several-policies"
  /** A record of another type is where the CNAME should be. */
  | "place-taken"
  /** The domain has a policy that is served elsewhere. */
  | "policy-elsewhere"
  /** The name says that it takes no mail (RFC 7505). */
  | "takes-no-mail"
  /** The key at the name is another one. */
  | "another-key"
  /** There is no valid certificate for the name: why, in `at`. */
  | "no-certificate"
  /** The deployment has no public tracking service that the name could lead to. */
  | "no-tracking-service"
  /** No mail exchanger of the domain is known that a policy could name. */
  | "no-exchanger";

export interface SetupItem extends SetupQuestion {
  readonly part: SetupPart;
  /** `ask`: somebody has to decide; nothing is done about it. */
  readonly action: "keep" | "add" | "modify" | "remove" | "ask";
  /** What is there and would be taken away or replaced. */
  readonly before: string | undefined;
  /** What should be there; undefined of what goes. */
  readonly after: string | undefined;
  readonly fault: { readonly kind: SetupFault; readonly at: string } | undefined;
  /** Of SPF: what the policy costs receivers. */
  readonly cost?: SpfCost | undefined;
}

/** Records of the deployment, whoever's domain is set up: they are the operator's to change. */
export function isOfDeployment({ part }: Pick<SetupItem, "part">): boolean {
  return part === "bounce-mx" || part === "bounce-spf" || part === "dmarc-reports";
}

/** All that has to be looked at before {@link planSetup} can tell what to do. */
export function setupQuestions(wants: SetupWants): SetupQuestion[] {
  const { domain, bounceDomain, keys, tracking, sts, reports } = wants;
  const txt = (name: string): SetupQuestion => ({ name, type: "TXT" });
  const cname = (name: string): SetupQuestion => ({ name, type: "CNAME" });
  return [
    txt(domain),
    ...keys.map(({ selector, record }) => txt(expectedDkim(domain, selector, record).name)),
    ...dmarcNames(domain).map(txt),
    { name: bounceDomain, type: "MX" },
    txt(bounceDomain),
    ...(needsConsent(wants) ? [txt(reportName(wants))] : []),
    ...(tracking ? [cname(tracking.host)] : []),
    ...(sts ? [cname(`mta-sts.${domain}`), txt(`_mta-sts.${domain}`)] : []),
    ...(reports.tls ? [txt(`_smtp._tls.${domain}`)] : []),
  ];
}

/** @param read answers every one of {@link setupQuestions} */
export async function planSetup(wants: SetupWants, read: ReadPresent, lookups: SpfLookups): Promise<SetupItem[]> {
  const { domain, tracking, sts, reports } = wants;
  const items = [
    ...(domain === wants.bounceDomain ? [] : [await planSpf(wants, read, lookups)]),
    ...wants.keys.map((key) => planKey(domain, key, read)),
    planDmarc(wants, read),
    ...planBounce(wants, read),
    ...(needsConsent(wants) ? [planReports(wants, read)] : []),
    ...(tracking ? [planCname({ part: "tracking", name: tracking.host, target: tracking.target }, read)] : []),
    ...(sts ? planSts(domain, sts, read) : []),
    ...(reports.tls ? [planTlsRpt(domain, reports.tls, read)] : []),
  ];
  const unserved = (wants.unserved ?? []).map(({ kind, ...place }) => ask(place, { before: undefined, kind }));
  return [...items.filter((item) => item !== undefined).map((item) => withDoubts(item, read(item))), ...unserved];
}

/** Of what nobody answered nothing can be told; where servers differ, the one that lacks something is to blame. */
function withDoubts(item: SetupItem, { answered, differing = [] }: PresentRecords): SetupItem {
  if (!answered) return { ...item, action: "ask", fault: { kind: "unanswered", at: item.name } };
  if (differing.length === 0 || item.action === "keep" || item.fault) return item;
  return { ...item, fault: { kind: "servers-differ", at: differing.join(", ") } };
}

async function planSpf(wants: SetupWants, read: ReadPresent, lookups: SpfLookups): Promise<SetupItem> {
  const { domain, bounceDomain, hostname } = wants;
  const place = { part: "spf", name: domain, type: "TXT" } as const;
  const texts = read(place).values;
  const [before, another] = spfPolicies(texts);
  if (another !== undefined) return ask(place, { before, kind: "several-policies" });
  const parsed = parseSpf(before ?? "v=spf1");
  if (!parsed.ok) return ask(place, { before, kind: "malformed", at: parsed.error });
  const isAllowed = before !== undefined && spfAllows(texts, bounceDomain, hostname);
  const merged = isAllowed ? before : expectedSpf(domain, bounceDomain, texts).value;
  const after = wants.flatten ? (await flattenSpf(merged, new Set([bounceDomain]), lookups)).policy : merged;
  const cost = await countSpf(domain, after, withBouncePolicy(wants, lookups));
  const item = difference(place, before, after);
  // A policy that receivers give up on is not written.
  return cost.fault ? { ...item, action: "ask", cost, fault: cost.fault } : { ...item, cost };
}

/** The bounce domain's policy counts although it is not published yet: it is set up beside. */
function withBouncePolicy({ bounceDomain, hostname }: SetupWants, lookups: SpfLookups): SpfLookups {
  return {
    ...lookups,
    texts: async (name) => {
      const texts = await lookups.texts(name);
      if (name !== bounceDomain || (texts && spfPolicies(texts).length > 0)) return texts;
      return [expectedBounceSpf(bounceDomain, hostname).value];
    },
  };
}

function planKey(domain: string, { selector, record, state }: PublishedKey, read: ReadPresent): SetupItem | undefined {
  const { name } = expectedDkim(domain, selector, record);
  const place = { part: "dkim", name, type: "TXT" } as const;
  const { values } = read(place);
  const own = values.find((text) => dkimMatches([text], record));
  if (state === "done") {
    return own === undefined
      ? undefined
      : { ...place, action: "remove", before: own, after: undefined, fault: undefined };
  }
  // Whatever else it says is for whoever wrote it to say, services (`s=`) included: without any it is for all of them.
  if (own !== undefined) return difference(place, own, own);
  // Nothing is signed with it any more.
  if (state === "old") return undefined;
  const other = values.find((text) => /(^|;)\s*p\s*=/.test(text));
  return other === undefined
    ? difference(place, undefined, record)
    : { ...ask(place, { before: other, kind: "another-key" }), after: record };
}

function planDmarc({ domain, reports }: SetupWants, read: ReadPresent): SetupItem {
  const place = { part: "dmarc", name: `_dmarc.${domain}`, type: "TXT" } as const;
  const [before, another] = dmarcRecords(read(place).values);
  if (another !== undefined) return ask(place, { before, kind: "several-policies" });
  const own = before === undefined ? inheritedTags(domain, read) : parseTags(before);
  const merged = withReportsTo(own, reports.dmarc);
  const after =
    before !== undefined && merged.length === own.length && sameTags(own, merged) ? before : formatTags(merged);
  return difference(place, before, after);
}

function sameTags(one: readonly Tag[], other: readonly Tag[]): boolean {
  return one.every(({ value }, index) => other[index]?.value === value);
}

/**
 * What a new record begins with: the policy that the domain has from above (RFC 7489 §6.6.3), as a record of its own takes
 * its place and must not weaken it; `none` where there is no policy.
 */
function inheritedTags(domain: string, read: ReadPresent): Tag[] {
  const above = dmarcNames(domain)
    .slice(1)
    .map((name) => dmarcRecords(read({ name, type: "TXT" }).values)[0])
    .find((record) => record !== undefined);
  const tags = above === undefined ? [] : parseTags(above);
  const policy = tagValue(tags, "sp") ?? tagValue(tags, "p") ?? "none";
  const others = tags.filter(({ name }) => !["v", "p", "sp"].includes(name));
  return [{ name: "v", value: "DMARC1" }, { name: "p", value: policy }, ...others];
}

function dmarcRecords(texts: readonly string[]): string[] {
  return texts.filter((text) => /^v\s*=\s*DMARC1\s*(;|$)/.test(text));
}

function planBounce({ bounceDomain, hostname }: SetupWants, read: ReadPresent): SetupItem[] {
  const mx = { part: "bounce-mx", name: bounceDomain, type: "MX" } as const;
  const spf = { part: "bounce-spf", name: bounceDomain, type: "TXT" } as const;
  const [exchanger] = read(mx).values;
  const [policy, another] = spfPolicies(read(spf).values);
  const wanted = expectedBounceMx(bounceDomain, hostname);
  return [
    exchanger !== undefined && /^\d+ \.?$/.test(exchanger)
      ? ask(mx, { before: exchanger, kind: "takes-no-mail" })
      : difference(mx, exchanger, exchanger ?? `${wanted.preference} ${wanted.value}`),
    another !== undefined
      ? ask(spf, { before: policy, kind: "several-policies" })
      : difference(spf, policy, policy ?? expectedBounceSpf(bounceDomain, hostname).value),
  ];
}

/** RFC 7489 §7.1: reports go to another organisation's address only where that one says so. */
function needsConsent({ domain, bounceDomain }: SetupWants): boolean {
  return domain !== bounceDomain && !bounceDomain.endsWith(`.${domain}`);
}

/** One record for all domains, where the zone may have a wildcard. */
function reportName({ bounceDomain }: SetupWants): string {
  return `*._report._dmarc.${bounceDomain}`;
}

function planReports(wants: SetupWants, read: ReadPresent): SetupItem {
  const place = { part: "dmarc-reports", name: reportName(wants), type: "TXT" } as const;
  const [before] = dmarcRecords(read(place).values);
  return difference(place, before, before ?? "v=DMARC1");
}

function planCname(
  { part, name, target }: { readonly part: SetupPart; readonly name: string; readonly target: string },
  read: ReadPresent,
): SetupItem {
  const place = { part, name, type: "CNAME" } as const;
  const { values, others = [] } = read(place);
  const [before] = values.map((value) => value.toLowerCase().replace(/\.$/, ""));
  if (before === undefined && others.length > 0) {
    return { ...ask(place, { before: others.join(", "), kind: "place-taken" }), after: target };
  }
  return difference(place, before, target);
}

function planSts(domain: string, sts: NonNullable<SetupWants["sts"]>, read: ReadPresent): SetupItem[] {
  const { policy, target } = sts;
  const host = planCname({ part: "mta-sts-host", name: `mta-sts.${domain}`, target }, read);
  const place = { part: "mta-sts", name: `_mta-sts.${domain}`, type: "TXT" } as const;
  const [before, another] = read(place).values.filter((text) => /^v\s*=\s*STSv1\s*(;|$)/.test(text));
  const id = stsPolicyId(policy);
  const isOurs = before !== undefined && tagValue(parseTags(before), "id") === id;
  const record = difference(place, before, isOurs ? before : `v=STSv1; id=${id};`);
  if (policy.mode === "none") return planStsEnd([host, record], sts, read);
  if (another !== undefined) return [host, ask(place, { before, kind: "several-policies" })];
  const isElsewhere = before !== undefined && (host.action === "modify" || host.action === "ask");
  return [host, isElsewhere ? ask(place, { before, kind: "policy-elsewhere" }) : record];
}

/** Of a policy that is withdrawn: what led here gets the last id, and goes when that was to be seen for long enough. */
function planStsEnd(
  [host, record]: readonly [SetupItem, SetupItem],
  { isOver = false }: NonNullable<SetupWants["sts"]>,
  read: ReadPresent,
): SetupItem[] {
  const isHere = host.action === "keep";
  const own = [...(isHere ? [host] : []), ...(isHere || record.action === "keep" ? [record] : [])];
  const left = [host, record].filter(
    (item) => !read(item).answered || (own.includes(item) && item.before !== undefined),
  );
  return isOver ? left.map((item) => ({ ...item, action: "remove", after: undefined })) : left;
}

function planTlsRpt(domain: string, address: string, read: ReadPresent): SetupItem {
  const place = { part: "tls-rpt", name: `_smtp._tls.${domain}`, type: "TXT" } as const;
  const [before, another] = read(place).values.filter((text) => /^v\s*=\s*TLSRPTv1\s*;/.test(text));
  if (another !== undefined) return ask(place, { before, kind: "several-policies" });
  const own = before === undefined ? [{ name: "v", value: "TLSRPTv1" }] : parseTags(before);
  const merged = withReportsTo(own, address);
  return difference(
    place,
    before,
    before !== undefined && sameTags(own, merged) && own.length === merged.length ? before : formatTags(merged),
  );
}

type Place = Pick<SetupItem, "part" | "name" | "type">;

function difference(place: Place, before: string | undefined, after: string): SetupItem {
  const action = before === undefined ? "add" : before === after ? "keep" : "modify";
  return { ...place, action, before, after, fault: undefined };
}

function ask(
  place: Place,
  { before, kind, at }: { readonly before: string | undefined; readonly kind: SetupFault; readonly at?: string },
): SetupItem {
  return { ...place, action: "ask", before, after: undefined, fault: { kind, at: at ?? place.name } };
}
