import { once } from "node:events";
import { beforeAll, describe, expect, test } from "vitest";
import type { WarmUpPlan } from "../../services/core/mail/pace/warm-up.ts";
import { recordComplaint } from "../../services/operations/mail/outcomes.ts";
import { changeWarmUp, startWarmUp } from "../../services/operations/mail/warm-ups.ts";
import { warmUpPlan } from "../../services/platform/config/warm-up-policy.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { haveLookedAt } from "../../services/store/mail/queue/mail-work.ts";
import {
  accept,
  database,
  eventually,
  instanceId,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";
import { bundlePaceWorker, startPaceWorker } from "../support/pace-processes.ts";
import type { SmtpSink } from "../support/smtp-sink.ts";

setUpDelivery();
beforeAll(bundlePaceWorker);

const OLD = "127.0.0.9";
const FRESH = "127.0.0.10";
const DOMAIN = "big.example.net";
const poolOf = (...addresses: string[]) => ({
  pools: {
    default: {
      addresses: addresses.map((address) => ({ address, weight: 1 })),
      connections: null,
      messagesPerMinute: null,
    },
  },
  poolOf: [],
});
const planOf = (perDay: readonly number[], changes: Partial<WarmUpPlan> = {}): WarmUpPlan => ({
  ...warmUpPlan,
  messagesPerDay: { default: perDay },
  spreadHours: 1,
  engagement: [],
  ...changes,
});
async function warmUp(plan: WarmUpPlan, source = FRESH): Promise<void> {
  const started = await startWarmUp(database.db, { source, by: "ops", audited: false }, { plan, day: 1 });
  expect(started.ok).toBe(true);
}
const from = (far: SmtpSink, client: string) => far.messages.filter((message) => message.client === client);
const start = (far: SmtpSink, pools: ReturnType<typeof poolOf>) =>
  makeWorker(routes({ [DOMAIN]: far.port }), pools, [1], { paced: true });
/** What waits is due now, as if its time had come for the workers as well. */
async function beDue(): Promise<void> {
  await database.db("partitions").where({ state: "deferred" }).update({ due_at: new Date() });
  await database.db.transaction((transaction) => haveLookedAt(transaction, [instanceId]));
}
/** As if it had begun a day earlier. */
const passDay = () =>
  database.db("warm_ups").update({
    started_at: database.db.raw("started_at - interval '1 day'"),
    ends_at: database.db.raw("ends_at - interval '1 day'"),
  });

async function touched(recipient: string, daysAgo: number, machine = false): Promise<void> {
  const { db } = database;
  const at = new Date(Date.now() - daysAgo * 86_400_000);
  await ensureEventMonths(db, [at]);
  const { contact_id } = await db("deliveries").where({ recipient }).first("contact_id");
  await db("events").insert({ instance_id: instanceId, at, kind: 2, machine, contact_id });
}

describe("an address that is new", () => {
  test("sends what its plan has to those who opened last, and others of the pool send the rest", async () => {
    const far = await sink();
    await warmUp(planOf([5], { engagement: [{ fromHour: 0, touchedWithinDays: 30 }] }));
    const eeid = await accept(numbered(60, DOMAIN));
    // The seven readers stand at the end; two of them have the plan used up, or are too long ago.
    for (let i = 0; i < 7; i += 1) await touched(`r${59 - i}@${DOMAIN}`, 1 + i);
    await touched(`r3@${DOMAIN}`, 40);
    await touched(`r4@${DOMAIN}`, 0, true);
    run(start(far, poolOf(OLD, FRESH)));
    await untilSent(eeid);
    const readers = from(far, FRESH).flatMap(({ rcptTo }) => rcptTo);
    expect(readers).toEqual([59, 58, 57, 56, 55].map((number) => `r${number}@${DOMAIN}`));
    expect(new Set(recipientsOf(far)).size).toBe(60);
    expect(from(far, OLD)).toHaveLength(55);
  });

  test("without another one in its pool has what is above its plan wait, and that time does not count", async () => {
    const far = await sink();
    await warmUp(planOf([6, 7, 8]));
    const eeid = await accept(numbered(250, DOMAIN));
    const partitions = () => database.db("partitions").where({ eeid });
    for (const [day, sum] of [6, 13, 21].entries()) {
      const worker = start(far, poolOf(FRESH));
      worker.start();
      await eventually(
        async () => far.messages.length,
        (count) => count === sum,
      );
      // All that was looked at goes back until there may be more; nothing more is sent.
      await eventually(partitions, (rows) =>
        rows.some(({ state, taken_at }) => state === "deferred" && taken_at !== null),
      );
      await worker.stop();
      expect(far.messages).toHaveLength(sum);
      const waiting = await partitions().where({ state: "deferred" });
      for (const { taken_at, due_at } of waiting) {
        expect(due_at.getTime() - Date.now()).toBeGreaterThan(600_000);
        if (day === 0) expect(taken_at.getTime()).toBeGreaterThan(Date.now() + 600_000);
      }
      await passDay();
      await beDue();
    }
    // The plan is over.
    run(start(far, poolOf(FRESH)));
    await untilSent(eeid);
    expect(new Set(recipientsOf(far)).size).toBe(250);
    expect(far.messages).toHaveLength(250);
  });

  test("follows its plan for seventeen days exactly, with three workers that are stopped and begin anew each day", async () => {
    const far = await sink();
    const planned = Array.from({ length: 17 }, (_, day) => 3 + day);
    await warmUp(planOf(planned));
    for (const [day, count] of planned.entries()) {
      const before = from(far, FRESH).length;
      const eeids = await Promise.all([1, 2].map(() => accept(numbered(30, DOMAIN))));
      const workers = [1, 2, 3].map(() => start(far, poolOf(OLD, FRESH)));
      for (const worker of workers) worker.start();
      for (const eeid of eeids) await untilSent(eeid);
      await Promise.all(workers.map((worker) => worker.stop()));
      expect([day, from(far, FRESH).length - before]).toEqual([day, count]);
      await passDay();
    }
    expect(await database.db("warm_up_days").orderBy("number").pluck("sent")).toEqual(planned);
    expect(far.messages).toHaveLength(17 * 60);
  });

  test("whose plan an operator ends goes on soon, and waits for no day", async () => {
    const far = await sink();
    await warmUp(planOf([3]));
    const eeid = await accept(numbered(20, DOMAIN));
    run(start(far, poolOf(FRESH)));
    await eventually(
      () => database.db("partitions").where({ state: "deferred" }),
      (rows) => rows.length > 0,
    );
    expect(far.messages).toHaveLength(3);
    expect(await changeWarmUp(database.db, { source: FRESH, by: "ops", audited: false }, "stop")).toBe(true);
    await beDue();
    await untilSent(eeid);
    expect(far.messages).toHaveLength(20);
  });

  test("sends no more than planned where a worker is killed in the midst of it, and nothing is lost", async () => {
    const far = await sink({ onRcptTo: (_address, _session, done) => void setTimeout(done, 20) });
    await warmUp(planOf([40]));
    const eeid = await accept(numbered(300, DOMAIN));
    const plan = {
      port: far.port,
      epochMs: Date.now(),
      timesFaster: 1,
      changes: { ...poolOf(FRESH), leaseSeconds: 10 },
    };
    const workers = [1, 2, 3].map(() => startPaceWorker(plan));
    await eventually(
      async () => far.messages.length,
      (count) => count >= 10,
    );
    workers[0]!.kill("SIGKILL");
    await eventually(
      async () => ({
        sent: await database.db("warm_up_days").pluck("sent"),
        leased: await database.db("partitions").where({ state: "leased" }),
      }),
      ({ sent, leased }) => sent[0] === 40 && leased.length === 0,
    );
    // Those that it had leave for and did not send are missing: one a lane, and as many ahead.
    expect(far.messages.length).toBeLessThanOrEqual(40);
    expect(far.messages.length).toBeGreaterThanOrEqual(40 - 12);
    for (const worker of workers.slice(1)) {
      const ended = once(worker, "exit");
      worker.kill("SIGTERM");
      await ended;
    }
    await passDay();
    await beDue();
    run(start(far, poolOf(FRESH)));
    await untilSent(eeid);
    expect(new Set(recipientsOf(far)).size).toBe(300);
  });

  test("that its provider does not want pauses there, and other addresses send", async () => {
    const far = await sink({
      onMailFrom: (_address, { remoteAddress }, done) => {
        if (remoteAddress !== FRESH) return done();
        done(Object.assign(new Error("4.7.28 unusual rate of mail"), { responseCode: 421 }));
      },
    });
    const pause = { ...warmUpPlan.pause, deferrals: { least: 1, percent: 10 } };
    await warmUp(planOf([100], { pause }));
    run(start(far, poolOf(OLD, FRESH)));
    await untilSent(await accept(numbered(40, DOMAIN)));
    expect(from(far, OLD)).toHaveLength(40);
    const days = await eventually(
      () => database.db("warm_up_days"),
      ([day]) => day?.paused_for !== null,
    );
    expect(days).toMatchObject([{ provider: DOMAIN, paused_for: "deferrals", repeated: true }]);
  });

  test("is spoken against by complaints about what it sent, and by no others", async () => {
    const far = await sink();
    await warmUp(planOf([2]));
    run(start(far, poolOf(OLD, FRESH)));
    await untilSent(await accept(numbered(5, DOMAIN)));
    const ids = await database.db("deliveries").pluck("id");
    for (const deliveryId of ids) {
      await database.db.transaction((transaction) =>
        recordComplaint(transaction, { instanceId, deliveryId, at: new Date(), detail: {} }),
      );
    }
    expect(await database.db("warm_up_days")).toMatchObject([{ sent: 2, complained: 2 }]);
  });

  test("that reaches no server of a destination leaves its mail to the others", async () => {
    const far = await sink();
    await warmUp(planOf([100]), "::1");
    const worker = start(far, poolOf(OLD, "::1"));
    worker.start();
    await untilSent(await accept(numbered(30, DOMAIN)));
    await worker.stop(); // which gives its leave back
    expect(from(far, OLD)).toHaveLength(30);
    expect(await database.db("warm_up_days").pluck("sent")).toEqual([0]);
  });
});

test("where no address is new nothing of it is kept", async () => {
  const far = await sink();
  run(start(far, poolOf(OLD, FRESH)));
  await untilSent(await accept(numbered(40, DOMAIN)));
  expect(await database.db("warm_up_days")).toEqual([]);
  expect(await database.db("warm_up_deliveries")).toEqual([]);
  expect(await database.db("source_paces")).toEqual([]);
});
