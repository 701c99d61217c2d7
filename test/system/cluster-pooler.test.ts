import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  type Accounts,
  addAccounts,
  addCampaign,
  addCompany,
  dnsApiOf,
  mailApiOf,
  type RunningServices,
  runPalomar,
  sendTo,
  startServices,
  zoneBody,
} from "../support/deployment.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { hasPgBouncer, startPgBouncer } from "../support/peers-pgbouncer.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const why = hasPgBouncer ? "" : " (skipped: pgbouncer is not installed)";

describe.skipIf(!hasPgBouncer)(`behind PgBouncer in transaction mode${why}`, () => {
  const dataDir = makeDataDir();
  let database: TestDatabase;
  let pooler: Awaited<ReturnType<typeof startPgBouncer>>;
  let stack: RunningServices;
  let accounts: Accounts;

  beforeAll(async () => {
    database = await createTestDatabase();
    pooler = await startPgBouncer(database.url);
    const env = {
      DATABASE_URL: pooler.url,
      PALOMAR_LISTEN_DATABASE_URL: database.url,
      PALOMAR_SECRET: "a secret that only tests know",
      PALOMAR_DATA_DIR: dataDir,
    };
    accounts = await addAccounts(env);
    stack = await startServices([], env);
  });

  afterAll(async () => {
    await stack?.stop();
    await pooler?.stop();
    await database?.drop();
    removeDataDir(dataDir);
  });

  it("zones are changed by many at once, and what changes is answered in the time that a notice takes", async () => {
    const dnsApi = dnsApiOf(stack.addresses.dns_api, accounts);
    await addCompany(dnsApi);
    const domains = Array.from({ length: 8 }, (_, index) => `zone${index}.test`);
    const made = await Promise.all(domains.map((domain) => dnsApi("POST", `/master_zone/${domain}`, zoneBody(domain))));
    expect(made.map(({ status }) => status)).toEqual(domains.map(() => 200));
    const adds = domains.flatMap((domain) =>
      Array.from({ length: 25 }, (_, host) =>
        eventually(
          () => dnsApi("POST", `/rr/${domain}`, { name: `h${host}`, type: "A", value: `192.0.2.${host}` }),
          // Who waits too long for a connection among so many is told to come again.
          ({ status }) => status !== 503,
        ),
      ),
    );
    expect(new Set((await Promise.all(adds)).map(({ status }) => status))).toEqual(new Set([200]));
    for (const domain of domains) {
      await eventually(
        () => askDns(stack.addresses.dns, `h24.${domain}`, "A"),
        (answer) => dataOf(answer)[0] === "192.0.2.24",
      );
    }
    expect((await dnsApi("GET", "/domain_list")).body.domain_list).toHaveLength(8);
  });

  it("mail goes out and bounces come back", async () => {
    const mailApi = mailApiOf(stack.addresses.mail_api, accounts);
    const numid = await addCampaign(mailApi, "news@acme.test");
    const emails = Array.from({ length: 60 }, (_, index) => `${index % 6 === 0 ? "bounce+" : ""}r${index}@example.net`);
    const sends = await Promise.all(
      Array.from({ length: 6 }, (_, batch) => sendTo(mailApi, numid, emails.slice(batch * 10, batch * 10 + 10))),
    );
    expect(sends.map(({ body }) => body)).toEqual(sends.map(() => expect.objectContaining({ status: "ok", sent: 10 })));
    await eventually(
      async () => (await database.db.raw("select kind, count(*)::int from events group by 1")).rows,
      (rows) => JSON.stringify(rows).includes('"count":10') && rows.length > 1,
      120_000,
    );
    await eventually(
      () => database.db("deliveries").where({ state: "queued" }),
      (queued) => queued.length === 0,
    );
  });

  it("nobody starts or migrates without the way past it", async () => {
    const folder = makeDataDir();
    const env = { DATABASE_URL: pooler.url, PALOMAR_SECRET: "a secret that only tests know", PALOMAR_DATA_DIR: folder };
    for (const words of [["start", "mail-api"], ["migrate"]]) {
      const { status, stderr } = await runPalomar(words, { ...env, PALOMAR_MAIL_API_LISTEN: "127.0.0.1:0" });
      expect({ status, said: stderr.split("\n").filter((line) => line.startsWith("palomar: DATABASE_URL")) }).toEqual({
        status: 1,
        said: [expect.stringContaining("leads to a pooler in transaction mode: set PALOMAR_LISTEN_DATABASE_URL")],
      });
    }
    removeDataDir(folder);
  });

  it("nothing complained of a statement that is not there or already is", () => {
    expect(stack.output()).not.toMatch(/prepared statement|26000|42P05/);
    expect(pooler.log()).not.toMatch(/prepared statement/);
  });
});

describe.skipIf(!hasPgBouncer)(`behind PgBouncer whose PostgreSQL is away${why}`, () => {
  const dataDir = makeDataDir();
  let database: TestDatabase;
  let gate: Awaited<ReturnType<typeof openGate>>;
  let pooler: Awaited<ReturnType<typeof startPgBouncer>>;
  let stack: RunningServices;

  beforeAll(async () => {
    database = await createTestDatabase();
    gate = await openGate(database.url);
    pooler = await startPgBouncer(gate.url);
    stack = await startServices(["mail-api", "dns-server", "delivery"], {
      DATABASE_URL: pooler.url,
      PALOMAR_LISTEN_DATABASE_URL: gate.url,
      PALOMAR_SECRET: "a secret that only tests know",
      PALOMAR_DATA_DIR: dataDir,
    });
  });

  afterAll(async () => {
    await stack?.stop();
    await pooler?.stop();
    await gate?.close();
    await database?.drop();
    removeDataDir(dataDir);
  });

  it("services stop as soon as without it", async () => {
    await gate.close();
    // Whatever looks into the database every second waits by then.
    await sleep(4_000);
    const begunMs = performance.now();
    await stack.stop();
    const lines = stack.output().split("\n");
    expect(lines.filter((line) => line.includes("did not stop within the deadline"))).toEqual([]);
    expect(performance.now() - begunMs).toBeLessThan(7_000);
  });
});

/** The way to a PostgreSQL, which can be closed as that ends. */
async function openGate(databaseUrl: string) {
  const target = new URL(databaseUrl);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => open.delete(socket));
    }
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: Object.assign(new URL(target), { hostname: "127.0.0.1", port: String(port) }).href,
    close: async () => {
      for (const socket of open) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
