import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { SIGNING_ALGORITHMS, type SigningAlgorithm } from "../../services/core/dns/dnssec/algorithm.ts";
import { formatBindKey, parseBindKey } from "../../services/core/dns/dnssec/bind-key-file.ts";
import { denialScheme } from "../../services/core/dns/dnssec/denial.ts";
import type { KeyRole } from "../../services/core/dns/dnssec/dnskey.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { unacceptable } from "../../services/core/refusal.ts";
import { ok, refuse } from "../../services/core/result.ts";
import {
  confirmDsGone,
  confirmDsSeen,
  setDsAutomatic,
  updateHostedParent,
  wishForDs,
} from "../../services/operations/dns/dnssec-parent.ts";
import { changeZone } from "../../services/operations/dns/zone-changes.ts";
import { importKeys } from "../../services/operations/dns/zone-signing-keys.ts";
import { repairZone } from "../../services/operations/dns/zone-signing-repair.ts";
import { findSignedZone, nextVersion } from "../../services/operations/dns/zone-signing-state.ts";
import { disableSigning, enableSigning, rollOverRole } from "../../services/operations/dns/zone-signing-switch.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { readSigning } from "../../services/store/dns/dnssec-keys.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { randomName } from "./random-records.ts";
import type { Operation, Place } from "./record-operations.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** RSA keys take long to make, and long to sign with: they are rarer. */
const ALGORITHMS: readonly SigningAlgorithm[] = [13, 13, 13, 15, 15, 8];

export const enable: Operation = async ({ world, random, apex }) =>
  enableSigning(world.ground.db, world.target(apex), {
    denial: random.pick(["nsec", "nsec3"] as const),
    algorithm: random.pick(ALGORITHMS),
    layout: random.pick(["csk", "csk", "ksk-zsk"] as const),
  });

export const disable: Operation = async ({ world, random, apex }) => {
  if (random.percent(50)) {
    await confirmDsGone(world.ground.db, world.target(apex));
    world.forgetDs();
  }
  return disableSigning(world.ground.db, world.target(apex), { force: random.percent(70) });
};

/** Off and on again, at once. */
export const renewSigning: Operation = async (place) => {
  const { world, apex } = place;
  const off = await disableSigning(world.ground.db, world.target(apex), { force: true });
  return off.ok ? enable(place) : off;
};

export const switchDenial: Operation = async (place) => {
  const { world, apex, zone } = place;
  const state = await readSigning(world.ground.db, zone.id);
  if (!state) return enable(place);
  const denial = state.denial === "nsec" ? "nsec3" : "nsec";
  return enableSigning(world.ground.db, world.target(apex), { denial });
};

export const rollOver: Operation = async ({ world, random, apex, zone }) => {
  const state = await readSigning(world.ground.db, zone.id);
  const roles = [...new Set(state?.keys.map(({ role }) => role) ?? [])];
  if (roles.length === 0) return refuse("the zone is not signed");
  return rollOverRole(world.ground.db, world.target(apex), random.pick(roles));
};

export const changeAlgorithm: Operation = async ({ world, random, apex, zone }) => {
  if (!zone.signed) return refuse("the zone is not signed");
  const layout = random.percent(50) ? { layout: random.pick(["csk", "ksk-zsk"] as const) } : {};
  const algorithm = random.pick(SIGNING_ALGORITHMS);
  return enableSigning(world.ground.db, world.target(apex), { algorithm, ...layout });
};

/** Keys from elsewhere, as files. */
export const bringKeys: Operation = async ({ world, random, apex, zone }) => {
  const state = zone.signed ? await readSigning(world.ground.db, zone.id) : undefined;
  const algorithm =
    random.percent(70) && state ? (state.keys.at(-1)!.algorithm as SigningAlgorithm) : random.pick(ALGORITHMS);
  const roles = random.pick<readonly KeyRole[]>([["csk"], ["ksk", "zsk"], ["zsk"]]);
  const files = roles.map((role) => {
    const key = { role, algorithm, privateKey: makeKey(algorithm) };
    return formatBindKey(apex, key, { created: world.now, isPublished: true, signs: true });
  });
  const keys = await Promise.all(files.map((file) => parseBindKey(apex, file)));
  const read = keys.map((key) => {
    if (!key.ok) throw new Error(JSON.stringify(key.error));
    return key.value;
  });
  return importKeys(world.ground.db, world.target(apex), read);
};

function makeKey(algorithm: SigningAlgorithm): KeyObject {
  if (algorithm === 8) return generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey;
  if (algorithm === 13) return generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  return generateKeyPairSync("ed25519").privateKey;
}

/** The operator's word on the DS, and what CDS asks for. */
export const speakOfDs: Operation = async ({ world, random, apex, zone }) => {
  const { db } = world.ground;
  const target = world.target(apex);
  const state = zone.signed ? await readSigning(db, zone.id) : undefined;
  if (!state) return refuse("the zone is not signed");
  const entries = state.keys.filter(({ role }) => role !== "zsk");
  const done = await random.weighted([
    [6, () => confirmDsSeen(db, target, random.pick(entries).keyTag)],
    [1, () => confirmDsGone(db, target)],
    [1, () => wishForDs(db, target, false)],
    [2, () => wishForDs(db, target, true)],
    [1, () => setDsAutomatic(db, target, random.percent(70))],
  ])();
  await updateHostedParent(db, target);
  return done;
};

/** Time passes; then upkeep does what is due. */
export const passTime: Operation = async ({ world, random }) => {
  if (world.leftMs < MINUTE_MS) return refuse("the present is reached");
  const ms = random.pick([10 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, 5 * HOUR_MS, 12 * HOUR_MS, 26 * HOUR_MS]);
  await world.pass(
    ms,
    random.weighted([
      [6, "follows"],
      [2, "stands"],
      [1, "silent"],
    ] as const),
  );
  return ok(undefined);
};

/** Keys that have been in use for long are replaced by upkeep. */
export const ageKeys: Operation = async (place: Place) => {
  const { world, zone } = place;
  await queryRows(
    world.ground.db,
    `update zone_keys set created_at = created_at - interval '91 days', since = since - interval '91 days'
      where zone_id = $1 and state = 'active'`,
    [zone.id],
  );
  await queryRows(world.ground.db, "update zone_signing set due_at = $1 where zone_id = $2", [world.now, zone.id]);
  return passTime(place);
};

/** What a fault in signing might leave: part of the chain and of the signatures missing, others of names that are not there. */
export const damageAndRepair: Operation = async ({ world, random, apex, zone }) => {
  if (!zone.signed) return refuse("the zone is not signed");
  const { db } = world.ground;
  const target = world.target(apex);
  const damaged = await changeZone(db, target, async (on) => {
    const found = await findSignedZone(on, target);
    if (!found.ok) return found;
    const derived = await readAllDerived(on, found.value.zone.id);
    const scheme = denialScheme("nsec3", apex);
    const moved = random.some(derived, 10).map((record) => {
      const name = randomName(random, apex, { owners: [], size: world.size });
      const owner = record.type === TYPE.NSEC3 ? scheme.ownerAt(scheme.positionOf(name)) : name;
      return { ...record, owner };
    });
    const owners = new Set(derived.map(({ owner }) => owner.key));
    const change = nextVersion(found.value.zone, target.signer);
    const wrong = { deleted: random.some(derived, 10), added: moved.filter(({ owner }) => !owners.has(owner.key)) };
    // A version in which nothing but the SOA is wrong is none that a release could leave.
    if (wrong.deleted.length + wrong.added.length === 0)
      return refuse(unacceptable("as-stated", { text: "nothing is damaged" }));
    return ok({ zone: found.value.zone, change: { ...change, derived: wrong }, warnings: [] });
  });
  if (!damaged.ok) return damaged;
  if (!(await repairZone(db, apex, target.signer))) throw new Error("what is wrong was not found");
  return ok(undefined);
};
