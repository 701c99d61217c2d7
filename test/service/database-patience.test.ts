import { type AddressInfo, connect, createServer } from "node:net";
import { pipeline } from "node:stream/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isDatabaseAway, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/** Longer than a connection may take where nothing is said. */
const LATE_MS = 11_000;

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(() => database.drop());

/** Asks by a way on which the server hears of a new connection late, as from a process that is busy itself. */
async function askLate(patienceMs?: number) {
  const target = new URL(database.url);
  const server = createServer((client) => {
    client.pause();
    setTimeout(() => {
      const upstream = connect(Number(target.port), target.hostname);
      // Either side may end as it likes.
      Promise.all([pipeline(client, upstream), pipeline(upstream, client)]).catch(() => {});
    }, LATE_MS);
    client.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const url = Object.assign(new URL(target), { hostname: "127.0.0.1", port: String(port) }).href;
  const db = openDb(url, { connections: 1, name: "test", ...(patienceMs === undefined ? {} : { patienceMs }) });
  try {
    return await queryRows(db, "select 1 as one");
  } finally {
    await db.destroy();
    server.close();
  }
}

test("a connection that is made late is waited for as long as was said, and else ten seconds", async () => {
  const [patient, hasty, usual] = await Promise.allSettled([askLate(60_000), askLate(200), askLate()]);
  expect(patient).toEqual({ status: "fulfilled", value: [{ one: 1 }] });
  for (const given of [hasty, usual]) {
    expect(given.status).toBe("rejected");
    expect(isDatabaseAway((given as PromiseRejectedResult).reason)).toBe(true);
  }
});
