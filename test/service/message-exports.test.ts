import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startConsole } from "../../services/console/main.ts";
import { hashPassword } from "../../services/core/password.ts";
import type { Transaction } from "../../services/platform/postgres/db.ts";
import { addUser } from "../../services/store/console/users.ts";
import { holdDestination } from "../../services/store/mail/queue/queue-destinations.ts";
import { callApi } from "../support/api-client.ts";
import { addTestInstance } from "../support/instances.ts";
import { type MailStack, startMailStack } from "../support/mail-stack.ts";
import { listWaiting } from "../support/spread-tables.ts";

let stack: MailStack;
let base: string;
let campaign: number;
const PASSWORD = "a password for tests";

beforeAll(async () => {
  stack = await startMailStack(undefined, { PALOMAR_CONSOLE_LISTEN: "127.0.0.1:0" });
  const { db, keyRing } = stack.context;
  await addTestInstance(db, keyRing, {
    ...{ name: "other", host: "other.test", key: "key-of-other", archive: false, domains: [] },
  });
  const passwordHash = await hashPassword(PASSWORD);
  await addUser(db, { login: "ana", role: "instance", scope: "test", passwordHash });
  await addUser(db, { login: "ben", role: "instance", scope: "test", passwordHash });
  await addUser(db, { login: "eve", role: "instance", scope: "other", passwordHash });
  await addUser(db, { login: "root", role: "operator", scope: null, passwordHash });
  const { addresses } = await stack.run(startConsole);
  base = `${addresses.console}/admin/v1`;
  campaign = await stack.addCampaign({ asunto: "Order" });
  await holdDestination(db, "held.example.net", "root");
  const sent = await stack.call("POST", "/envio/send_one_inline/", {
    ...{ campana_id: campaign, email: true, html: "<p>Hello</p>" },
    contacto: { email: "one@held.example.net" },
  });
  if (sent.status !== 200) throw new Error(JSON.stringify(sent.body));
});
afterAll(() => stack.stop());

const credentials = (login: string) => `Basic ${Buffer.from(`${login}:${PASSWORD}`).toString("base64")}`;
const get = (login: string, path: string) => callApi("GET", base + path, { Authorization: credentials(login) });
const head = (login: string, path: string) =>
  fetch(base + path, { method: "HEAD", headers: { Authorization: credentials(login) } });

/** A request of which nothing is read beyond what comes by itself. */
async function open(login: string, path: string): Promise<Socket> {
  const { port, pathname } = new URL(base + path);
  const socket = connect(Number(port), "127.0.0.1");
  socket.on("error", () => {});
  const target = pathname + new URL(base + path).search;
  socket.write(`GET ${target} HTTP/1.1\r\nHost: console.test\r\nAuthorization: ${credentials(login)}\r\n\r\n`);
  await new Promise((resolve) => socket.once("readable", resolve));
  return socket;
}

/** Does something while whoever looks at deliveries waits. */
async function whileSlow<T>(act: (release: () => Promise<void>) => Promise<T>): Promise<T> {
  const transaction: Transaction = await stack.context.db.transaction();
  await transaction.raw("lock table deliveries in access exclusive mode");
  const release = async () => {
    if (!transaction.isCompleted()) await transaction.rollback();
  };
  try {
    return await act(release);
  } finally {
    await release();
  }
}

/** Searches that wait, in the database. */
async function waitingForDeliveries(): Promise<number> {
  const waiting = await listWaiting(stack.context.db);
  return waiting.filter(({ query }) => query.startsWith("select id as delivery")).length;
}

describe("exports of messages", () => {
  const path = "/instances/test/messages/export";

  test("are two of an instance at a time, whoever of it asks; others and the operator have theirs", async () => {
    await whileSlow(async (release) => {
      const opened = [await open("ana", path), await open("ana", `${path}?reply=nothing1`)];
      expect(await get("ben", path)).toMatchObject({ status: 429, body: { code: "rate-limited" } });
      expect((await head("ben", path)).headers.get("retry-after")).toBe("5");
      const others = [await open("eve", "/instances/other/messages/export"), await open("root", path)];
      await release();
      for (const socket of [...opened, ...others]) socket.destroy();
    });
    await expect.poll(async () => (await get("ben", path)).status).toBe(200);
  });

  test("end with their client, and their places are free", async () => {
    await whileSlow(async (release) => {
      for (const socket of [await open("ana", path), await open("ana", path)]) socket.destroy();
      await release();
    });
    await expect.poll(async () => (await get("ana", path)).status).toBe(200);
    const csv = await get("ana", path);
    expect(csv.body.split("\r\n")).toHaveLength(3);
  });

  test("are not made for a HEAD", async () => {
    await whileSlow(async () => {
      for (const kind of ["messages", "contacts", "suppressions"]) {
        const answer = await head("ana", `/instances/test/${kind}/export`);
        expect([answer.status, answer.headers.get("content-disposition")]).toEqual([
          200,
          `attachment; filename="${kind}-test.csv"`,
        ]);
      }
      expect(await waitingForDeliveries()).toBe(0);
    });
  });
});

test("those of contacts and suppressions are counted too", async () => {
  const bodies = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      get("ana", `/instances/test/${index % 2 ? "contacts" : "suppressions"}/export`),
    ),
  );
  const statuses = bodies.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(2);
  expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
  expect((await get("root", "/suppressions/export")).status).toBe(200);
});

test("an instance's searches are done one by one, too many are refused, and no other waits for them", async () => {
  await whileSlow(async (release) => {
    let answered = 0;
    const many = Array.from({ length: 30 }, async () => {
      const { status } = await get("ana", "/instances/test/messages?reply=nothing1");
      answered += 1;
      return status;
    });
    // One is done and sixteen wait.
    await expect.poll(() => answered).toBe(13);
    await expect.poll(waitingForDeliveries).toBe(1);
    const refused = await get("ben", "/instances/test/messages");
    expect(refused).toMatchObject({ status: 429, body: { code: "rate-limited" } });
    const others = [get("eve", "/instances/other/messages"), get("root", "/instances/test/messages")];
    await expect.poll(waitingForDeliveries).toBe(3);
    await release();
    expect((await Promise.all(others)).map(({ status }) => status)).toEqual([200, 200]);
    const statuses = await Promise.all(many);
    expect(statuses.filter((status) => status === 200)).toHaveLength(17);
    expect(statuses.filter((status) => status === 429)).toHaveLength(13);
  });
});

const written = (place: unknown) => Buffer.from(JSON.stringify(place)).toString("base64url");

test.each([
  [`campaign=2&after=${written(["999999-12-31 00:00:00+00", 1])}`],
  [`campaign=2&after=${written(["2026-99-99 00:00:00+00", 1])}`],
  [`state=bounced&after=${written(["2026-99-99 00:00:00+00", 1])}`],
  [`reason=userunknown&after=${written(["2026-01-01 99:99:00+99", 1])}`],
  [`after=${written(["2026-01-01 00:00:00+00", 1])}`],
  [`campaign=1&after=${written([1, 2])}`],
  [`after=${written([])}`],
])("a place that is none is refused: %s", async (query) => {
  const answer = await get("ana", `/instances/test/messages?${query}`);
  expect(answer).toMatchObject({ status: 400, body: { code: "invalid-field", values: { field: "after" } } });
});

const MOST = Number.MAX_SAFE_INTEGER;

test.each([
  ["ana", `/instances/test/messages?after=${written([MOST])}`],
  ["ana", `/instances/test/campaigns?before=${MOST}`],
  ["ana", "/instances/test/campaigns?before=-1"],
  ["ana", "/instances/test/batches?before=00000000-0000-4000-8000-000000000000"],
  ["ana", "/instances/test/contacts?page=1000000"],
  ["ana", "/instances/test/suppressions?after=invalid:999999999999999999"],
  ["ana", "/instances/test/suppressions?after=campaign:999999999999999999-999999999999999999"],
  ["ana", "/instances/test/suppressions?after=kept:%EF%BF%BD'"],
  ["ana", "/instances/test/suppressions?after=whitelist:%5C%5Cx0"],
  ["root", "/suppressions?after=global:%5C"],
  ["root", "/suppressions?after=kept:1"],
  ["ana", `/instances/test/webhooks/1/deliveries?limit=1&before=${MOST}`],
  ["root", `/audit?before=${MOST}`],
  ["root", `/quarantine?before=${MOST}`],
  ["root", `/sandbox/messages?before=${MOST}`],
  ["root", `/bounces/unknown?before=${MOST}`],
])("%s: a place beyond all that there is does not break a list: %s", async (login, path) => {
  expect((await get(login, path)).status).toBeLessThan(500);
});
