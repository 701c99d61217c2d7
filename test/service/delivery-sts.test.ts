import { afterAll, beforeAll, expect, test } from "vitest";
import { ok, type Result, refuse } from "../../services/core/result.ts";
import { type Sentence, sentence } from "../../services/core/sentences.ts";
import { makeFindPolicy } from "../../services/delivery/routing/sts-policies.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const policyFile = (mode: string) => ok(`version: STSv1\nmode: ${mode}\nmx: mail.example.org\nmax_age: 86400\n`);

function makeWorld() {
  const world = {
    texts: ["v=STSv1; id=1;"],
    file: policyFile("enforce") as Result<string, Sentence>,
    asked: 0,
    fetched: [] as string[],
  };
  const find = makeFindPolicy({
    db: database.db,
    observe: () => {},
    lookUpTexts: async () => {
      world.asked += 1;
      return world.texts;
    },
    fetchPolicy: async (url) => {
      world.fetched.push(url);
      return world.file.ok ? world.file : world.file;
    },
  });
  return { world, find };
}

const age = (domain: string, seconds: number) =>
  database.db.raw("update sts_policies set checked_at = checked_at - make_interval(secs => ?) where domain = ?", [
    seconds,
    domain,
  ]);

test("a policy is fetched once and kept for every worker", async () => {
  const { world, find } = makeWorld();
  expect(await find("a.example.org")).toMatchObject({ mode: "enforce", mx: ["mail.example.org"] });
  expect(await find("a.example.org")).toMatchObject({ mode: "enforce" });
  expect(await makeWorld().find("a.example.org")).toMatchObject({ mode: "enforce" });
  expect(world.fetched).toEqual(["https://mta-sts.a.example.org/.well-known/mta-sts.txt"]);
});

test("a new id leads to the new policy, within the hour", async () => {
  const { world, find } = makeWorld();
  await find("b.example.org");
  Object.assign(world, { texts: ["v=STSv1; id=2;"], file: policyFile("testing") });
  expect(await find("b.example.org")).toMatchObject({ mode: "enforce" });
  await age("b.example.org", 4_000);
  expect(await find("b.example.org")).toMatchObject({ mode: "testing" });
});

test("who hides the record or the file does not get rid of the policy", async () => {
  const { world, find } = makeWorld();
  await find("c.example.org");
  await age("c.example.org", 4_000);
  world.texts = [];
  expect(await find("c.example.org")).toMatchObject({ mode: "enforce" });
  world.texts = ["v=STSv1; id=3;"];
  world.file = refuse(sentence("as-stated", { text: "ECONNREFUSED" }));
  expect(await find("c.example.org")).toMatchObject({ mode: "enforce" });
  await database
    .db("sts_policies")
    .where({ domain: "c.example.org" })
    .update({ expires_at: new Date(0) });
  expect(await find("c.example.org")).toEqual({ mode: "none", mx: [], failure: "sts-policy-fetch-error" });
});

test("a domain without one is not asked again and again", async () => {
  const { world, find } = makeWorld();
  world.texts = [];
  expect(await find("d.example.org")).toBeUndefined();
  expect(await find("d.example.org")).toBeUndefined();
  expect(world.asked).toBe(1);
  expect(world.fetched).toEqual([]);
});

test("a policy that cannot be compared is not asked for with every session, and by many at once only once", async () => {
  const { world, find } = makeWorld();
  await Promise.all([find("e.example.org"), find("e.example.org"), find("e.example.org")]);
  expect(world.fetched).toHaveLength(1);
  await age("e.example.org", 4_000);
  Object.assign(world, { asked: 0, texts: ["v=STSv1; id=5;"], file: refuse(sentence("timeout")) });
  for (let session = 0; session < 3; session += 1) {
    expect(await find("e.example.org")).toMatchObject({ mode: "enforce" });
  }
  expect([world.asked, world.fetched.length]).toEqual([1, 2]);
});

test("what is no policy file, or of a host without a valid certificate, is none", async () => {
  const { world, find } = makeWorld();
  world.file = ok("version: STSv1\nmode: enforce\nmax_age: 86400\n");
  expect(await find("f.example.org")).toEqual({ mode: "none", mx: [], failure: "sts-policy-invalid" });
  world.file = refuse(sentence("certificate", { error: "CERT_HAS_EXPIRED" }));
  expect(await find("g.example.org")).toEqual({ mode: "none", mx: [], failure: "sts-webpki-invalid" });
});
