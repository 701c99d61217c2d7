import { dnskeyOf } from "../../core/dns/dnssec/apex-records.ts";
import { dsRdata, isDsOf } from "../../core/dns/dnssec/dnskey.ts";
import { keysForParent } from "../../core/dns/dnssec/rollover.ts";
import { DERIVED_TYPES } from "../../core/dns/dnssec/signature-plan.ts";
import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { areInOneHand } from "../../core/dns/zone-tenancy.ts";
import { ok } from "../../core/result.ts";
import type { ParentDs } from "../../platform/lookups/ds-lookup.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import type { SigningState, StoredKey } from "../../store/dns/dnssec-keys.ts";
import { readFewRdataAt, readRecordsAt } from "../../store/dns/records.ts";
import { findWithParent } from "../../store/dns/zone-names.ts";
import { findZone, lockZones, type Zone, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { changeZone } from "./zone-changes.ts";
import { changeRecords } from "./zone-records.ts";
import type { ZoneSigner } from "./zone-signing.ts";
import { findSignedZone, nextVersion, type SigningTarget } from "./zone-signing-state.ts";

/**
 * Makes the DS in a zone's parent what the zone's CDS says (RFC 7344 §6), the first one and the removal included
 * (RFC 8078), where the parent is hosted here in the same hand: then nobody has to prove to anybody that the CDS is
 * genuine. It is a change of the parent as any other, with its serial, journal and history. Left alone are a parent
 * with signatures of its own, a zone for which this is switched off, and a DS that points to none of the zone's keys: whom
 * the zone moves to, or comes from, has put it there. No DS comes where the name is delegated to others than the zone
 * names, who would answer without its keys.
 * @returns the parent, when it was changed
 */
export function publishDs(db: Db, target: SigningTarget): Promise<Zone | undefined> {
  return inTransaction(db, async (transaction) => {
    // With the zone's row locked no other change of its keys comes in between.
    await lockZones(transaction, "name = $1", [zoneName(target.apex)]);
    const found = await findSignedZone(transaction, target);
    if (!found.ok || !found.value.state?.dsAutomatic) return undefined;
    const { zone, state } = found.value;
    const wanted = wantedDs(target.apex, state);
    const parent = wanted && (await findServedParent(transaction, target.apex));
    if (!wanted || !parent || (await isPresigned(transaction, parent))) return undefined;
    const atCut = await readRecordsAt(transaction, parent.id, [target.apex], [TYPE.NS, TYPE.DS]);
    const atApex = await readRecordsAt(transaction, zone.id, [target.apex], [TYPE.NS]);
    if (wanted.length > 0 && !isDelegatedTo(atCut, atApex)) return undefined;
    const existing = atCut.filter(({ type, rdata }) => type === TYPE.DS && pointsTo(state.keys, target.apex, rdata));
    return replaceDs(transaction, { target, parent }, existing, wanted);
  });
}

/**
 * Takes the DS that point to a zone's keys out of its hosted parent, because the zone is about to go: whoever validates
 * would believe nothing at that name, wherever it is delegated to from then on. A calendar that has no serial left for
 * the day is no obstacle, for nobody would come back for it.
 * @returns the parent, when it was changed
 */
export async function withdrawDs(
  transaction: Transaction,
  apex: DomainName,
  signer: ZoneSigner,
): Promise<Zone | undefined> {
  const found = await findSignedZone(transaction, { scope: {}, apex, domain: zoneName(apex) });
  const hosted = await findHostedParent(transaction, apex);
  if (!hosted || !found.ok || !found.value.state?.dsAutomatic) return undefined;
  if (await isPresigned(transaction, hosted.zone)) return undefined;
  const { keys } = found.value.state;
  const changed = await changeZone(transaction, parentTarget(apex, hosted.zone, signer), async (on) => {
    const zone = (await findZone(on, {}, hosted.zone.apex)) ?? hosted.zone;
    const atCut = await readRecordsAt(on, zone.id, [apex], [TYPE.DS]);
    const deleted = atCut.filter(({ rdata }) => pointsTo(keys, apex, rdata));
    if (deleted.length === 0) return ok({ zone, warnings: [] });
    const rows = { deletedIds: deleted.map(({ id }) => id), updated: [], created: [] };
    const version = nextVersion(zone, signer, deleted.length);
    return ok({ zone, change: { ...version, rows, difference: { deleted, added: [] } }, warnings: [] });
  });
  return changed.ok && changed.value.changed ? changed.value.zone : undefined;
}

/** The DS that a hosted parent in the same hand has for a zone; undefined where there is no such parent. */
export async function readHostedDs(db: Db, apex: DomainName): Promise<ParentDs | undefined> {
  const parent = await findServedParent(db, apex);
  if (!parent) return undefined;
  const records = await readRecordsAt(db, parent.id, [apex], [TYPE.DS]);
  const ttlSeconds = Math.max(0, ...records.map(({ ttl }) => ttl));
  return { records: records.map(({ rdata }) => rdata), ttlSeconds, authenticated: true };
}

/** Who is named in a parent's history for a DS that follows CDS. */
export function cdsActor(apex: DomainName): string {
  return `cds:${zoneName(apex)}`;
}

/**
 * The closest zone above, and whether it is served, when what follows from the zone may be written into it and is to be
 * believed of it ({@link areInOneHand}): it is the same company's, or the reseller of both put one beside the other.
 * Anybody else's is none: it may be a zone that only its owner takes for the parent, or a child of nobody's wish.
 */
export async function findHostedParent(
  db: Db,
  apex: DomainName,
): Promise<{ readonly zone: Zone; readonly isServed: boolean } | undefined> {
  const pair = await findWithParent(db, apex);
  return pair?.above.kind === "primary" && areInOneHand(pair.place, pair.above) ? pair.above : undefined;
}

async function findServedParent(db: Db, apex: DomainName): Promise<Zone | undefined> {
  const hosted = await findHostedParent(db, apex);
  return hosted?.isServed ? hosted.zone : undefined;
}

/** A change of a parent that follows from a zone below, and that no quota of the parent's company refuses. */
function parentTarget(below: DomainName, { apex, name }: Zone, signer: ZoneSigner): SigningTarget {
  return { scope: {}, apex, domain: name, actor: cdsActor(below), signer, quotas: "count" };
}

/** RDATA of the DS records that CDS asks for; none for their removal; undefined while it asks for nothing. */
function wantedDs(apex: DomainName, { keys, dsWanted }: SigningState): readonly Uint8Array[] | undefined {
  if (!dsWanted) return [];
  const forParent = keysForParent(keys);
  return forParent.length === 0 ? undefined : forParent.map((key) => dsRdata(apex, dnskeyOf(key)));
}

/** Whether a zone that is not signed here has signatures, which a change would not have. */
async function isPresigned(db: Db, { id, apex, signed }: Zone): Promise<boolean> {
  if (signed) return false;
  return (await readFewRdataAt(db, [{ zoneId: id, name: apex }], [...DERIVED_TYPES], 1)).length > 0;
}

/**
 * Whether a delegation (RFC 4035 §2.4: a DS stands there and nowhere else) is to servers that the zone names itself, all of
 * them. One more may be of whom the zone comes from, with other keys or none: who asks it would take its answers for bogus.
 */
function isDelegatedTo(atCut: readonly StoredRecord[], atApex: readonly StoredRecord[]): boolean {
  const serversOf = (records: readonly StoredRecord[]) =>
    records.filter(({ type }) => type === TYPE.NS).map(({ rdata }) => nameFromStoredWire(rdata).key);
  const [delegated, own] = [serversOf(atCut), new Set(serversOf(atApex))];
  return delegated.length > 0 && delegated.every((server) => own.has(server));
}

/** Whether a DS is of one of a zone's keys. */
function pointsTo(keys: readonly StoredKey[], apex: DomainName, rdata: Uint8Array): boolean {
  return keys.some((key) => isDsOf(rdata, apex, dnskeyOf(key)));
}

/** @param existing the DS of the zone's keys that the parent has */
async function replaceDs(
  transaction: Transaction,
  { target, parent }: { readonly target: SigningTarget; readonly parent: Zone },
  existing: readonly StoredRecord[],
  wanted: readonly Uint8Array[],
): Promise<Zone | undefined> {
  const isWanted = ({ rdata }: StoredRecord) => wanted.some((ds) => Buffer.compare(ds, rdata) === 0);
  const missing = wanted.filter((ds) => !existing.some(({ rdata }) => Buffer.compare(ds, rdata) === 0));
  const changed = await changeRecords(
    transaction,
    parentTarget(target.apex, parent, target.signer),
    {
      creations: missing.map((rdata) => ({ owner: target.apex, type: TYPE.DS, ttl: undefined, rdata })),
      modifications: [],
      deletionIds: existing.filter((record) => !isWanted(record)).map(({ id }) => id),
    },
    new Date(target.signer.clock.nowMs()),
  );
  // Refused where the parent's calendar has no serial left for the day: upkeep tries again.
  return changed.ok && changed.value.changed ? changed.value.zone : undefined;
}
