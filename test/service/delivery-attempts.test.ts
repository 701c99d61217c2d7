import { expect, inject, test } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import {
  ensureAttemptWeeks,
  listAttemptWeeks,
  tidyAttempts,
} from "../../services/store/mail/attempts/attempt-weeks.ts";
import { makeAuthority, makeServerCertificate } from "../support/certificates.ts";
import {
  accept,
  database,
  eventually,
  failures,
  instanceId,
  makeWorker,
  numbered,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";
import { hoursBefore, sameInstance } from "../support/spread-tables.ts";

setUpDelivery();

/** Attempts with their way and result, in the order in which they were made. */
const attempts = () =>
  database
    .db("delivery_attempts as a")
    .join("deliveries as d", sameInstance("d.id", "a.delivery_id"))
    .join("attempt_results as r", sameInstance("r.id", "a.result_id"))
    .leftJoin("attempt_paths as p", sameInstance("p.id", "a.path_id"))
    .orderBy(["d.recipient", "a.attempt"])
    .select("p.*", "r.*", "a.*", "d.recipient");

test("every attempt is kept: what was said, by whom, over which way", async () => {
  const refusals = new Set<string>();
  const far = await sink({
    onRcptTo: ({ address }, _session, done) => {
      const isNew = !refusals.has(address);
      refusals.add(address);
      done(isNew ? Object.assign(new Error(`4.2.0 ${address} greylisted`), { responseCode: 450 }) : null);
    },
  });
  run(makeWorker(routes({ "a.example.net": far.port })));
  await untilSent(await accept(["one@a.example.net", "two@a.example.net", "none@gone.example.net"]));
  const rows = await attempts();
  expect(rows.map(({ recipient, attempt, outcome }) => `${recipient} ${attempt} ${outcome}`)).toEqual([
    "none@gone.example.net 1 bounced",
    "one@a.example.net 1 deferred",
    "one@a.example.net 2 delivered",
    "two@a.example.net 1 deferred",
    "two@a.example.net 2 delivered",
  ]);
  const [gone, greylisted, taken, other] = rows;
  expect(gone).toMatchObject({ path_id: null, code: 550, status: "5.1.2", reason: "hostunknown", stage: "" });
  expect(greylisted).toMatchObject({
    exchanger: "localhost",
    address: "127.0.0.1",
    source: "127.0.0.1",
    tls: "",
    cipher: "",
    certificate: "",
    policy: "",
    stage: "rcpt",
    code: 450,
    status: "4.2.0",
    words: "450 4.2.0 * greylisted",
    reply: "450 4.2.0 one@a.example.net greylisted",
  });
  expect(taken).toMatchObject({ code: 250, reason: "", stage: "" });
  expect(taken.duration_ms).toBeGreaterThanOrEqual(0);
  // What was said to several stands once.
  expect(other.result_id).toBe(greylisted.result_id);
  expect(other.path_id).toBe(greylisted.path_id);
  expect(failures).toEqual([]);
});

test("nobody answers: the way says who did not, and what is wrong with a certificate is told", async () => {
  const authority = await makeAuthority("Test root");
  const own = await makeServerCertificate("localhost", { authority });
  const secure = await sink({ key: own.key, cert: `${own.cert}\n${authority.cert}`, disabledCommands: ["AUTH"] });
  const clear = await sink();
  run(makeWorker(routes({ "a.example.net": 1, "b.example.net": secure.port, "c.example.net": clear.port }), {}, [600]));
  await accept(["one@a.example.net", "one@b.example.net", "one@c.example.net"]);
  const rows = await eventually(
    async () => attempts(),
    (found) => found.length === 3,
  );
  expect(rows[0]).toMatchObject({
    exchanger: "localhost",
    address: "127.0.0.1",
    tls: "",
    outcome: "deferred",
    code: 0,
    reason: "networkerror",
  });
  expect(rows[0].words).toBe("connect ECONNREFUSED *");
  expect(rows[1]).toMatchObject({ tls: "TLSv1.3", certificate: "SELF_SIGNED_CERT_IN_CHAIN", outcome: "delivered" });
  expect(rows[1].cipher).toMatch(/^TLS_/);
});

test("an attempt ended when it did, however long ago its message was accepted", async () => {
  const { db } = database;
  const clock = async (): Promise<Date> => (await db.raw("select clock_timestamp() as now")).rows[0].now;
  let refused = false;
  const far = await sink({
    onRcptTo: (_address, _session, done) => {
      done(refused ? null : Object.assign(new Error("4.2.0 greylisted"), { responseCode: 450 }));
      refused = true;
    },
  });
  const eeid = await accept(["one@a.example.net"]);
  await db("messages").update({ created_at: db.raw(hoursBefore("created_at", 24 * 20)) });
  const before = await clock();
  run(makeWorker(routes({ "a.example.net": far.port })));
  await untilSent(eeid);
  const ended: Date[] = (await attempts()).map(({ at }) => at);
  expect(ended).toHaveLength(2);
  const moments = [before, ...ended, await clock()].map((moment) => moment.getTime());
  expect(moments).toEqual(moments.toSorted((one, other) => one - other));
});

test("attempts go with their contact, their week and their instance", async () => {
  const { db } = database;
  const far = await sink();
  run(makeWorker(routes({ "a.example.net": far.port })));
  await untilSent(await accept(numbered(3, "a.example.net")));
  const address = validateAddress("r1@a.example.net", { allowSmtputf8: false });
  if (!address.ok) throw new Error("no address");
  await eraseAddress(db, instanceId, address.value);
  expect((await attempts()).map(({ recipient }) => recipient)).toEqual(["r0@a.example.net", "r2@a.example.net"]);
  expect(await db("attempt_results").whereRaw("words like '%r1%'")).toEqual([]);
  const past = new Date(Date.now() - 60 * 86_400_000);
  await ensureAttemptWeeks(db, [past]);
  const before = await listAttemptWeeks(db);
  await tidyAttempts(db, new Date(), 30);
  expect(before).not.toEqual(await listAttemptWeeks(db));
  expect(await attempts()).toHaveLength(2);
  // Two months on, nothing is left of these.
  await db.raw(`update attempt_results set seen_at = ${hoursBefore("seen_at", 60 * 24)}`);
  await tidyAttempts(db, new Date(), 30);
  expect(await db("attempt_results")).toEqual([]);
  await db("instances").where({ id: instanceId }).delete();
  // Where Citus spreads them they go with their week.
  if (inject("citusWorkers").length === 0) expect(await db("delivery_attempts")).toEqual([]);
});

test("a week that is not over is not dropped", async () => {
  const [week] = await listAttemptWeeks(database.db);
  await ensureAttemptWeeks(database.db, [new Date()]);
  const weeks = await listAttemptWeeks(database.db);
  expect(weeks.length).toBeGreaterThan(0);
  await expect(database.db.raw("select drop_attempts_week(?::date)", [weeks.at(-1)!])).rejects.toThrow(/is not over/);
  expect(await listAttemptWeeks(database.db)).toContain(week ?? weeks[0]);
});
