import type { DomainName } from "../../services/core/dns/name.ts";
import { type ResourceRecord, rrsetKey } from "../../services/core/dns/record.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import type { RecordEdits, StoredRecord } from "../../services/core/dns/zone-edit.ts";
import { ok, type Result } from "../../services/core/result.ts";
import { deleteZone } from "../../services/operations/dns/zone-deletion.ts";
import { importZone, replaceZone } from "../../services/operations/dns/zone-files.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { rollBackZone } from "../../services/operations/dns/zone-rollback.ts";
import { changeSoa } from "../../services/operations/dns/zone-soa.ts";
import { readAllRecords } from "../../services/store/dns/records.ts";
import { setZoneSuspended, type Zone } from "../../services/store/dns/zones.ts";
import { SCOPE } from "../support/dns-server.ts";
import type { Random } from "./random.ts";
import { lawful, randomDraft, randomName, randomZone } from "./random-records.ts";
import type { World } from "./world.ts";

/** Where an operation is done, and what it draws its choices from. */
export interface Place {
  readonly world: World;
  readonly random: Random;
  readonly apex: DomainName;
  readonly zone: Zone;
}

/** An operation says whether it was accepted. */
export type Operation = (place: Place) => Promise<Result<unknown, unknown>>;

const NO_EDITS: RecordEdits = { creations: [], modifications: [], deletionIds: [] };
const MINIMA = [0, 30, 60, 300, 3_600];
const ZONE_TTLS = [60, 300, 3_600, 86_400];
const OWNER = { resellerId: SCOPE.resellerId, crmId: "company" };

async function recordsOf({ world, zone }: Place): Promise<StoredRecord[]> {
  return readAllRecords(world.ground.db, zone.id);
}

function change(place: Place, edits: RecordEdits) {
  return changeRecords(place.world.ground.db, place.world.target(place.apex), edits, place.world.now);
}

/** A few edits of all kinds at once. */
export async function someEdits(place: Place, most: number): Promise<RecordEdits> {
  const { random, apex, zone, world } = place;
  const records = await recordsOf(place);
  const owners = records.map(({ owner }) => owner);
  const edits = { creations: [], modifications: [], deletionIds: [] } as {
    [part in keyof RecordEdits]: RecordEdits[part][number][];
  };
  const used = new Set<number>();
  for (let left = random.from(1, most); left > 0; left -= 1) {
    const record = records.length > 0 ? random.pick(records) : undefined;
    const isFree = record && !used.has(record.id) && !isLastNs(record, records, zone);
    const kind = random.below(10);
    if (kind < 5 || !isFree) {
      edits.creations.push(randomDraft(random, randomName(random, apex, { owners, size: world.size }), apex));
      continue;
    }
    used.add(record.id);
    if (kind < 8) edits.deletionIds.push(record.id);
    else {
      const newOwner = random.percent(50) ? record.owner : randomName(random, apex, { owners, size: world.size });
      const draft = random.percent(40)
        ? { ...record, ttl: random.pick(ZONE_TTLS) }
        : randomDraft(random, newOwner, apex);
      edits.modifications.push({ id: record.id, newOwner: draft.owner, draft: () => ok(draft) });
    }
  }
  return edits as RecordEdits;
}

function isLastNs(record: ResourceRecord, records: readonly ResourceRecord[], { apex }: Zone): boolean {
  const key = rrsetKey(apex, TYPE.NS);
  const isApexNs = ({ owner, type }: ResourceRecord) => rrsetKey(owner, type) === key;
  return isApexNs(record) && records.filter(isApexNs).length === 1;
}

/** A master file: some of the zone's records, some new ones, perhaps another SOA. */
async function someFile(place: Place): Promise<string> {
  const { random, apex, world, zone } = place;
  const records = (await recordsOf(place)).filter(
    (record) => record.owner.key === apex.key || !place.random.percent(100 - keptOf(random)),
  );
  const size = Math.ceil((world.size * random.pick([0, 5, 30])) / 100);
  const merged = lawful([...records, ...randomZone(random, apex, size)], apex);
  const isSame = random.percent(40);
  const minimum = isSame ? zone.soa.minimum : random.pick(MINIMA);
  const ttl = isSame ? zone.ttl : random.pick(ZONE_TTLS);
  return world.fileOf(apex, merged, { minimum, ttl });
}

function keptOf(random: Random): number {
  return random.pick([100, 95, 95, 90, 60, 10]);
}

export const edit: Operation = async (place) => change(place, await someEdits(place, 3));
export const batch: Operation = async (place) => change(place, await someEdits(place, 25));

/** All of a kind goes at once: a part of the zone, what lies below a name, cuts, wildcards. */
export const deleteMany: Operation = async (place) => {
  const { random, apex } = place;
  const records = (await recordsOf(place)).filter(({ owner, type }) => owner.key !== apex.key || type !== TYPE.NS);
  if (records.length === 0) return ok(undefined);
  const { key } = random.pick(records).owner;
  const gone = random.pick([
    () => records,
    () => random.some(records, 80),
    () => records.filter(({ owner }) => owner.key.endsWith(key)),
    () => records.filter(({ owner }) => owner.key === key),
    () => records.filter(({ type }) => type === TYPE.NS || type === TYPE.DNAME),
    () => records.filter(({ owner }) => owner.key.startsWith("\u0001*")),
  ])();
  return change(place, { ...NO_EDITS, deletionIds: gone.map(({ id }) => id) });
};

export const putFile: Operation = async (place) =>
  replaceZone(place.world.ground.db, place.world.target(place.apex), { text: await someFile(place) }, place.world.now);

export const importOver: Operation = async (place) =>
  importZone(place.world.ground.db, OWNER, place.world.target(place.apex), {
    text: await someFile(place),
    now: place.world.now,
  });

export const updateSoa: Operation = async ({ world, random, apex, zone }) => {
  const { ground, now } = world;
  const serial = random.percent(30) ? (zone.soa.serial + random.from(1, 1_000)) % 2 ** 32 : zone.soa.serial;
  const soa = { ...zone.soa, serial, minimum: random.pick(MINIMA), retry: random.from(600, 900) };
  return changeSoa(ground.db, world.target(apex), { crmId: "company", soa, ttl: random.pick(ZONE_TTLS) }, now);
};

export const rollBack: Operation = async (place) => {
  const { world, random, apex, zone } = place;
  const history = await world.ground.db("zone_journal").where({ zone_id: zone.id }).select("serial");
  const serial = random.pick([...history.map((row: { serial: number }) => row.serial), zone.soa.serial]);
  return rollBackZone(world.ground.db, world.target(apex), serial, world.now);
};

/** A preview leaves all as it is. */
export const preview: Operation = async (place) => {
  const { world, apex } = place;
  const isBatch = place.random.percent(50);
  const [edits, text] = [await someEdits(place, 8), await someFile(place)];
  const target = { ...world.target(apex), quotas: "look" as const };
  return isBatch
    ? changeRecords(world.ground.db, target, edits, world.now)
    : replaceZone(world.ground.db, target, { text }, world.now);
};

export const suspend: Operation = async ({ world, apex, zone }) => {
  const which = { scope: SCOPE, apex, domain: zone.name, crmId: "company" };
  return setZoneSuspended(world.ground.db, which, !zone.suspended);
};

/** Changes of every kind at once, upkeep among them: some of them meet, and are made anew. */
export const race: Operation = async (place) => {
  const { world, apex } = place;
  const { db } = world.ground;
  const [first, second, text] = [await someEdits(place, 3), await someEdits(place, 3), await someFile(place)];
  const all = await Promise.all([
    change(place, first),
    change(place, second),
    place.random.percent(50) ? updateSoa(place) : replaceZone(db, world.target(apex), { text }, world.now),
    world.keepUp("follows"),
  ]);
  return all[0] as Result<unknown, unknown>;
};

/** The zone below: made and delegated, or deleted. */
export const childZone: Operation = async ({ world, random }) => {
  const { db } = world.ground;
  const { child, now } = world;
  const target = world.target(child);
  if (await world.find(child)) {
    const deleted = await deleteZone(db, target);
    return deleted;
  }
  const text = world.fileOf(child, randomZone(random, child, random.from(1, 5)), { minimum: 60, ttl: 300 });
  const made = await importZone(db, OWNER, target, { text, now });
  if (!made.ok) return made;
  const [ns] = randomZone(random, child, 0);
  const cut = { owner: child, type: TYPE.NS, ttl: 300, rdata: ns!.rdata };
  await changeRecords(db, world.target(world.zone), { ...NO_EDITS, creations: [cut] }, now);
  return made;
};
