import { afterAll, beforeAll, expect, it } from "vitest";
import { runSequence } from "../signing/sequence.ts";
import { type Ground, openGround } from "../signing/world.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { seedOfRun } from "../support/property.ts";

/** `npm run check:signing` goes on for thousands. */
const STEPS = 50;
const missing = ["dnssec-verify", "ldns-verify-zone"].filter((program) => !isInstalled(program));
const unasked = missing.length > 0 ? ` (not asked, for they are not installed: ${missing.join(", ")})` : "";

let database: TestDatabase;
let ground: Ground;

beforeAll(async () => {
  database = await createTestDatabase();
  ground = await openGround(database);
});
afterAll(async () => {
  await ground.close();
  await database.drop();
});

it(`a zone is sound as it is transferred after each step of random sequences${unasked}`, async () => {
  let steps = 0;
  for (let index = 0; steps < STEPS; index += 1) {
    const id = { seed: seedOfRun, index };
    const { failure } = await runSequence(ground, id, () => {
      steps += 1;
      return steps < STEPS;
    });
    const again = `npm run check:signing -- --replay ${id.seed}:${index}`;
    expect(failure, again).toBeUndefined();
  }
});
