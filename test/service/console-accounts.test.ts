import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { JobRunner } from "../../services/console/jobs.ts";
import { unacceptable } from "../../services/core/refusal.ts";
import { ok, refuse } from "../../services/core/result.ts";
import { sentence } from "../../services/core/sentences.ts";
import { jobError, purgeJobs } from "../../services/store/jobs.ts";
import { PASSWORD, startConsole, type TestConsole } from "../support/console.ts";
import { operatorOf } from "../support/operator.ts";
import { eventually } from "../support/stack.ts";

/** deploy/citus.sql takes the trigger off: from then on whoever deletes a row of instances deletes its users. */
const isSpread = inject("citusWorkers").length > 0;
const whyNotSpread = isSpread ? " (skipped on Citus, where no trigger sees to it)" : "";

let palomar: TestConsole;

beforeAll(async () => {
  palomar = await startConsole();
});
afterAll(async () => {
  await palomar.stop();
});

describe("accounts", () => {
  test("the operator adds one of every role, with a password made or given", async () => {
    const { operator } = palomar.users;
    const made = await operator.call("POST", "/users", { login: "u1", role: "instance", scope: "north" });
    expect(made).toMatchObject({
      status: 200,
      body: { login: "u1", role: "instance", scope: "north", password: expect.stringMatching(/^[\w-]{20}$/) },
    });
    const given = { login: "u2", role: "company", scope: "one/acme", password: PASSWORD };
    expect((await operator.call("POST", "/users", given)).body.password).toBe(PASSWORD);
    expect((await palomar.signIn("u2")).csrf).toBeTruthy();
    expect((await operator.call("GET", "/users")).body.users).toContainEqual(
      expect.objectContaining({
        login: "u2",
        role: "company",
        scope: "one/acme",
        totp: false,
        seen: expect.any(String),
      }),
    );
  });

  test.each([
    [{ role: "operator" }, "missing field: login"],
    [{ login: "no space", role: "operator" }, "invalid field: login: must have 1 to 64 letters, digits and . _ @ -"],
    [{ login: "x", role: "operator", scope: "one" }, "invalid field: scope: operators have none"],
    [{ login: "x", role: "reseller" }, "missing field: scope"],
    [{ login: "x", role: "reseller", scope: "three" }, "invalid field: scope: there is no reseller three"],
    [{ login: "x", role: "company", scope: "two/other" }, "invalid field: scope: there is no company two/other"],
    [{ login: "x", role: "company", scope: "one/acme/x" }, "invalid field: scope: there is no company one/acme/x"],
    [{ login: "x", role: "company", scope: "one" }, "invalid field: scope: there is no company one"],
    [{ login: "one", role: "operator" }, "user one already exists"],
    [{ login: "x", role: "operator", password: "short" }, "invalid field: password: must have at least 12 characters"],
  ])("%j is refused", async (fields, msg) => {
    expect(await palomar.users.operator.call("POST", "/users", fields)).toMatchObject({ status: 400, body: { msg } });
  });

  test("a reseller manages its companies' people, and sees nobody else", async () => {
    const { one, two } = palomar.users;
    const added = await one.call("POST", "/users", { login: "u3", role: "company", scope: "one/other" });
    expect(added.status).toBe(200);
    const logins = async (who: typeof one) =>
      (await who.call("GET", "/users")).body.users.map(({ login }: { login: string }) => login);
    expect(await logins(one)).toEqual(expect.arrayContaining(["acme", "u3"]));
    expect(await logins(one)).not.toContain("one");
    expect(await logins(two)).toEqual([]);
    for (const scope of ["two/acme", "one"]) {
      expect((await one.call("POST", "/users", { login: "u4", role: "company", scope })).status).toBe(403);
    }
    expect((await one.call("POST", "/users", { login: "u4", role: "operator" })).status).toBe(403);
    expect((await two.call("DELETE", "/users/u3")).status).toBe(404);
    expect((await two.call("POST", "/users/u3/reset")).status).toBe(404);
    expect((await one.call("DELETE", "/users/operator")).status).toBe(404);
    const reset = await one.call("POST", "/users/u3/reset");
    expect(reset.body).toMatchObject({ login: "u3", password: expect.any(String) });
    expect(await one.call("DELETE", "/users/u3")).toMatchObject({ status: 200, body: { msg: "deleted" } });
    expect((await one.call("DELETE", "/users/u3")).status).toBe(404);
  });

  test.each(["acme", "north"] as const)("%s has no accounts to manage", async (who) => {
    expect((await palomar.users[who].call("GET", "/users")).status).toBe(403);
  });

  test("nobody deletes the own account, and a deleted one's sessions end", async () => {
    const { operator } = palomar.users;
    expect((await operator.call("DELETE", "/users/operator")).status).toBe(400);
    await operator.call("POST", "/users", { login: "u5", role: "operator", password: PASSWORD });
    const session = await palomar.signIn("u5");
    await operator.call("DELETE", "/users/u5");
    expect((await session.call("GET", "/session")).status).toBe(401);
  });
});

describe("palomar user", () => {
  const palomarUser = (...words: string[]) => operatorOf(palomar.context)("user", ...words);

  test("adds, lists, resets and removes accounts", async () => {
    const added = await palomarUser("add", "cli", "--role", "instance", "--scope", "south");
    expect(added.json).toEqual({ login: "cli", role: "instance", scope: "south", password: expect.any(String) });
    const listed = (await palomarUser("list")).json;
    expect(listed).toContainEqual({ login: "cli", role: "instance", scope: "south", totp: false, seen: null });
    const reset = (await palomarUser("reset", "cli")).json as { password: string };
    const signIn = (password: string) => palomar.call("POST", "/session", { login: "cli", password });
    expect((await signIn((added.json as { password: string }).password)).status).toBe(401);
    expect((await signIn(reset.password)).status).toBe(200);
    const { audit } = (await palomar.users.operator.call("GET", "/audit?limit=50")).body;
    expect(
      audit.find(
        ({ object, action }: { object: string; action: string }) => `${action} ${object}` === "user.reset cli",
      ),
    ).toMatchObject({ actor: "palomar user", outcome: "done" });
    expect((await palomarUser("remove", "cli")).json).toEqual({ login: "cli" });
    expect((await signIn(reset.password)).status).toBe(401);
  });

  test.each([
    [["add", "cli", "--role", "reseller", "--scope", "nobody"], "there is no reseller nobody"],
    [["add", "cli", "--role", "operator", "--scope", "one"], "operators have no --scope, all others need one"],
    [["add", "one", "--role", "operator"], "user one already exists"],
    [["reset", "nobody"], "there is no user nobody"],
    [["remove", "nobody"], "there is no user nobody"],
  ])("%j is refused", async (words, reason) => {
    expect((await palomarUser(...words)).refused).toBe(reason);
  });
});

describe("accounts go with what they are confined to", () => {
  test("a company's follow its crm_id, and are gone with it", async () => {
    const { db } = palomar.database;
    const add = (login: string, role: string, scope: string) =>
      palomar.users.operator.call("POST", "/users", { login, role, scope });
    await add("gone1", "company", "two/acme");
    await db("companies").where({ reseller_id: "two", crm_id: "acme" }).update({ crm_id: "renamed" });
    expect(await db("users").where({ login: "gone1" }).first("scope")).toEqual({ scope: "two/renamed" });
    await db("companies").where({ reseller_id: "two", crm_id: "renamed" }).delete();
    await db("resellers").insert({ id: "brief", name: "Brief", key_hash: Buffer.from("x") });
    await add("gone2", "reseller", "brief");
    await db("resellers").where({ id: "brief" }).delete();
    expect(await db("users").where("login", "like", "gone%")).toEqual([]);
  });

  test.skipIf(isSpread)(`an instance's are gone with it${whyNotSpread}`, async () => {
    const { db } = palomar.database;
    await db("instances").insert({ name: "brief", host: "brief.test", key_hash: Buffer.from("x") });
    await palomar.users.operator.call("POST", "/users", { login: "gone3", role: "instance", scope: "brief" });
    await db("instances").where({ name: "brief" }).delete();
    expect(await db("users").where("login", "like", "gone%")).toEqual([]);
  });
});

describe("what is told of who is gone is its reseller's, then the operators'", () => {
  const inserted = { at: new Date(), actor: "somebody", address: "127.0.0.1", action: "trace" };
  const job = { kind: "trace", owner: "somebody", heartbeat_at: new Date(), created_at: new Date() };

  async function tell(object: string, scope_role: string, scope: string): Promise<void> {
    const { db } = palomar.database;
    await db("console_audit").insert({ ...inserted, object, scope_role, scope });
    await db("console_jobs").insert({ id: randomUUID(), ...job, object, scope_role, scope });
  }

  /** Whose the entry and the job about an object are. */
  async function toldTo(object: string): Promise<unknown[]> {
    const { db } = palomar.database;
    const columns = ["scope_role as role", "scope"];
    return [
      ...(await db("console_audit").where({ object }).select(columns)),
      ...(await db("console_jobs").where({ object }).select(columns)),
    ];
  }
  const company = (crm_id: string) => ({
    ...{ reseller_id: "passing", crm_id, name: crm_id, apikey_sealed: "x", apikey_hash: Buffer.from(crm_id) },
  });
  const both = (role: string, scope: string | null) => [
    { role, scope },
    { role, scope },
  ];

  test("a company's follow its crm_id, and the next one of that name reads none of them", async () => {
    const { db } = palomar.database;
    await db("resellers").insert({ id: "passing", name: "Passing", key_hash: Buffer.from("x") });
    await db("companies").insert(company("one"));
    await tell("of one", "company", "passing/one");
    await tell("of the reseller", "reseller", "passing");
    await db("companies").where({ reseller_id: "passing" }).update({ crm_id: "two" });
    expect(await toldTo("of one")).toEqual(both("company", "passing/two"));
    await db("companies").where({ reseller_id: "passing" }).delete();
    expect(await toldTo("of one")).toEqual(both("reseller", "passing"));
    await db("companies").insert(company("last"));
    await tell("of last", "company", "passing/last");
    await db("resellers").where({ id: "passing" }).delete();
    for (const object of ["of one", "of the reseller", "of last"]) {
      expect(await toldTo(object)).toEqual(both("operator", null));
    }
  });

  test.skipIf(isSpread)(`an instance's${whyNotSpread}`, async () => {
    const { db } = palomar.database;
    await db("instances").insert({ name: "passing", host: "passing.test", key_hash: Buffer.from("x") });
    await tell("of an instance", "instance", "passing");
    await db("instances").where({ name: "passing" }).delete();
    expect(await toldTo("of an instance")).toEqual(both("operator", null));
  });
});

describe("the audit log", () => {
  test("has every change: who, from where, what, on what, without secrets; refused ones leave nothing", async () => {
    const { operator } = palomar.users;
    await operator.call("POST", "/users", { login: "a1", role: "reseller", scope: "two", password: PASSWORD });
    await operator.call("POST", "/users", { login: "a1", role: "reseller", scope: "two" });
    const { audit } = (await operator.call("GET", "/audit?actor=operator&limit=5")).body;
    expect(audit.filter(({ object }: { object: string }) => object === "a1")).toEqual([
      {
        id: expect.any(Number),
        timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
        actor: "operator",
        address: "127.0.0.1",
        action: "user.add",
        object: "a1",
        detail: { role: "reseller", scope: "two" },
        outcome: "done",
      },
    ]);
    expect(JSON.stringify(await palomar.database.db("console_audit").select())).not.toContain(PASSWORD);
  });

  test("is paged, and each reads of the own scope", async () => {
    const { operator, one, two, acme, north } = palomar.users;
    await one.call("POST", "/users", { login: "a2", role: "company", scope: "one/acme" });
    const all = (await operator.call("GET", "/audit?limit=1000")).body.audit;
    const [newest, second] = all;
    const page = (await operator.call("GET", `/audit?limit=1&before=${newest.id}`)).body.audit;
    expect(page).toEqual([second]);
    const actors = async (who: typeof one): Promise<string[]> => [
      ...new Set<string>(
        (await who.call("GET", "/audit?limit=1000")).body.audit.map((entry: { actor: string }) => entry.actor),
      ),
    ];
    expect((await actors(one)).sort()).toEqual(["acme", "one", "u2"]);
    expect(await actors(two)).toEqual(["two"]);
    expect((await actors(acme)).sort()).toEqual(["acme", "u2"]);
    expect(await actors(north)).toEqual(["north"]);
  });

  test("keeps a change of which it is not known whether it was made", async () => {
    const { operator } = palomar.users;
    // No DNS API runs here: from the console's side that is like one that went away before it answered.
    expect((await operator.call("DELETE", "/dns/two/master_zone/example.org")).status).toBe(503);
    expect((await operator.call("GET", "/audit?limit=1")).body.audit).toMatchObject([
      { action: "dns.delete", object: "two/master_zone/example.org", outcome: "begun" },
    ]);
  });
});

describe("jobs", () => {
  const about = { role: "reseller", scope: "one" } as const;
  const runner = () => new JobRunner(palomar.database.db, palomar.context.observe);
  const show = async (id: string) => (await palomar.users.one.call("GET", `/jobs/${id}`)).body;

  test("show progress while they run, then the result; for their own scope alone", async () => {
    let finish = () => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const id = await runner().start(
      { kind: "test", object: "thing", owner: "one", about, total: 10 },
      async (reporter) => {
        reporter.progress(4);
        reporter.problem(jobError(sentence("not-acceptable"), 3));
        await finished;
        reporter.progress(10);
        return ok({ added: 9 });
      },
    );
    await eventually(
      () => show(id),
      ({ done }) => done === 4,
    );
    expect(await show(id)).toMatchObject({ job: id, kind: "test", state: "running", total: 10, finished: null });
    finish();
    await eventually(
      () => show(id),
      ({ state }) => state === "done",
    );
    expect(await show(id)).toMatchObject({
      done: 10,
      result: { added: 9 },
      errors: [{ line: 3, msg: "is not acceptable", code: "not-acceptable" }],
    });
    expect((await palomar.users.two.call("GET", `/jobs/${id}`)).status).toBe(404);
    expect((await palomar.users.operator.call("GET", `/jobs/${id}`)).status).toBe(200);
    expect((await palomar.users.one.call("GET", "/jobs")).body.jobs[0].job).toBe(id);
    expect((await palomar.users.north.call("GET", "/jobs")).body.jobs).toEqual([]);
    expect((await palomar.users.one.call("GET", "/jobs/nonsense")).status).toBe(400);
  });

  test("that are refused or break say so", async () => {
    const refused = await runner().start({ kind: "test", object: "x", owner: "one", about }, async () =>
      refuse(unacceptable("as-stated", { text: "the feed is full" })),
    );
    const broken = await runner().start({ kind: "test", object: "x", owner: "one", about }, async () => {
      throw new Error("secret detail");
    });
    await eventually(
      () => show(refused),
      ({ state }) => state === "failed",
    );
    expect((await show(refused)).errors).toMatchObject([{ msg: "the feed is full" }]);
    await eventually(
      () => show(broken),
      ({ state }) => state === "failed",
    );
    expect((await show(broken)).errors).toMatchObject([{ msg: "internal error" }]);
    expect(palomar.failures).toContainEqual(expect.objectContaining({ kind: "console-job-failed", job: broken }));
  });

  test("are listed without what was rejected: how much that is, and why a job failed", async () => {
    const { db } = palomar.database;
    const rejected = Array.from({ length: 1_000 }, (_, line) => jobError(sentence("not-acceptable"), line + 1));
    const errors = [...rejected, jobError(sentence("job-interrupted"))];
    const row = { kind: "test", object: "x", owner: "two", scope_role: "reseller", scope: "two" };
    const times = { created_at: db.fn.now(), heartbeat_at: db.fn.now(), finished_at: db.fn.now() };
    const rows = Array.from({ length: 50 }, (_, number) => {
      const state = number === 0 ? "failed" : "done";
      return { id: randomUUID(), ...row, ...times, state, errors: JSON.stringify(number === 0 ? errors : rejected) };
    });
    await db("console_jobs").insert(rows);
    const { body } = await palomar.users.two.call("GET", "/jobs?limit=1000");
    expect(body.jobs).toHaveLength(50);
    expect(JSON.stringify(body).length).toBeLessThan(50 * 500);
    const listed = body.jobs.find(({ job }: { job: string }) => job === rows[0]!.id);
    expect(listed).toMatchObject({ error_count: 1_001, failure: { code: "job-interrupted" } });
    expect(body.jobs.filter(({ failure }: { failure: unknown }) => failure === null)).toHaveLength(49);
    const shown = (await palomar.users.two.call("GET", `/jobs/${rows[0]!.id}`)).body;
    expect(shown).toEqual({ ...listed, errors });
  });

  test("that are over are kept for a month, and the newest thousand of each scope", async () => {
    const { db } = palomar.database;
    await db("console_jobs").delete();
    const add = (scope: string, jobs: number, daysOld: number, state: string) =>
      db.raw(
        `insert into console_jobs (id, kind, object, owner, scope_role, scope, state, created_at, heartbeat_at)
         select gen_random_uuid(), 'test', 'x', 'x', 'reseller', ?, ?, now() - make_interval(days => ?, secs => n), now()
         from generate_series(1, ?) n`,
        [scope, state, daysOld, jobs],
      );
    await add("one", 1_001, 1, "done");
    await add("one", 2, 2, "running");
    await add("two", 3, 3, "failed");
    await add("two", 4, 31, "done");
    await purgeJobs(db, { before: new Date(Date.now() - 30 * 86_400_000), mostOfScope: 1_000 });
    const left = await db("console_jobs").select("scope", "state").count("* as jobs").groupBy(1, 2).orderBy([1, 2]);
    expect(left).toEqual([
      { scope: "one", state: "done", jobs: 1_000 },
      { scope: "one", state: "running", jobs: 2 },
      { scope: "two", state: "failed", jobs: 3 },
    ]);
    await db("console_jobs").delete();
  });

  test("are interrupted by a stop, and found so when their process died", async () => {
    const stopping = runner();
    const forever = (reporter: { signal: AbortSignal }) =>
      new Promise<never>((_, reject) => reporter.signal.addEventListener("abort", () => reject(new Error("stopped"))));
    const stopped = await stopping.start({ kind: "test", object: "x", owner: "one", about }, forever);
    await stopping.stop();
    expect(await show(stopped)).toMatchObject({
      state: "failed",
      errors: [{ msg: expect.stringContaining("interrupted") }],
    });

    const id = "0b2f6c1e-6a3e-4a8e-9d0e-2f6d0a6f3f11";
    const longAgo = new Date(Date.now() - 60_000);
    const row = { kind: "test", object: "x", owner: "one", scope_role: "reseller", scope: "one" };
    await palomar.database.db("console_jobs").insert({ id, ...row, created_at: longAgo, heartbeat_at: longAgo });
    await runner().sweep();
    expect(await show(id)).toMatchObject({
      state: "failed",
      errors: [{ msg: expect.stringContaining("interrupted") }],
    });
  });

  test("that are slow are not taken for dead", async () => {
    let finish = () => {};
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const id = await runner().start({ kind: "test", object: "x", owner: "one", about }, async () => {
      await finished;
      return ok({});
    });
    await sleep(2_500);
    await runner().sweep();
    expect((await show(id)).state).toBe("running");
    finish();
    await eventually(
      () => show(id),
      ({ state }) => state === "done",
    );
  });
});
