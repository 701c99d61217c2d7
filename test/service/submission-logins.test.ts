import { afterAll, beforeAll, expect, it } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { Authoriser } from "../../services/submission/authorise.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/stack.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

it("a client that leaves while its wrong key is looked up leaves no count behind", async () => {
  const authoriser = new Authoriser(database.db, KeyRing.ofSecret("a secret for tests only"), () => {});
  const dialogue = { id: "dialogue", clientAddress: "192.0.2.1" };
  const attempt = async (password: string) => {
    const outcome = await authoriser.authorise({ username: "test-1", password, actAs: "test-1" }, dialogue);
    return "refusal" in outcome ? outcome.refusal.code : 235;
  };
  const busy = await database.db.transaction();
  await busy.raw("lock table instances in access exclusive mode");
  const looking = attempt("wrong 1");
  await eventually(
    () => database.db("pg_locks").where({ granted: false }).whereRaw("relation = 'instances'::regclass"),
    (waiting) => waiting.length > 0,
  );
  authoriser.forget(dialogue.id);
  await busy.rollback();
  expect(await looking).toBe(535);
  // Two more do not make three: the third in a dialogue would end it.
  expect(await attempt("wrong 2")).toBe(535);
  expect(await attempt("wrong 3")).toBe(535);
  expect(await attempt("wrong 4")).toBe(421);
});
