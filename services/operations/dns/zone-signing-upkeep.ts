import { hasStepToTake, rolesOutlived } from "../../core/dns/dnssec/rollover.ts";
import { readRrsig } from "../../core/dns/dnssec/rrsig.ts";
import { keysFor } from "../../core/dns/dnssec/signature-plan.ts";
import { type DomainName, nameSortKey } from "../../core/dns/name.ts";
import { type ResourceRecord, rrsetKey } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { soaRecord } from "../../core/dns/soa.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { addToGroup } from "../../core/groups.ts";
import { ok, refuse } from "../../core/result.ts";
import { signingPolicy } from "../../platform/config/dnssec-policy.ts";
import type { LookUpDs } from "../../platform/lookups/ds-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readDerivedAround, readExpiring } from "../../store/dns/dnssec-records.ts";
import { takeUpkeepLock, writeDue, writeParentChecked } from "../../store/dns/dnssec-zones.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import { SIGNING_ACTOR } from "../../store/dns/zone-history.ts";
import { type Zone, zoneName } from "../../store/dns/zones.ts";
import { inTransaction } from "../../store/transactions.ts";
import { advanceZoneKeys, askParent, noteParentDs, updateHostedParent } from "./dnssec-parent.ts";
import { changeZone } from "./zone-changes.ts";
import { openSigningKeys, signAll, type ZoneSigner } from "./zone-signing.ts";
import { findSignedZone, nextDue, nextParentCheck, nextVersion, type SigningTarget } from "./zone-signing-state.ts";
import { isNotSigned, startRollover } from "./zone-signing-switch.ts";

/** Signatures that one version makes anew. */
const SIGNATURES_A_VERSION = 2_000;

/** Runs while nobody else in the deployment does; undefined when somebody does. */
export function withUpkeepLock<T>(db: Db, run: () => Promise<T>): Promise<T | undefined> {
  return db.transaction(async (transaction) => {
    return (await takeUpkeepLock(transaction)) ? run() : undefined;
  });
}

/**
 * Does what is due for a signed zone: signatures that end soon, then key changes, then the parent's DS, which a hosted
 * parent gets at once.
 * @param options.lookUpDs undefined where nobody is to be asked for the parent's DS this time
 * @returns the zones whose data changed: this one, its parent
 */
export async function maintainZone(
  db: Db,
  apex: DomainName,
  { signer, lookUpDs }: { readonly signer: ZoneSigner; readonly lookUpDs: LookUpDs | undefined },
): Promise<Zone[]> {
  const domain = zoneName(apex);
  // A zone must not lose its signatures because they take more than its company may have.
  const target: SigningTarget = { scope: {}, apex, domain, actor: SIGNING_ACTOR, signer, quotas: "count" };
  const before = await findSignedZone(db, target);
  // Deleted, or no longer signed, since the list was made.
  if (!before.ok || !before.value.state) return [];
  const { zone } = before.value;
  await refreshSignatures(db, target);
  await changeKeys(db, target);
  const parent = await updateHostedParent(db, target);
  await checkParent(db, target, lookUpDs);
  const changed = await finish(db, target, zone);
  return [changed, parent].filter((one) => one !== undefined);
}

/** Makes anew what ends soon, and with it what ends soon after, so that a small zone gets one version for all. */
async function refreshSignatures(db: Db, target: SigningTarget): Promise<void> {
  const { signatures } = signingPolicy;
  for (;;) {
    const found = await findSignedZone(db, target);
    if (!found.ok) return;
    // As of now, each time: what a clock that was put back makes would else be old at once, and be made anew for ever.
    const seconds = Math.floor(target.signer.clock.nowMs() / 1000);
    const [first] = await readExpiring(db, found.value.zone.id, seconds + signatures.refreshSeconds, 1);
    if (!first) return;
    const until = seconds + signatures.refreshSeconds + signatures.jitterSeconds;
    const changed = await changeZone(db, target, async (on) => {
      const signed = await findSignedZone(on, target);
      if (!signed.ok) return signed;
      const { zone, state } = signed.value;
      if (!state) return refuse(isNotSigned(target.domain));
      const ending = await readExpiring(on, zone.id, until, SIGNATURES_A_VERSION);
      const change = nextVersion(zone, target.signer);
      const derived = await renew(on, zone, soaRecord(zone.apex, change.soa, change.ttl), {
        ending,
        keys: openSigningKeys(state, target.signer.keyRing),
        signer: target.signer,
      });
      return ok({ zone, change: { ...change, derived }, warnings: [] });
    });
    if (!changed.ok) return;
  }
}

/** New signatures in the place of some, and that of the SOA, whose serial changes with them. */
async function renew(
  db: Db,
  zone: Zone,
  soa: ResourceRecord,
  {
    ending,
    keys,
    signer,
  }: {
    readonly ending: readonly StoredRecord[];
    readonly keys: ReturnType<typeof openSigningKeys>;
    readonly signer: ZoneSigner;
  },
) {
  const owners = [...new Map([soa, ...ending].map(({ owner }) => [owner.key, owner])).values()];
  const derived = await readDerivedAround(
    db,
    zone.id,
    owners.map(({ wire }) => nameSortKey(wire)),
    [],
  );
  const rrsets = new Map([[rrsetKey(zone.apex, TYPE.SOA), [soa]]]);
  for (const record of [...(await readRecordsAt(db, zone.id, owners)), ...derived]) {
    addToGroup(rrsets, rrsetKey(record.owner, record.type), record);
  }
  const covered = ({ owner, rdata }: ResourceRecord) => rrsetKey(owner, readRrsig(rdata).typeCovered);
  const renewed = new Set([rrsetKey(zone.apex, TYPE.SOA), ...ending.map(covered)]);
  const toSign = [...renewed].flatMap((key) => {
    const rrset = rrsets.get(key);
    return rrset ? keysFor(rrset[0]!.type, keys).map((signingKey) => ({ rrset, key: signingKey })) : [];
  });
  const deleted = derived.filter((record) => record.type === TYPE.RRSIG && renewed.has(covered(record)));
  return { deleted, added: await signAll(toSign, zone.apex, signer) };
}

async function checkParent(db: Db, target: SigningTarget, lookUpDs: LookUpDs | undefined): Promise<void> {
  const found = await findSignedZone(db, target);
  if (!found.ok || !found.value.state) return;
  const now = new Date(target.signer.clock.nowMs());
  const checkAt = nextParentCheck(found.value.state, now);
  if (!checkAt || checkAt > now) return;
  const parentDs = await askParent(db, target.apex, lookUpDs ?? askNobody);
  if (parentDs) await noteParentDs(db, target, parentDs);
  else if (lookUpDs) await writeParentChecked(db, found.value.zone.id, now);
}

const askNobody: LookUpDs = () => Promise.resolve(undefined);

async function changeKeys(db: Db, target: SigningTarget): Promise<void> {
  const found = await findSignedZone(db, target);
  if (!found.ok || !found.value.state) return;
  let { keys } = found.value.state;
  const now = new Date(target.signer.clock.nowMs());
  if (hasStepToTake(keys, now)) {
    const advanced = await advanceZoneKeys(db, target);
    if (!advanced.ok || !advanced.value.state) return;
    keys = advanced.value.state.keys;
  }
  for (const role of rolesOutlived(keys, now, signingPolicy)) {
    // Refused while another rollover is under way, or the parent has no DS yet: then it is for later.
    await startRollover(db, target, { roles: [role], algorithm: keys.find((key) => key.role === role)!.algorithm });
  }
}

/** Notes when to look again. @returns the zone when it is another than before */
function finish(db: Db, target: SigningTarget, before: Zone): Promise<Zone | undefined> {
  return inTransaction(db, async (transaction) => {
    const found = await findSignedZone(transaction, target);
    if (!found.ok || !found.value.state) return undefined;
    const { zone, state } = found.value;
    const now = target.signer.clock.nowMs();
    const due = await nextDue(transaction, zone.id, state, target.signer);
    // What is due and could not be done, such as a rollover before the parent has a DS, is tried again after a rest.
    await writeDue(transaction, zone.id, due.getTime() > now ? due : new Date(now + REST_MS));
    return zone.version === before.version ? undefined : zone;
  });
}

const REST_MS = 60_000;
