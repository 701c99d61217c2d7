import { randomInt } from "node:crypto";
import { apexRecords } from "../../core/dns/dnssec/apex-records.ts";
import { denialScheme } from "../../core/dns/dnssec/denial.ts";
import { namesToSign } from "../../core/dns/dnssec/name-role.ts";
import { signatureWindow } from "../../core/dns/dnssec/policy.ts";
import { type SigningKey, signRrset } from "../../core/dns/dnssec/rrsig.ts";
import {
  changesNothing,
  DERIVED_TYPES,
  planSignatures,
  type RrsetToSign,
  type SignaturePlan,
  type SigningView,
  type ZoneSigning,
} from "../../core/dns/dnssec/signature-plan.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { type ResourceRecord, rrsetKey } from "../../core/dns/record.ts";
import { TYPE, typeMnemonic } from "../../core/dns/rr-types.ts";
import { encodeSoaRdata } from "../../core/dns/soa.ts";
import type { DerivedChange, StoredRecord, ZoneChange } from "../../core/dns/zone-edit.ts";
import { inCanonicalOrder } from "../../core/dns/zone-file/writer.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Steps } from "../../core/steps.ts";
import type { Clock } from "../../platform/clock.ts";
import { signingPolicy } from "../../platform/config/dnssec-policy.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { openSigningKey, readSigning, type SigningState } from "../../store/dns/dnssec-keys.ts";
import { readAllDerived } from "../../store/dns/dnssec-records.ts";
import { readAllRecords } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { readTouchedNames } from "./zone-signing-names.ts";

/** What it takes to sign: the keys that open its own, and the time. */
export interface ZoneSigner {
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

/** From so many touched names on, the whole zone is gone through. */
const MOST_TOUCHED_NAMES = 2_000;

/** How much of a zone a change of it, or of its signing, concerns. */
export interface SigningScope {
  readonly signer: ZoneSigner;
  /**
   * `touched`: what the change touches; `apex`: the keys or what the parent reads of them changed as well; `zone`: all of
   * it.
   */
  readonly extent?: "touched" | "apex" | "zone";
}

type SignedChange = Pick<ZoneChange, "soa" | "ttl" | "rows" | "difference">;

/**
 * What signing makes of a change, in the same version: signatures of the RRsets that it touches, and the denial records
 * of names that come, go or get other types, with those of their neighbours. Refuses records that signing makes itself.
 * Undefined when the zone is signed no longer: it was changed, or deleted, since it was read.
 */
export async function deriveChange(
  db: Db,
  zone: Zone,
  change: SignedChange,
  scope: SigningScope,
): Promise<Result<DerivedChange, Refusal> | undefined> {
  const forbidden = change.difference.added.find(({ type }) => DERIVED_TYPES.has(type));
  if (forbidden) return refuse(unacceptable(madeBySigning(zone, forbidden.type)));
  const soaKey = rrsetKey(zone.apex, TYPE.SOA);
  const changed = [...change.difference.deleted, ...change.difference.added];
  const keys = new Set([soaKey, ...changed.map(({ owner, type }) => rrsetKey(owner, type))]);
  const plan = await planChange(db, zone, change, { ...scope, changed: keys });
  if (!plan) return undefined;
  const signatures = await signAll(plan.toSign, zone.apex, scope.signer);
  return ok({ deleted: plan.deleted, added: [...plan.added, ...signatures] });
}

/**
 * Whether the chain and the signatures of a zone are all that they should be for the zone as it is, and nothing else;
 * that the signatures verify is another matter. Undefined when the zone is not signed.
 * @param db sees one moment
 */
export async function isWellSigned(db: Db, zone: Zone, signer: ZoneSigner): Promise<boolean | undefined> {
  const { soa, ttl } = zone;
  const change = { soa, ttl, rows: NO_ROWS, difference: NO_DIFFERENCE };
  const plan = await planChange(db, zone, change, { signer, extent: "zone", changed: new Set() });
  return plan && changesNothing(plan);
}

const NO_ROWS = { deletedIds: [], updated: [], created: [] };
const NO_DIFFERENCE = { deleted: [], added: [] };

/** @param scope.changed the RRsets whose signatures cannot stay, by `rrsetKey` */
async function planChange(
  db: Db,
  zone: Zone,
  change: SignedChange,
  { signer, extent = "touched", changed }: SigningScope & { readonly changed: ReadonlySet<string> },
): Promise<SignaturePlan<StoredRecord> | undefined> {
  const state = await readSigning(db, zone.id);
  if (!state) return undefined;
  const isWhole =
    extent === "zone" ||
    change.difference.deleted.length + change.difference.added.length > MOST_TOUCHED_NAMES ||
    // RFC 9077 §3: these decide the TTL of all denial records.
    negativeTtlOf(zone) !== negativeTtlOf(change);
  const signing = openSigning(zone.apex, state, change, signer.keyRing);
  const apexOwn = [
    { owner: zone.apex, type: TYPE.SOA, ttl: change.ttl, rdata: encodeSoaRdata(change.soa) },
    ...apexRecords(zone.apex, state, signingPolicy.keyTtlSeconds),
  ];
  const touched = isWhole ? undefined : await readTouchedNames(db, zone, change, { denial: signing.denial, apexOwn });
  const range = touched ?? (await readWholeZone(db, zone, change.rows, apexOwn));
  return runInTurns(planSignatures(signing, { ...range, changed }));
}

/** What is said of a record that a customer would add to a signed zone, where signing makes those of its type. */
export function madeBySigning({ name }: Zone, type: number): Sentence {
  return sentence("made-by-signing", { domain: name, type: typeMnemonic(type) });
}

/** Signs RRsets, each for a time of its own. */
export function signAll(
  rrsets: readonly RrsetToSign[],
  apex: DomainName,
  { clock }: ZoneSigner,
): Promise<ResourceRecord[]> {
  return runInTurns(signOneByOne(rrsets, apex, new Date(clock.nowMs())));
}

function* signOneByOne(rrsets: readonly RrsetToSign[], apex: DomainName, now: Date): Steps<ResourceRecord[]> {
  const signatures: ResourceRecord[] = [];
  for (const { rrset, key } of rrsets) {
    signatures.push(signRrset(rrset, apex, key, signatureWindow(signingPolicy, now, randomFraction())));
    yield;
  }
  return signatures;
}

function randomFraction(): number {
  return randomInt(RANDOM_STEPS) / RANDOM_STEPS;
}

const RANDOM_STEPS = 2 ** 32;

/** The keys of a zone, opened, by what they sign. */
export function openSigningKeys(
  { keys }: SigningState,
  keyRing: KeyRing,
): { readonly keySetKeys: readonly SigningKey[]; readonly zoneKeys: readonly SigningKey[] } {
  const open = keys.filter(({ signsKeySet, signsZone }) => signsKeySet || signsZone);
  const opened = open.map((key) => ({ key, signingKey: openSigningKey(keyRing, key) }));
  return {
    keySetKeys: opened.filter(({ key }) => key.signsKeySet).map(({ signingKey }) => signingKey),
    zoneKeys: opened.filter(({ key }) => key.signsZone).map(({ signingKey }) => signingKey),
  };
}

function openSigning(apex: DomainName, state: SigningState, after: ZoneTimes, keyRing: KeyRing): ZoneSigning {
  const denial = denialScheme(state.denial, apex);
  return { denial, negativeTtl: negativeTtlOf(after), ...openSigningKeys(state, keyRing) };
}

type ZoneTimes = Pick<Zone, "ttl" | "soa">;

function negativeTtlOf({ ttl, soa }: ZoneTimes): number {
  return Math.min(ttl, soa.minimum);
}

/** All names of the zone as the change leaves it. */
async function readWholeZone(
  db: Db,
  zone: Zone,
  rows: ZoneChange["rows"],
  apexOwn: readonly ResourceRecord[],
): Promise<Omit<SigningView<StoredRecord>, "changed">> {
  const changesRecords = rows.created.length + rows.updated.length + rows.deletedIds.length > 0;
  const before = await readAllRecords(db, zone.id);
  const after = changesRecords ? inCanonicalOrder(applyRows(before, rows)) : before;
  return {
    range: "zone",
    names: namesToSign(zone.apex, concatenate(apexOwn, after)),
    existing: await readAllDerived(db, zone.id),
  };
}

/** Records as a change leaves them. */
function applyRows(
  before: readonly StoredRecord[],
  { deletedIds, updated, created }: ZoneChange["rows"],
): ResourceRecord[] {
  const gone = new Set([...deletedIds, ...updated.map(({ id }) => id)]);
  return [...before.filter(({ id }) => !gone.has(id)), ...updated, ...created];
}

function* concatenate<T>(...lists: readonly (readonly T[])[]): Generator<T> {
  for (const list of lists) yield* list;
}
