import { deleteZone } from "../../services/operations/dns/zone-deletion.ts";
import { importZone } from "../../services/operations/dns/zone-files.ts";
import { SCOPE } from "../support/dns-server.ts";
import { Random } from "./random.ts";
import { randomZone } from "./random-records.ts";
import type { Operation } from "./record-operations.ts";
import * as records from "./record-operations.ts";
import * as signing from "./signing-operations.ts";
import { type Ground, World } from "./world.ts";

/** What sequences draw from, by weight. */
const OPERATIONS: readonly (readonly [weight: number, name: string, operation: Operation])[] = [
  [20, "edit", records.edit],
  [6, "batch", records.batch],
  [5, "delete-many", records.deleteMany],
  [9, "zone-file", records.putFile],
  [2, "import-over", records.importOver],
  [6, "update-soa", records.updateSoa],
  [8, "rollback", records.rollBack],
  [3, "preview", records.preview],
  [2, "suspend-or-resume", records.suspend],
  [2, "race", records.race],
  [3, "child-zone", records.childZone],
  [3, "enable", signing.enable],
  [2, "disable", signing.disable],
  [1, "off-and-on", signing.renewSigning],
  [4, "switch-denial", signing.switchDenial],
  [4, "rollover", signing.rollOver],
  [2, "algorithm", signing.changeAlgorithm],
  [3, "import-keys", signing.bringKeys],
  [4, "speak-of-ds", signing.speakOfDs],
  [14, "pass-time", signing.passTime],
  [2, "age-keys", signing.ageKeys],
  [2, "damage-and-repair", signing.damageAndRepair],
];

/** How large the zones of sequences are, by weight, and how many steps these have: a step of a large zone takes long. */
export const SIZES: readonly {
  readonly weight: number;
  readonly least: number;
  readonly most: number;
  readonly steps: number;
}[] = [
  { weight: 55, least: 1, most: 10, steps: 40 },
  { weight: 30, least: 11, most: 40, steps: 40 },
  { weight: 11, least: 41, most: 200, steps: 25 },
  { weight: 3, least: 201, most: 1_000, steps: 12 },
  { weight: 1, least: 1_001, most: 3_000, steps: 8 },
];

/** A sequence of steps, which follows from these numbers. */
export interface SequenceId {
  readonly seed: number;
  readonly index: number;
  /** The steps that are done, by their places; all unless given. */
  readonly only?: readonly number[] | undefined;
}

export interface SequenceOutcome {
  readonly size: number;
  /** Steps that were done, by the operation's name. */
  readonly done: Readonly<Record<string, number>>;
  /** Attempts that were refused; another operation was tried in their place. */
  readonly refused: number;
  /** What went wrong, after which step; undefined when nothing did. */
  readonly failure?: {
    readonly places: readonly number[];
    readonly operation: string;
    readonly complaints: readonly string[];
  };
}

/** At one place so many operations are tried until one is accepted. */
const TRIES = 6;

/**
 * Runs a sequence: a zone is made and signed, then one operation after another changes it, and after each the zone as it is
 * transferred is judged.
 * @param onStep hears of each step; false ends the sequence
 */
export async function runSequence(
  ground: Ground,
  id: SequenceId,
  onStep: () => boolean = () => true,
): Promise<SequenceOutcome> {
  const random = new Random(id.seed, id.index);
  const { least, most, steps } = random.weighted(SIZES.map((size) => [size.weight, size] as const));
  const size = random.from(least, most);
  const world = new World(ground, size);
  const done: Record<string, number> = {};
  const places: number[] = [];
  let refused = 0;
  let operation = "begin";
  const failed = (complaints: readonly string[]) => ({
    size,
    done,
    refused,
    failure: { places, operation, complaints },
  });
  try {
    await begin(world, random);
    for (let place = 0; place < steps; place += 1) {
      if (id.only && !id.only.includes(place)) continue;
      places.push(place);
      const ofStep = new Random(id.seed, id.index, place);
      let isDone = false;
      for (let tries = 0; tries < TRIES && !isDone; tries += 1) {
        const [name, run] = draw(ofStep, place);
        operation = name;
        isDone = await isAccepted(world, ofStep, run);
        if (!isDone) refused += 1;
      }
      if (!isDone) operation = "nothing";
      done[operation] = (done[operation] ?? 0) + 1;
      const complaints = await world.judge();
      if (complaints.length > 0) return failed(complaints);
      if (!onStep()) break;
    }
  } catch (error) {
    return failed([(error as Error).stack ?? String(error)]);
  } finally {
    await end(world);
  }
  return { size, done, refused };
}

/** Most sequences begin by signing; in some the zone lives unsigned for a while. */
function draw(random: Random, place: number): readonly [string, Operation] {
  if (place === 0 && random.percent(85)) return ["enable", signing.enable];
  return random.weighted(OPERATIONS.map(([weight, name, operation]) => [weight, [name, operation] as const] as const));
}

async function isAccepted(world: World, random: Random, run: Operation): Promise<boolean> {
  const child = await world.find(world.child);
  const apex = child && random.percent(25) ? world.child : world.zone;
  const zone = await world.find(apex);
  if (!zone) throw new Error("the zone is gone");
  return (await run({ world, random, apex, zone })).ok;
}

async function begin(world: World, random: Random): Promise<void> {
  const { db } = world.ground;
  const text = world.fileOf(world.zone, randomZone(random, world.zone, world.size), { minimum: 60, ttl: 300 });
  const made = await importZone(db, { resellerId: SCOPE.resellerId, crmId: "company" }, world.target(world.zone), {
    text,
    now: world.now,
  });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  const complaints = await world.judge();
  if (complaints.length > 0) throw new Error(complaints.join("\n"));
}

async function end(world: World): Promise<void> {
  for (const apex of [world.child, world.zone]) {
    if (await world.find(apex)) await deleteZone(world.ground.db, world.target(apex));
  }
}

/** A shorter sequence that fails as well: steps are left out, one after the other, for as long as there is time. */
export async function shrink(
  ground: Ground,
  id: SequenceId,
  places: readonly number[],
  forMs: number,
): Promise<SequenceOutcome | undefined> {
  const deadline = performance.now() + forMs;
  let shortest: SequenceOutcome | undefined;
  let kept = [...places];
  for (let at = kept.length - 2; at >= 0 && performance.now() < deadline; at -= 1) {
    const only = kept.filter((_, index) => index !== at);
    const outcome = await runSequence(ground, { ...id, only });
    if (!outcome.failure) continue;
    shortest = outcome;
    kept = [...outcome.failure.places];
    at = Math.min(at, kept.length - 1);
  }
  return shortest;
}
