import { createHmac } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import {
  addWebhook,
  findWebhook,
  listWebhookBatches,
  removeWebhook,
  replayWebhookBatch,
} from "../../services/store/mail/tracking/webhooks.ts";
import { webhookWaitSeconds } from "../../services/tracking/webhooks/worker.ts";
import { addTestInstance } from "../support/instances.ts";
import { eventually } from "../support/stack.ts";
import { startTestTracking, type TestTracking } from "../support/tracking.ts";
import { setWebhook } from "../support/webhooks.ts";

interface Received {
  readonly body: string;
  readonly signature: string;
}

let tracking: TestTracking;
let server: Server;
let status = 200;
const received: Received[] = [];
const KEY_RING = KeyRing.ofSecret("a secret for tests only");

beforeAll(async () => {
  tracking = await startTestTracking({ PALOMAR_FETCH_ALLOW: "127.0.0.0/8" });
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (status < 300) {
      received.push({
        body: Buffer.concat(chunks).toString(),
        signature: String(request.headers["palomar-signature"]),
      });
    }
    response.writeHead(status, { location: "http://127.0.0.1:9/" }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  await removeWebhook(tracking.db, tracking.instance.id);
  received.length = 0;
  status = 200;
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  await tracking.stop();
  expect(tracking.failures).toEqual([]);
});

const setTestWebhook = () =>
  setWebhook(
    tracking.db,
    KEY_RING,
    tracking.instance.id,
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`,
  );
const log = () => listWebhookBatches(tracking.db, tracking.instance.id, { limit: 100 });
const eventsReceived = async (): Promise<{ evento: string; email: string }[]> =>
  received.flatMap(({ body }) => JSON.parse(body).eventos);

test("tells events in their order, signed", async () => {
  const startedAt = Math.floor(Date.now() / 1000);
  const secret = await setTestWebhook();
  const ana = await tracking.deliver("ana@hooks.example.net", "<p>Hi</p>");
  await tracking.get(ana.open);
  await eventually(
    () => tracking.eventsOf(ana),
    (found) => found.length === 1,
  );
  await tracking.call("POST", ana.unsubscribe);
  const events = await eventually(eventsReceived, (found) => found.length === 3);
  expect(events).toMatchObject(
    ["envio", "vista", "desuscripcion"].map((evento) => ({
      evento,
      email: "ana@hooks.example.net",
      campania: "Spring & <sale>",
      campana_id: tracking.campaign.numid,
      eeid: ana.eeid,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
    })),
  );
  for (const { body, signature } of received) {
    const [, seconds, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(signature)!;
    expect(mac).toBe(createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex"));
    expect(Number(seconds)).toBeGreaterThanOrEqual(startedAt);
    expect(Number(seconds)).toBeLessThanOrEqual(Date.now() / 1000);
  }
});

test("is set again with another secret where the one that sealed its own is lost", async () => {
  const url = "https://example.org/events";
  const set = (keyRing: KeyRing) => setWebhook(tracking.db, keyRing, tracking.instance.id, url);
  const lost = await set(KeyRing.ofSecret("a secret that was lost"));
  const anew = await set(KEY_RING);
  expect(anew).not.toBe(lost);
  expect(await set(KEY_RING)).toBe(anew);
});

test.each([500, 404, 302])("keeps what is answered with %i, tries again, and can be replayed", async (refusal) => {
  status = refusal;
  await setTestWebhook();
  const before = Date.now();
  const ana = await tracking.deliver(`status${refusal}@hooks.example.net`, "<p>Hi</p>");
  await tracking.get(ana.open);
  const [batch] = await eventually(log, ([newest]) => newest !== undefined && newest.attempts > 0);
  expect(batch).toMatchObject({ state: "waiting", outcome: { message: `status ${refusal}` } });
  const { failures, nextAttemptAt } = (await findWebhook(tracking.db, tracking.instance.id))!;
  expect(failures).toBe(1);
  expect(nextAttemptAt.getTime()).toBeGreaterThan(before + 1_000);

  status = 200;
  expect(await replayWebhookBatch(tracking.db, tracking.instance.id, batch!.id + 1_000)).toBe(false);
  expect(await replayWebhookBatch(tracking.db, tracking.instance.id, batch!.id)).toBe(true);
  await eventually(log, (batches) => batches.every(({ state }) => state === "delivered"));
  await eventually(eventsReceived, (events) => events.length === 2);
  expect((await eventsReceived()).map(({ evento }) => evento)).toEqual(["envio", "vista"]);
});

test("gives up a batch after its time, and goes on with the next", async () => {
  status = 503;
  await setTestWebhook();
  await tracking.deliver("late@hooks.example.net", "<p>Hi</p>");
  await eventually(log, ([newest]) => newest !== undefined && newest.attempts > 0);
  const event = await tracking
    .db("events")
    .where({ instance_id: tracking.instance.id })
    .orderBy("at", "desc")
    .first("at");
  const batch = await tracking.db("webhook_batches").first("give_up_at");
  expect(batch.give_up_at).toEqual(new Date(event.at.getTime() + 24 * 3_600_000));
  await tracking.db("webhook_batches").update({ give_up_at: new Date(0) });
  await tracking.db("webhooks").update({ next_attempt_at: new Date(0) });
  await eventually(log, ([newest]) => newest?.state === "failed");
  status = 200;
  await tracking.deliver("next@hooks.example.net", "<p>Hi</p>");
  const events = await eventually(eventsReceived, (found) => found.length === 1);
  expect(events[0]!.email).toBe("next@hooks.example.net");
});

test("servers that answer late have few places at once, and others are told meanwhile", async () => {
  const held: ServerResponse[] = [];
  const slow = createServer((request, response) => {
    request.resume();
    held.push(response);
  });
  await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/`;
  const { db } = tracking;
  const other = { name: "slow", host: "slow.test", key: "key-of-slow", archive: false, domains: [] };
  await addTestInstance(db, KEY_RING, other);
  const { id } = (await findInstanceByName(db, "slow"))!;
  const all = { kinds: null, campaigns: null, condition: null, isFull: false };
  for (let n = 0; n < 10; n++) await addWebhook(db, KEY_RING, id, { ...all, name: `slow${n}`, url });
  await db.raw(
    `insert into webhook_batches (instance_id, webhook, body, events, give_up_at)
     select instance_id, name, '{}', 1, now() + interval '1 day' from webhooks where instance_id = ?`,
    [id],
  );
  await eventually(
    async () => held.length,
    (count) => count === 4,
  );
  await setTestWebhook();
  await tracking.deliver("meanwhile@hooks.example.net", "<p>Hi</p>");
  await eventually(eventsReceived, (found) => found.length === 1);
  expect(held).toHaveLength(4);
  // Those that come after are let go as well.
  const letGo = setInterval(() => {
    for (const response of held.splice(0)) response.end();
  }, 20);
  await eventually(
    () => db("webhook_batches").where({ instance_id: id, state: "delivered" }),
    (told) => told.length === 10,
  );
  clearInterval(letGo);
  await db("webhooks").where({ instance_id: id }).delete();
  slow.closeAllConnections();
  await new Promise((resolve) => slow.close(resolve));
});

test("does not reach private addresses", async () => {
  await tracking.stop();
  tracking = await startTestTracking();
  await setTestWebhook();
  await tracking.deliver("private@hooks.example.net", "<p>Hi</p>");
  const [batch] = await eventually(log, ([newest]) => newest !== undefined && newest.attempts > 0);
  expect(batch).toMatchObject({ state: "waiting", outcome: { code: "address-not-allowed" } });
  expect(received).toEqual([]);
});

test("keeps nothing for instances without one", async () => {
  await tracking.deliver("none@hooks.example.net", "<p>Hi</p>");
  expect(await tracking.db("webhook_events").select()).toEqual([]);
});

test.each([
  [0, 5],
  [1, 10],
  [9, 2_560],
  [10, 3_600],
  [1_000, 3_600],
])("waits after %i failures %i seconds", (failures, seconds) => {
  expect(webhookWaitSeconds(failures)).toBe(seconds);
});
