import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { DAY_MS, type WarmUpPlan } from "../../services/core/mail/pace/warm-up.ts";
import { exchangePace, type PaceGrant, type PaceReport } from "../../services/operations/mail/pace-exchange.ts";
import { viewPace } from "../../services/operations/mail/paces.ts";
import { changeWarmUp, startWarmUp, viewWarmUp, viewWarmUps } from "../../services/operations/mail/warm-ups.ts";
import { warmUpPlan } from "../../services/platform/config/warm-up-policy.ts";
import { listDays } from "../../services/store/mail/pace/warm-up-days.ts";
import { insertWarmUp, listWarming, purgeWarmUps } from "../../services/store/mail/pace/warm-ups.ts";
import { startConsole, type TestConsole } from "../support/console.ts";

let context: TestConsole;
beforeAll(async () => {
  context = await startConsole();
});
afterAll(() => context?.stop());
const database = () => context.database.db;
beforeEach(async () => {
  await database()("warm_ups").delete();
  await database()("source_paces").delete();
});

const SOURCE = "192.0.2.20";
const HOUR_MS = 3_600_000;
const START_MS = Date.UTC(2026, 0, 5, 9, 30);

/** A worker whose time is the test's, and which sends what it has leave for. */
class Worker {
  readonly #id = randomUUID();
  readonly #numbers = new Map<string, number>();
  readonly #tried = new Map<string, number>();
  sent = 0;
  last: PaceGrant | undefined;

  async ask(
    provider: string,
    nowMs: number,
    changes: Partial<PaceReport> & { waiting?: number; put_off?: number } = {},
  ) {
    const { waiting = 1_000_000, put_off = 0, ...rest } = changes;
    const tried = this.#tried.get(provider) ?? 0;
    const report: PaceReport = {
      ...{ source: SOURCE, provider, configuredPerHour: null, held: 0, returned: 0, isBusy: true },
      ...{ tried, delivered: tried, deferred: 0, acceptedPerHour: 0, isJoining: false, signals: [], sessions: 0 },
      warmUp: { number: this.#numbers.get(provider), waiting, deferred: put_off },
      ...rest,
    };
    const [grant] = await exchangePace(database(), [report], { worker: this.#id, portionMs: 1_000, nowMs });
    this.last = grant!;
    if (grant!.warmUp !== undefined) this.#numbers.set(provider, grant!.warmUp.number);
    this.#tried.set(provider, grant!.tokens ?? 0);
    this.sent += grant!.tokens ?? 0;
    return grant!;
  }
}

async function begin(plan: WarmUpPlan = warmUpPlan, startedAtMs = START_MS): Promise<void> {
  const days = plan.messagesPerDay.default.length;
  const given = { source: SOURCE, plan, startedAtMs, startedBy: "ops", endsAtMs: startedAtMs + days * DAY_MS };
  await database().transaction((transaction) => insertWarmUp(transaction, { ...given, nowMs: startedAtMs }));
}

const small = (changes: Partial<WarmUpPlan> = {}): WarmUpPlan => ({
  ...warmUpPlan,
  messagesPerDay: { default: [10, 20, 40] },
  spreadHours: 1,
  ...changes,
});
const sentByDay = async (provider: string) =>
  (await listDays(database(), SOURCE)).filter((day) => day.provider === provider).map(({ sent }) => sent);

describe("seventeen days", () => {
  test("follow the plan exactly, with three workers that ask all at once and are other ones each few hours", async () => {
    await begin();
    const byDay: number[] = [];
    let workers: Worker[] = [];
    for (let day = 0; day < 17; day += 1) {
      let sent = 0;
      // All of a day has become free by the thirteenth hour; the last look shows that there is no more.
      for (const hour of [0, 3, 6, 9, 12, 23]) {
        if (hour % 9 === 0) workers = [new Worker(), new Worker(), new Worker()];
        const before = workers.reduce((sum, worker) => sum + worker.sent, 0);
        // Each wants a part of what there is, so that all have some.
        for (let round = 0; round < 2; round += 1) {
          const nowMs = START_MS + day * DAY_MS + hour * HOUR_MS + 60_000 + round;
          await Promise.all(workers.map((worker) => worker.ask("gmail", nowMs, { waiting: 2_100 })));
        }
        sent += workers.reduce((sum, worker) => sum + worker.sent, 0) - before;
      }
      byDay.push(sent);
    }
    expect(byDay).toEqual(warmUpPlan.messagesPerDay.default);
    expect(await sentByDay("gmail")).toEqual(warmUpPlan.messagesPerDay.default);
    const after = await new Worker().ask("gmail", START_MS + 17 * DAY_MS);
    expect(after).toMatchObject({ tokens: undefined, waitMs: 0, warmUp: undefined });
    expect(await listWarming(database(), START_MS + 17 * DAY_MS - 1)).toEqual([SOURCE]);
    expect(await listWarming(database(), START_MS + 17 * DAY_MS)).toEqual([]);
  });

  test("never go above it where workers are killed, and fall short by what those held alone", async () => {
    await begin(small());
    const one = new Worker();
    expect((await one.ask("gmail", START_MS, { waiting: 4 })).tokens).toBe(4);
    // It is gone; nobody knows what became of its four.
    const two = new Worker();
    expect((await two.ask("gmail", START_MS + HOUR_MS, { waiting: 100 })).tokens).toBe(6);
    expect((await two.ask("gmail", START_MS + 2 * HOUR_MS, { waiting: 100 })).tokens).toBe(0);
    expect((await two.ask("gmail", START_MS + DAY_MS, { waiting: 100 })).tokens).toBe(20);
    expect(await sentByDay("gmail")).toEqual([10, 20]);
  });
});

describe("leave", () => {
  test("is for those who wait, comes hour by hour, and of what is given back others have the use", async () => {
    await begin(small({ spreadHours: 5 }));
    const [one, two] = [new Worker(), new Worker()];
    expect(await one.ask("gmail", START_MS, { waiting: 1 })).toMatchObject({
      tokens: 1,
      warmUp: { number: 0, isOpen: true, touchedWithinDays: 30 },
    });
    expect(await two.ask("gmail", START_MS, { waiting: 9 })).toMatchObject({ tokens: 1, warmUp: { isOpen: false } });
    expect(await two.ask("gmail", START_MS + 600_000)).toMatchObject({ tokens: 0, waitMs: 900_000 });
    await one.ask("gmail", START_MS + 700_000, { waiting: 0, returned: 1, tried: 0, isBusy: false });
    expect(await two.ask("gmail", START_MS + 800_000, { tried: 0 })).toMatchObject({ tokens: 1 });
    expect(await two.ask("gmail", START_MS + 3_540_000)).toMatchObject({ tokens: 0, waitMs: 60_000, nextMs: 60_000 });
    expect(await two.ask("gmail", START_MS + HOUR_MS)).toMatchObject({ tokens: 2 });
  });

  test("of yesterday is void when it is given back today", async () => {
    await begin(small());
    const worker = new Worker();
    await worker.ask("gmail", START_MS, { waiting: 10 });
    await worker.ask("gmail", START_MS + DAY_MS, { waiting: 0, tried: 0, returned: 10 });
    expect(await sentByDay("gmail")).toEqual([10, 0]);
  });

  test("goes by the pace as well, where that is known", async () => {
    await begin(small());
    const signals = [{ concerns: "rate" as const, waitSeconds: 60, messages: 1, ageMs: 0 }];
    const worker = new Worker();
    expect(await worker.ask("gmail", START_MS, { signals, acceptedPerHour: 7_200 })).toMatchObject({ tokens: 0 });
    expect(await worker.ask("gmail", START_MS + 61_000)).toMatchObject({ tokens: 1 });
    expect(await sentByDay("gmail")).toEqual([1]);
  });

  test("is of one provider each, and of that source alone", async () => {
    await begin(small({ messagesPerDay: { default: [10], gmail: [3] } }));
    const worker = new Worker();
    expect((await worker.ask("gmail", START_MS)).tokens).toBe(3);
    expect((await worker.ask("b.example.net", START_MS)).tokens).toBe(10);
    const other = await worker.ask("gmail", START_MS, { source: "192.0.2.10", warmUp: undefined, tried: 0 });
    expect(other.tokens).toBeUndefined();
  });
});

describe("a pause", () => {
  test("for deferrals repeats the day, and the plan ends later; it goes on by itself", async () => {
    await begin(small());
    const worker = new Worker();
    await worker.ask("gmail", START_MS, { waiting: 10 });
    const paused = await worker.ask("gmail", START_MS + 60_000, { put_off: 10 });
    expect(paused).toMatchObject({ tokens: 0, waitMs: 900_000, warmUp: { pausedFor: "deferrals" } });
    expect((await worker.ask("gmail", START_MS + HOUR_MS)).warmUp).toMatchObject({ pausedFor: undefined });
    expect((await worker.ask("b.example.net", START_MS + HOUR_MS)).tokens).toBe(10);
    for (const day of [1, 2, 3]) await worker.ask("gmail", START_MS + day * DAY_MS);
    expect(await sentByDay("gmail")).toEqual([10, 10, 20, 40]);
    const rows = await database()("warm_ups").select(
      database().raw("(extract(epoch from ends_at) * 1000)::float8 as ms"),
    );
    expect(rows).toEqual([{ ms: START_MS + 4 * DAY_MS }]);
  });

  test("for complaints lasts until they are few among those of the last days", async () => {
    await begin(small({ messagesPerDay: { default: [10, 10, 10, 10, 10, 10] } }));
    const worker = new Worker();
    await worker.ask("gmail", START_MS);
    await database()("warm_up_days").update({ complained: 2 });
    expect((await worker.ask("gmail", START_MS + 60_000)).warmUp).toMatchObject({ pausedFor: "complaints" });
    expect((await worker.ask("gmail", START_MS + 5 * HOUR_MS)).warmUp).toMatchObject({ pausedFor: "complaints" });
    expect((await worker.ask("gmail", START_MS + 2 * DAY_MS)).tokens).toBe(0);
    expect((await worker.ask("gmail", START_MS + 3 * DAY_MS)).tokens).toBe(10);
  });
});

describe("the operator's hand", () => {
  const order = { source: SOURCE, by: "ops", audited: true };
  const start = (day = 1, source = SOURCE) => startWarmUp(database(), { ...order, source }, { plan: small(), day });

  test("starts, pauses, resumes and stops, with the audit log", async () => {
    expect(await start()).toEqual({ ok: true, value: undefined });
    expect(await start()).toEqual({ ok: false, error: "warm-up-runs" });
    const nowMs = Date.now();
    const worker = new Worker();
    await worker.ask("gmail", nowMs, { waiting: 3 });
    expect(await changeWarmUp(database(), order, "resume")).toBe(false);
    expect(await changeWarmUp(database(), order, "pause")).toBe(true);
    expect(await changeWarmUp(database(), order, "pause")).toBe(false);
    expect(await worker.ask("gmail", nowMs + DAY_MS)).toMatchObject({ tokens: 0, waitMs: 60_000 });
    expect(await viewWarmUps(database())).toMatchObject([{ state: "paused", changedBy: "ops", day: 1 }]);
    expect(await changeWarmUp(database(), order, "resume")).toBe(true);
    expect(await changeWarmUp(database(), order, "stop")).toBe(true);
    expect(await listWarming(database())).toEqual([]);
    expect((await worker.ask("gmail", nowMs)).tokens).toBeUndefined();
    expect(await start(3)).toEqual({ ok: true, value: undefined });
    // The start is kept to the microsecond.
    expect((await worker.ask("gmail", Date.now() + 1)).warmUp).toMatchObject({ number: 2 });
    expect(await viewWarmUp(database(), SOURCE)).toMatchObject({
      state: "running",
      day: 3,
      providers: [{ provider: "gmail", day: 3, planned: 40, sent: 40 }],
      courses: [{ provider: "gmail", days: [{ day: 3, planned: 40, sent: 40 }] }],
    });
    const audit = await database()("console_audit").where({ object: SOURCE }).orderBy("id").pluck("action");
    expect(audit).toEqual(["start", "pause", "resume", "stop", "start"].map((verb) => `warm-up.${verb}`));
  });

  test("refuses what is no address, or no day of the plan", async () => {
    expect(await start(1, "gmail.com")).toEqual({ ok: false, error: "no-source" });
    for (const day of [0, 4, 1.5, Number.NaN]) expect(await start(day)).toEqual({ ok: false, error: "no-such-day" });
    expect(await start(1, "2001:db8::20")).toMatchObject({ ok: true });
    expect(await start(1, "system")).toMatchObject({ ok: true });
  });

  test("is laid on by the console's API, by operators only", async () => {
    const { operator, one, north } = context.users;
    const path = `/warm-ups/${SOURCE}`;
    for (const other of [one, north]) {
      for (const [method, where] of [
        ["GET", "/warm-ups"],
        ["GET", path],
        ["POST", `${path}/start`],
        ["POST", `${path}/stop`],
      ]) {
        expect((await other.call(method!, where!)).status).toBe(403);
      }
    }
    expect((await operator.call("GET", path)).status).toBe(404);
    expect((await operator.call("POST", "/warm-ups/nobody/start")).status).toBe(400);
    expect((await operator.call("POST", `${path}/start`, { day: 18 })).status).toBe(400);
    expect((await operator.call("POST", `${path}/start`, {})).status).toBe(200);
    expect((await operator.call("POST", `${path}/start`, {})).status).toBe(409);
    await new Worker().ask("gmail", Date.now(), { waiting: 5 });
    expect((await operator.call("GET", "/warm-ups")).body).toMatchObject({
      warm_ups: [{ source: SOURCE, state: "running", day: 1, days: 17, providers: [{ provider: "gmail", sent: 5 }] }],
    });
    const atGmail = await viewPace(database(), { source: SOURCE, provider: "gmail" }, new Date(0));
    expect(atGmail?.warmUp).toMatchObject({ provider: "gmail", day: 1, sent: 5 });
    const shown = (await operator.call("GET", path)).body;
    expect(shown.courses[0].days).toHaveLength(17);
    expect(shown.courses[0].days[16]).toMatchObject({ day: 17, planned: 50_000, sent: null });
    for (const verb of ["pause", "resume", "stop"]) {
      expect((await operator.call("POST", `${path}/${verb}`)).status).toBe(200);
    }
    expect((await operator.call("POST", `${path}/stop`)).status).toBe(404);
  });

  test("is forgotten a while after it is over", async () => {
    await start();
    await purgeWarmUps(database(), 0);
    expect(await viewWarmUps(database())).toHaveLength(1);
    await changeWarmUp(database(), order, "stop");
    await purgeWarmUps(database(), 1);
    expect(await viewWarmUps(database())).toHaveLength(1);
    await purgeWarmUps(database(), 0);
    expect(await viewWarmUps(database())).toEqual([]);
  });
});
