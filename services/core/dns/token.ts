import { forbidden, type Refusal } from "../refusal.ts";
import {
  type AccessPolicy,
  coversName,
  coversRecord,
  coversType,
  coversWholeZones,
  coversZone,
  mayChangeAll,
  mayDo,
  type PolicyPart,
  refusingPart,
} from "./access-policy.ts";
import { type DomainName, formatDomainName, parseDomainName } from "./name.ts";
import { type PolicyVerb, RECORD_VERBS, type RecordVerb } from "./policy-verbs.ts";
import { type ResourceRecord, rrsetKey } from "./record.ts";
import { TYPE, typeMnemonic } from "./rr-types.ts";
import { type SoaRdata, sameSoaValues } from "./soa.ts";

/** By what somebody calls who has not the key of a reseller or a company: a token or a TSIG key with a policy. Plain data. */
export interface Token {
  readonly id: number;
  /** Unique among those of its owner. */
  readonly name: string;
  readonly policy: AccessPolicy;
}

/** What is to become of a zone, as far as it matters to policies. */
export interface JudgedChange {
  readonly soa: SoaRdata;
  readonly ttl: number;
  /** Whether the SOA was asked to be set, were it to what it is. */
  readonly touchesSoa?: boolean | undefined;
  readonly difference: { readonly deleted: readonly ResourceRecord[]; readonly added: readonly ResourceRecord[] };
}

/** Whether a token is for a zone. @param zone its name */
export function isForZone({ policy }: Token, zone: string): boolean {
  const apex = parseDomainName(zone);
  return apex.ok && coversZone(policy, apex.value);
}

/** Whether a record of a zone that the token is for may be read; who has a key reads all. */
export function mayRead(token: Token | undefined, record: Pick<ResourceRecord, "owner" | "type">): boolean {
  return !token || coversRecord(token.policy, record);
}

/** Refuses zones that the token is not for; says nothing of whether there is such a zone. */
export function judgeZone({ name, policy }: Token, apex: DomainName): Refusal | undefined {
  return coversZone(policy, apex) ? undefined : forbidden("token-zones", { token: name, zone: textOf(apex) });
}

export function judgeVerb({ name, policy }: Token, verb: PolicyVerb): Refusal | undefined {
  return mayDo(policy, verb) ? undefined : forbidden("token-verbs", { token: name, verb });
}

/** Refuses who may do nothing with records, whatever is to be done with them. */
export function judgeRecordVerbs({ name, policy }: Token): Refusal | undefined {
  if (RECORD_VERBS.some((verb) => mayDo(policy, verb))) return undefined;
  return forbidden("token-verbs", { token: name, verb: RECORD_VERBS.join(", ") });
}

/** Refuses what tells of all records of a zone, where the token is for some of them. */
export function judgeWholeZone({ name, policy }: Token): Refusal | undefined {
  return coversWholeZones(policy) ? undefined : forbidden("token-needs-all", { token: name });
}

/** Refuses what tells of all zones together, where the token is for some of them, or for some of their records. */
export function judgeAllZones(token: Token): Refusal | undefined {
  return token.policy.zones === null
    ? judgeWholeZone(token)
    : forbidden("token-needs-all-zones", { token: token.name });
}

/**
 * Judges a change of a zone by what it comes to, whichever way it was asked for. Of the SOA its serial does not count: it
 * goes up by itself.
 */
export function judgeChange(
  token: Token,
  zone: { readonly apex: DomainName; readonly soa: SoaRdata; readonly ttl: number },
  { soa, ttl, touchesSoa, difference }: JudgedChange,
): Refusal | undefined {
  const elsewhere = judgeZone(token, zone.apex);
  if (elsewhere || mayChangeAll(token.policy)) return elsewhere;
  const changes = rrsetChanges(difference);
  const changesSoa = touchesSoa || zone.ttl !== ttl || !sameSoaValues(zone.soa, soa);
  if (changesSoa) changes.push({ owner: zone.apex, type: TYPE.SOA, verb: "modify" });
  for (const change of changes) {
    const refused = judgeRrset(token, change);
    if (refused) return refused;
  }
  return undefined;
}

/** Judges a change of one RRset of a zone that the token is for. */
export function judgeRrset(token: Token, change: JudgedRrset): Refusal | undefined {
  const part = refusingPart(token.policy, change);
  return part && refusalOf(token, part, change);
}

/**
 * Judges what is asked for by itself, before it is known what it comes to: a name or a type that the token is not for is
 * refused even where nothing would change, and so is everything to who may only read.
 * @param asked owners, and types where single RRsets are meant
 */
export function judgeAsked(
  token: Token,
  asked: readonly { readonly owner: DomainName; readonly type: number | undefined }[],
): Refusal | undefined {
  const { policy } = token;
  const barred = asked.length > 0 ? judgeRecordVerbs(token) : undefined;
  if (barred) return barred;
  for (const { owner, type } of asked) {
    if (!coversName(policy, owner)) return forbidden("token-names", { token: token.name, name: textOf(owner) });
    if (type !== undefined && !coversType(policy, type)) {
      return forbidden("token-types", { token: token.name, type: typeMnemonic(type) });
    }
  }
  return undefined;
}

/** An RRset, and what is done to it. */
export interface JudgedRrset {
  readonly owner: DomainName;
  readonly type: number;
  readonly verb: RecordVerb;
}

function rrsetChanges({ deleted, added }: JudgedChange["difference"]): JudgedRrset[] {
  const changes = new Map<string, JudgedRrset>();
  for (const { owner, type } of deleted) changes.set(rrsetKey(owner, type), { owner, type, verb: "delete" });
  for (const { owner, type } of added) {
    const key = rrsetKey(owner, type);
    const before = changes.get(key);
    changes.set(key, { owner, type, verb: before && before.verb !== "create" ? "modify" : "create" });
  }
  return [...changes.values()];
}

function refusalOf({ name: token }: Token, part: PolicyPart, { owner, type, verb }: JudgedRrset): Refusal {
  switch (part) {
    case "names":
      return forbidden("token-names", { token, name: textOf(owner) });
    case "types":
      return forbidden("token-types", { token, type: typeMnemonic(type) });
    default:
      return forbidden("token-verbs", { token, verb });
  }
}

function textOf(name: DomainName): string {
  return formatDomainName(name).toLowerCase().slice(0, -1);
}
