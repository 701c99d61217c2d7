import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { exchangePace, type PaceGrant, type PaceReport } from "../../services/operations/mail/pace-exchange.ts";
import { forgetLearnt, pinLimits, unpinLimits, viewPace, viewPaces } from "../../services/operations/mail/paces.ts";
import { listPaces, purgePaces } from "../../services/store/mail/pace/source-paces.ts";
import { readQueueStatus } from "../../services/store/status.ts";
import { startConsole, type TestConsole } from "../support/console.ts";

let context: TestConsole;
beforeAll(async () => {
  context = await startConsole();
});
afterAll(() => context?.stop());
const database = () => context.database.db;
beforeEach(async () => {
  await database()("source_paces").delete();
});

const KEY = { source: "192.0.2.1", provider: "gmail" };
const report = (changes: Partial<PaceReport> = {}): PaceReport => ({
  ...KEY,
  configuredPerHour: null,
  held: 0,
  returned: 0,
  isBusy: true,
  tried: 0,
  delivered: 0,
  deferred: 0,
  acceptedPerHour: 0,
  isJoining: false,
  signals: [],
  sessions: 0,
  ...changes,
});

/** A worker whose time is the test's. */
function makeWorker() {
  const worker = randomUUID();
  return async (nowMs: number, changes: Partial<PaceReport> = {}): Promise<PaceGrant> => {
    const [grant] = await exchangePace(database(), [report(changes)], { worker, portionMs: 1_000, nowMs });
    return grant!;
  };
}
const slowDown = { concerns: "rate" as const, waitSeconds: 60, messages: 1, ageMs: 0 };
const START_MS = Date.UTC(2026, 0, 5);

describe("leave for messages", () => {
  test("at a pinned rate goes on a moment after a refusal, whatever that says", async () => {
    const ask = makeWorker();
    const insisting = { ...slowDown, waitSeconds: 3_000 };
    await ask(START_MS, { signals: [insisting] });
    expect((await ask(START_MS + 1_000)).waitMs).toBe(2_999_000);
    await pinLimits(database(), KEY, { ratePerHour: 36_000 }, "test");
    expect(await ask(START_MS + 2_000)).toMatchObject({ waitMs: 0, tokens: 10 });
    expect((await ask(START_MS + 3_000, { signals: [insisting] })).waitMs).toBe(15_000);
    expect((await ask(START_MS + 10_000)).waitMs).toBe(8_000);
    expect((await ask(START_MS + 18_000)).tokens).toBe(10);
    await unpinLimits(database(), KEY);
    expect((await ask(START_MS + 19_000, { signals: [insisting] })).waitMs).toBe(3_000_000);
  });

  test("that does not come for long is told of, the longest wait first", async () => {
    const ask = makeWorker();
    const nowMs = Date.now();
    await ask(nowMs, { signals: [{ ...slowDown, waitSeconds: 1_000 }] });
    await ask(nowMs, { provider: "yahoo", signals: [{ ...slowDown, waitSeconds: 3_000 }] });
    const status = await readQueueStatus(database());
    expect(status.pacesWaiting).toBe(2);
    expect(status.longestPaceWaits.map(({ source, provider }) => [source, provider])).toEqual([
      [KEY.source, "yahoo"],
      [KEY.source, "gmail"],
    ]);
    expect(status.longestPaceWaits[0]!.seconds).toBeGreaterThan(2_000);
  });

  test("holds over any number of workers that ask all the time, within one in twenty", async () => {
    const PER_HOUR = 36_000;
    const SECONDS = 40;
    for (const count of [1, 3, 10]) {
      await database()("source_paces").delete();
      const workers = Array.from({ length: count }, makeWorker);
      let sent = 0;
      for (let ms = 0; ms < SECONDS * 1_000; ms += 250) {
        const grants = await Promise.all(
          workers.map((ask, index) => ask(START_MS + ms + index, { configuredPerHour: PER_HOUR })),
        );
        sent += grants.reduce((sum, { tokens }) => sum + tokens!, 0);
      }
      const allowed = (PER_HOUR * SECONDS) / 3_600;
      expect(sent).toBeGreaterThan(allowed * 0.95);
      expect(sent).toBeLessThan(allowed * 1.05);
    }
  });

  test("that a worker gives back is another's at once; what one that died held comes back with time", async () => {
    const [one, two] = [makeWorker(), makeWorker()];
    const limited = { configuredPerHour: 3_600 };
    expect((await one(START_MS, limited)).tokens).toBe(1);
    expect((await two(START_MS, limited)).tokens).toBe(0);
    await one(START_MS, { ...limited, returned: 1, isBusy: false });
    expect((await two(START_MS, limited)).tokens).toBe(1);
    expect((await two(START_MS + 1_000, limited)).tokens).toBe(1);
  });

  test("where nothing is limited leaves no trace, and asks for none", async () => {
    expect((await makeWorker()(START_MS, { tried: 9, delivered: 9 })).tokens).toBeUndefined();
    expect(await database()("source_paces")).toEqual([]);
  });
});

describe("what a provider says", () => {
  test("goes for all workers, for this source alone, and survives them", async () => {
    const one = makeWorker();
    const told = await one(START_MS, { signals: [slowDown], acceptedPerHour: 7_200 });
    expect(told).toMatchObject({ tokens: 0, waitMs: 60_000 });
    const fresh = await makeWorker()(START_MS + 1_000);
    expect(fresh).toMatchObject({ tokens: 0, waitMs: 59_000 });
    expect((await makeWorker()(START_MS + 1_000, { source: "192.0.2.2" })).tokens).toBeUndefined();
    expect((await makeWorker()(START_MS + 61_000)).tokens).toBe(1);
    expect((await viewPaces(database())).map(({ learntPerHour }) => learntPerHour)).toEqual([3_600]);
  });

  test("about sessions is shared by those who want some, and a dead one's are others' after a while", async () => {
    const [one, two] = [makeWorker(), makeWorker()];
    const tooMany = { concerns: "connections" as const, waitSeconds: 1, messages: 1, ageMs: 0 };
    expect((await one(START_MS, { signals: [tooMany], sessions: 8 })).connections).toBe(4);
    expect((await two(START_MS + 2_000)).connections).toBe(0);
    expect((await one(START_MS + 2_000, { sessions: 4 })).connections).toBe(2);
    expect((await two(START_MS + 3_000)).connections).toBe(2);
    expect((await two(START_MS + 30_000)).connections).toBe(4);
  });
});

describe("the operator's hand", () => {
  test("pins, unpins and forgets", async () => {
    const ask = makeWorker();
    await ask(START_MS, { signals: [slowDown], acceptedPerHour: 7_200 });
    expect(await pinLimits(database(), KEY, { connections: 7 }, "ops")).toMatchObject({ ok: true });
    expect(await pinLimits(database(), KEY, { ratePerHour: 36_000 }, "ops")).toMatchObject({ ok: true });
    expect(await ask(START_MS + 70_000)).toMatchObject({ tokens: 10, connections: 7 });
    for (const wrong of [{}, { ratePerHour: 0 }, { connections: Number.NaN }, { messagesPerConnection: 1.5 }]) {
      expect(await pinLimits(database(), KEY, wrong, "ops")).toEqual({ ok: false, error: "no-limit" });
    }
    await purgePaces(database(), 0);
    expect(await listPaces(database())).toHaveLength(1);
    await unpinLimits(database(), KEY);
    expect((await viewPaces(database()))[0]).toMatchObject({ ratePerHour: 3_600, pinnedBy: null });
    await forgetLearnt(database(), KEY);
    expect(await viewPaces(database())).toEqual([]);
    expect(await viewPace(database(), KEY, new Date())).toMatchObject({ ratePerHour: null, learntPerHour: null });
    await purgePaces(database(), 0);
    expect(await database()("source_paces")).toEqual([]);
  });

  test("is laid on a domain's group, and on nothing that no mail goes by", async () => {
    const call = (path: string, body?: object) => context.users.operator.call("POST", `/paces/${path}`, body);
    const gmail = { source: "system", provider: "gmail" };
    for (const written of ["gmail.com", "GMAIL", "googlemail.com"]) {
      const pinned = await call(`system/${written}/pin`, { rate: 600 });
      expect([pinned.status, pinned.body]).toEqual([200, gmail]);
    }
    expect(await viewPaces(database())).toMatchObject([{ ...gmail, ratePerHour: 600 }]);
    expect(await context.users.operator.call("GET", "/paces/system/gmail.com")).toMatchObject({ body: { rate: 600 } });
    for (const verb of ["reset", "unpin"]) expect((await call(`system/gmail.com/${verb}`)).body).toEqual(gmail);
    expect(await viewPaces(database())).toEqual([]);

    for (const verb of ["pin", "unpin", "reset"]) {
      const body = verb === "pin" ? { rate: 600 } : undefined;
      const [noSource, noProvider] = [
        await call(`nonsense/gmail/${verb}`, body),
        await call(`system/not%20a%20domain/${verb}`, body),
      ];
      expect([noSource.status, noSource.body]).toEqual([
        400,
        { code: "no-source", msg: "must be an IP address of ours, or system" },
      ]);
      expect([noProvider.status, noProvider.body]).toEqual([
        400,
        { code: "no-provider", msg: "must be a group of config/domain-groups.json, or a domain" },
      ]);
    }
    expect(await database()("source_paces").where({ source: "nonsense" })).toEqual([]);
  });

  test("is taken off where it was laid on nothing", async () => {
    const stray = { source: "nonsense", provider: "gmail.com" };
    await pinLimits(database(), stray, { ratePerHour: 600 }, "ops");
    expect((await context.users.operator.call("POST", "/paces/nonsense/gmail.com/unpin")).body).toEqual(stray);
    expect(await viewPaces(database())).toEqual([]);
  });

  test("is laid on by the console's API, by operators only", async () => {
    const { operator, one, north } = context.users;
    await makeWorker()(Date.now(), {
      signals: [slowDown],
      acceptedPerHour: 7_200,
      tried: 5,
      delivered: 4,
      deferred: 1,
    });
    expect((await operator.call("GET", "/paces")).body).toMatchObject({
      paces: [{ ...KEY, rate: 3_600, pinned_by: null }],
    });
    expect((await operator.call("GET", "/paces/192.0.2.1/gmail")).body).toMatchObject({
      counts: [{ allowed: 3_600, tried: 5, delivered: 4, deferred: 1 }],
    });
    const tooMany = { concerns: "connections" as const, waitSeconds: 1, messages: 1, ageMs: 0 };
    await makeWorker()(Date.now(), { source: "192.0.2.3", signals: [tooMany], sessions: 8, tried: 3, delivered: 3 });
    expect((await operator.call("GET", "/paces/192.0.2.3/gmail")).body).toMatchObject({
      ...{ rate: null, connections: 4 },
      counts: [{ allowed: null, tried: 3 }],
    });
    const pinned = await operator.call("POST", "/paces/192.0.2.1/gmail/pin", { rate: 100, connections: null });
    expect(pinned.status).toBe(200);
    expect((await operator.call("GET", "/paces/192.0.2.1/gmail")).body).toMatchObject({
      rate: 100,
      pinned_by: "operator",
    });
    await operator.call("POST", "/paces/192.0.2.1/gmail/pin", { rate: null, connections: 5 });
    expect((await operator.call("GET", "/paces/192.0.2.1/gmail")).body).toMatchObject({
      pinned: { rate: null, connections: 5, messages_per_connection: null },
    });
    expect((await operator.call("POST", "/paces/192.0.2.1/gmail/pin", {})).status).toBe(400);
    expect((await operator.call("POST", "/paces/192.0.2.1/gmail/pin", { rate: 0 })).status).toBe(400);
    expect((await operator.call("POST", "/paces/192.0.2.9/gmail/reset")).status).toBe(404);
    expect((await operator.call("GET", "/paces/192.0.2.9/gmail")).status).toBe(404);
    expect((await operator.call("POST", "/paces/192.0.2.1/gmail/unpin")).status).toBe(200);
    expect((await operator.call("POST", "/paces/192.0.2.1/gmail/reset")).status).toBe(200);
    for (const other of [one, north]) {
      for (const [method, path] of [
        ["GET", "/paces"],
        ["GET", "/paces/192.0.2.1/gmail"],
        ["POST", "/paces/192.0.2.1/gmail/reset"],
      ]) {
        expect((await other.call(method!, path!)).status).toBe(403);
      }
    }
  });
});
