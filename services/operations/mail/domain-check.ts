import { TYPE } from "../../core/dns/rr-types.ts";
import type { DkimAlgorithm } from "../../core/mail/domain-setup/dkim-rotation.ts";
import { type KeySighting, rotationStep } from "../../core/mail/domain-setup/dkim-rotation.ts";
import { planSetup, type SetupItem, setupQuestions } from "../../core/mail/domain-setup/domain-setup.ts";
import { setupValue } from "../../core/mail/domain-setup/record-values.ts";
import { expectedDkim } from "../../core/mail/sender-records.ts";
import { upkeepPolicy } from "../../platform/config/domain-upkeep-policy.ts";
import type { PublicLook } from "../../platform/lookups/authoritative-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  addNewKeys,
  type FurtherKey,
  listFurtherKeys,
  removeDoneKeys,
  replaceLostKeys,
  takeRotationStep,
} from "../../store/mail/instances/dkim-keys.ts";
import {
  type DomainUpkeep,
  findDomainUpkeep,
  noteChecks,
  noteStsGone,
  setStsExchangers,
} from "../../store/mail/instances/domain-upkeep.ts";
import { type InstanceDomain, listInstanceDomains } from "../../store/mail/instances/instances.ts";
import type { WriteZone } from "./domain-hosting.ts";
import { type DomainToSetUp, keepPublished, type SetupSurroundings, wantsOf } from "./domain-setup.ts";
import { checkCertificate } from "./host-certificate.ts";
import { readFindings, readPublic, sightKey, spfLookups } from "./public-records.ts";

const DAY_MS = 86_400_000;
/** A look that took longer is nothing to act on. */
const LATE_MS = 60_000;
const BOTH: readonly DkimAlgorithm[] = ["rsa", "ed25519"];

export interface CheckSurroundings extends SetupSurroundings {
  readonly write: WriteZone;
}

/** What a look at a domain came to. */
interface DomainChecked {
  readonly checks: readonly SetupItem[];
  /** Selectors that took over, and those that went. */
  readonly tookOver: readonly string[];
  readonly removed: readonly string[];
}

/** The sender domain of an instance with its upkeep; undefined when it has none of the name. */
export async function findDomain(db: Db, instanceId: number, domain: string): Promise<DomainToSetUp | undefined> {
  const own = (await listInstanceDomains(db, instanceId)).find((one) => one.domain === domain);
  const upkeep = own && (await findDomainUpkeep(db, { instanceId, domain }));
  return own && upkeep && { own, upkeep };
}

/**
 * Looks after a domain: has the keys that it should have made, keeps what follows published, looks at what the world sees,
 * and takes the steps of its keys that follow from that. Whatever of it was done before is not done again, so that it may
 * end anywhere.
 */
export async function checkDomain(
  surroundings: CheckSurroundings,
  own: InstanceDomain,
  { upkeep: given, now }: { readonly upkeep: DomainUpkeep; readonly now: Date },
): Promise<DomainChecked> {
  const { db } = surroundings;
  const look = surroundings.openLook();
  await makeKeys(surroundings, given, now);
  const upkeep = await noteExchangers(db, look, given);
  await keepPublished(surroundings, { own, upkeep }, surroundings.write);
  const keys = await listFurtherKeys(db, upkeep);
  const seen = await sightKeys(look, own.domain, keys);
  const policy = { keepOldMs: upkeepPolicy.keepOldKeyDays * DAY_MS, lookEveryMs: upkeepPolicy.newKeySeconds * 1000 };
  const found = rotationStep(keys, seen, now, policy);
  // What was seen too long ago is no reason to sign with a key.
  const step = surroundings.clock.nowMs() - now.getTime() > LATE_MS ? { ...found, takeOver: [] } : found;
  await takeRotationStep(db, upkeep, step, now);
  const removed = await removeKeys(surroundings, { own, upkeep }, look);
  const changed = (await findDomain(db, upkeep.instanceId, own.domain)) ?? { own, upkeep };
  const wants = await wantsOf(surroundings, changed, false);
  const published = readFindings(await readPublic(look, setupQuestions(wants)));
  const planned = await planSetup(wants, published, spfLookups(look));
  const checks = await checkCertificate(surroundings, upkeep, { checks: planned, now });
  const isStsLeft = checks.some(({ part }) => part === "mta-sts" || part === "mta-sts-host");
  if (wants.sts?.isOver && !isStsLeft) await noteStsGone(db, upkeep);
  const linksReady = checks.some(({ part, action }) => part === "tracking" && action === "keep");
  const dueAt = new Date(
    Math.min(now.getTime() + upkeepPolicy.checkSeconds * 1000, step.lookAgainAt?.getTime() ?? Number.POSITIVE_INFINITY),
  );
  await noteChecks(db, upkeep, { checks, linksReady, at: now, dueAt });
  const tookOver = keys.filter(({ id }) => step.takeOver.includes(id)).map(({ selector }) => selector);
  return { checks, tookOver, removed };
}

/**
 * Begins a rotation: keys of both algorithms that are to take over. Those that nobody can open any more are replaced at once.
 * @returns how many keys that concerns; none while one is under way
 */
export async function startRotation(
  { db, keyRing }: Pick<CheckSurroundings, "db" | "keyRing">,
  upkeep: DomainUpkeep,
  now: Date,
): Promise<number> {
  const replaced = await replaceLostKeys(db, keyRing, upkeep, now);
  if (replaced > 0) return replaced;
  return addNewKeys(db, keyRing, upkeep, { algorithms: BOTH, now });
}

/** An Ed25519 key beside the RSA key of before (RFC 8463 §3), and both anew when their time is over. */
async function makeKeys({ db, keyRing }: CheckSurroundings, upkeep: DomainUpkeep, now: Date): Promise<void> {
  const keys = await listFurtherKeys(db, upkeep);
  if (keys.some(({ state }) => state === "new")) return;
  const { rotateDays, rotatedAt, zoneId } = upkeep;
  const isOver = rotateDays !== null && zoneId !== null && rotatedAt.getTime() + rotateDays * DAY_MS <= now.getTime();
  if (isOver) await startRotation({ db, keyRing }, upkeep, now);
  else if (!keys.some(({ algorithm, state }) => algorithm === "ed25519" && state === "signing")) {
    await addNewKeys(db, keyRing, upkeep, { algorithms: ["ed25519"], now });
  }
}

async function sightKeys(
  look: PublicLook,
  domain: string,
  keys: readonly FurtherKey[],
): Promise<ReadonlyMap<number, KeySighting>> {
  const fresh = keys.filter(({ state }) => state === "new");
  const seen = fresh.map(async ({ id, selector, record }) => {
    return [id, await sightKey(look, expectedDkim(domain, selector, record).name, record)] as const;
  });
  return new Map(await Promise.all(seen));
}

/** Takes keys that are done with out of the zone, and forgets those that the world sees no more. */
async function removeKeys(surroundings: CheckSurroundings, to: DomainToSetUp, look: PublicLook): Promise<string[]> {
  const done = (await listFurtherKeys(surroundings.db, to.upkeep)).filter(({ state }) => state === "done");
  if (done.length === 0) return [];
  await keepPublished(surroundings, to, surroundings.write);
  const gone: FurtherKey[] = [];
  for (const key of done) {
    const answer = await look.ask(expectedDkim(to.own.domain, key.selector, key.record).name, TYPE.TXT);
    const isAbsent = answer.servers.every(({ answered, records }) => answered && records.length === 0);
    if (answer.servers.length > 0 && isAbsent) gone.push(key);
  }
  await removeDoneKeys(
    surroundings.db,
    to.upkeep.instanceId,
    gone.map(({ id }) => id),
  );
  return gone.map(({ selector }) => selector);
}

async function noteExchangers(db: Db, look: PublicLook, upkeep: DomainUpkeep): Promise<DomainUpkeep> {
  const found = await findExchangers(look, upkeep);
  if (found !== upkeep) await setStsExchangers(db, upkeep, found.stsExchangers);
  return found;
}

/** The policy for mail to a domain names the exchangers that it has; where nobody says, it stays as it is. */
export async function findExchangers(look: PublicLook, upkeep: DomainUpkeep): Promise<DomainUpkeep> {
  if (upkeep.stsMode === null) return upkeep;
  const records = await look.resolve(upkeep.domain, TYPE.MX);
  if (records === undefined) return upkeep;
  const names = records.map((rdata) => setupValue(TYPE.MX, rdata).replace(/^\d+ /, ""));
  const exchangers = [...new Set(names.filter((name) => name !== ""))].sort();
  if (JSON.stringify(exchangers) === JSON.stringify(upkeep.stsExchangers)) return upkeep;
  return { ...upkeep, stsExchangers: exchangers };
}
