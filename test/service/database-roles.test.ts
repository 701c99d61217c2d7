import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { CommandRefused } from "../../services/cli/command-errors.ts";
import { makeRoles as makeRolesByCommand } from "../../services/cli/make-roles.ts";
import { start as startConsole } from "../../services/console/main.ts";
import { hashApiKey } from "../../services/core/api-key.ts";
import { type DomainName, formatDomainName, nameSortKey, parseDomainName } from "../../services/core/dns/name.ts";
import { parseRpzAction, parseRpzTrigger } from "../../services/core/dns/rpz/rules.ts";
import { RCODE } from "../../services/core/dns/rr-types.ts";
import { formatKeyFile } from "../../services/core/key-file.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { start as startDelivery } from "../../services/delivery/main.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { addCatalog } from "../../services/operations/dns/catalogs.ts";
import { addFeed } from "../../services/operations/dns/rpz-feeds.ts";
import { addRule } from "../../services/operations/dns/rpz-rules.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb, openListenConnection, queryRows } from "../../services/platform/postgres/db.ts";
import { makeScramVerifier } from "../../services/platform/postgres/scram-verifier.ts";
import type { AddressName, RunningService, StartService } from "../../services/platform/service.ts";
import { start as startSandbox } from "../../services/sandbox/main.ts";
import { applyRoles, findMissingRights, listTables, roleOf, rolePolicy } from "../../services/store/database-roles.ts";
import { completeKeyRing } from "../../services/store/deployment-keys.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { RECORDS_A_STATEMENT } from "../../services/store/dns/zone-changes.ts";
import { deleteZonesWhere } from "../../services/store/dns/zones.ts";
import { applyRetention } from "../../services/store/mail/events/event-retention.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { start as startTracking } from "../../services/tracking/main.ts";
import { callApi } from "../support/api-client.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { exchangeDatagram } from "../support/datagrams.ts";
import {
  type Accounts,
  addCampaign,
  addCompany,
  dnsApiOf,
  mailApiOf,
  runPalomar,
  sendTo,
  zoneBody,
} from "../support/deployment.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { addition, signUpdate } from "../support/dns-updates.ts";
import { eachThrown } from "../support/each-thrown.ts";
import { addTestInstance } from "../support/instances.ts";
import { keyRingOfFile, makeRoles } from "../support/service-roles.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const named = (text: string): DomainName => {
  const parsed = parseDomainName(text);
  if (!parsed.ok) throw new Error(text);
  return parsed.value;
};

const KEY_RING = KeyRing.ofSecret("a secret that only tests know");
const ACCOUNTS: Accounts = {
  reseller: { reseller_id: "acme", key: "key-of-the-reseller" },
  instance: { name: "acme", key: "key-of-the-instance" },
};
/** The sandbox's inbox runs beside delivery and with its role. Each has the keys of its own file, and no other. */
const SERVICES: readonly (readonly [service: string, start: StartService])[] = [
  ["dns-server", startDnsServer],
  ["dns-api", startDnsApi],
  ["delivery", startSandbox],
  ["bounce", startBounce],
  ["tracking", startTracking],
  ["delivery", startDelivery],
  ["mail-api", startMailApi],
  ["submission", startSubmission],
  ["console", startConsole],
];

let database: TestDatabase;
let urls: Map<string, string>;
const dataDir = makeDataDir();
const running: RunningService[] = [];
const pools: Db[] = [];
const failures: Readonly<Record<string, unknown>>[] = [];
const addresses = new Map<AddressName, string>();

beforeAll(async () => {
  database = await createTestDatabase();
  urls = await makeRoles(database);
  const { db } = database;
  await completeKeyRing(db, KEY_RING);
  await addTestInstance(db, KEY_RING, {
    ...ACCOUNTS.instance,
    host: "mail.test",
    archive: true,
    domains: ["acme.test"],
  });
  const { reseller_id: id, key } = ACCOUNTS.reseller;
  await addReseller(db, { id, name: id, rpzLicence: true, keyHash: hashApiKey(KEY_RING, "dns", key) });
});

afterAll(async () => {
  for (const service of running.reverse()) await service.stop();
  for (const pool of pools) await pool.destroy();
  await database.drop();
  removeDataDir(dataDir);
});

async function run(name: string, start: StartService): Promise<void> {
  const url = urls.get(name)!;
  const listeners = ["MAIL_API", "DNS_API", "CONSOLE", "TRACKING", "DNS", "SUBMISSION", "SUBMISSIONS", "MX", "SANDBOX"];
  const config = loadConfig({
    ...Object.fromEntries(listeners.map((name) => [`PALOMAR_${name}_LISTEN`, "127.0.0.1:0"])),
    PALOMAR_DNS_UDP: "portable",
    PALOMAR_DATA_DIR: dataDir,
  });
  if (!config.ok) throw new Error(config.error.join("\n"));
  const db = openDb(url, { connections: 6, name });
  pools.push(db);
  const service = await start({
    config: config.value,
    keyRing: await completeKeyRing(db, keyRingOfFile(KEY_RING, name)),
    db,
    clock: systemClock,
    logger: makeLogger("test", "silent"),
    observe: (observation) => {
      if (observation.level === "error" || observation.level === "warn") failures.push({ ...observation, name });
    },
    openListenConnection: () => openListenConnection(url, name),
    addressOf: async (sibling) => {
      for (let waitedMs = 0; !addresses.has(sibling); waitedMs += 20) {
        if (waitedMs > 120_000) throw new Error(`${sibling} does not listen`);
        await sleep(20);
      }
      return addresses.get(sibling)!;
    },
  });
  running.push(service);
  for (const [listener, address] of Object.entries(service.addresses)) addresses.set(listener as AddressName, address!);
}

/** Makes many zones like one that there is. */
async function copyZone(name: string, count: number): Promise<void> {
  const apexes = Array.from({ length: count }, (_, n) => named(`z${n}.${name}`));
  await database.db.raw(
    `insert into zones (kind, reseller_id, company_id, made_by, name, name_key, apex, serial_type, ttl, serial,
                        mname, rname, refresh, retry, expire, minimum)
     select kind, reseller_id, company_id, made_by, made.name, made.name_key, made.apex, serial_type, ttl, serial,
            mname, rname, refresh, retry, expire, minimum
       from zones, unnest(?::text[], ?::bytea[], ?::bytea[]) as made (name, name_key, apex) where zones.name = ?`,
    [
      apexes.map((apex) => formatDomainName(apex).slice(0, -1)),
      apexes.map(({ wire }) => Buffer.from(nameSortKey(wire))),
      apexes.map(({ wire }) => Buffer.from(wire)),
      name,
    ],
  );
}

it("every table is in one area, and every area of a service is one", async () => {
  const known = Object.values(rolePolicy.areas).flat();
  expect((await listTables(database.db)).filter((table) => !known.includes(table))).toEqual([]);
  expect(new Set(known).size).toBe(known.length);
  const used = Object.values(rolePolicy.services).flatMap(({ columns: _columns, ...areas }) =>
    Object.values(areas).flat(),
  );
  expect(used.filter((area) => !(area in rolePolicy.areas))).toEqual([]);
});

it("a role has all that its own service needs, the owner what all do, and another service's role is told apart", async () => {
  for (const service of Object.keys(rolePolicy.services)) {
    const db = openDb(urls.get(service)!, { connections: 1, name: "test" });
    try {
      expect(await findMissingRights(db, service)).toEqual({ role: roleOf(service), rights: [] });
      expect((await findMissingRights(database.db, service)).rights).toEqual([]);
      if (service !== "dns-server") continue;
      const { rights } = await findMissingRights(db, "dns-api");
      expect(rights).toContain("select on dns_tokens");
      expect(rights).toContain("update on dns_updates");
      expect(rights).not.toContain("insert on dns_updates");
      expect(rights).not.toContain("update on zones");
    } finally {
      await db.destroy();
    }
  }
  const db = openDb(urls.get("mail-api")!, { connections: 1, name: "test" });
  expect((await findMissingRights(db, "dns-server")).rights).toContain("select on companies.reseller_id");
  await db.destroy();
});

it("a service does not start in the role of another one, which the refusal names", async () => {
  const keys = join(dataDir, "keys_dns_api");
  writeFileSync(keys, formatKeyFile(KEY_RING, "dns-api"), { mode: 0o600 });
  const folder = { PALOMAR_DATA_DIR: join(dataDir, "of-another"), PALOMAR_KEYS_FILE: keys };
  expect(await runPalomar(["start", "dns-api"], { ...folder, DATABASE_URL: urls.get("mail-api")! })).toEqual({
    status: 1,
    stdout: "",
    stderr: expect.stringMatching(
      /^palomar: the role palomar_mail_api lacks rights that dns-api needs: (\w+ on \w+, ){3}and \d+ more\. DATABASE_URL /m,
    ),
  });
});

it("applying them again changes nothing and gives no passwords", async () => {
  expect((await applyRoles(database.db)).map(({ password }) => password)).toEqual(
    Object.keys(rolePolicy.services).map(() => null),
  );
});

it("applying them takes back what a role no longer has, of tables and of columns", async () => {
  const { db } = database;
  const rights = async () => {
    const { rows } = await db.raw(
      `select has_table_privilege(role, 'zones', 'delete') as deletes, has_table_privilege(role, 'messages', 'update') as updates,
              has_column_privilege(role, 'zone_keys', 'private_key_sealed', 'select') as reads
         from (select 'palomar_dns_server' as role) as one`,
    );
    return rows[0];
  };
  await db.raw("grant insert, delete on zones to palomar_dns_server");
  await db.raw("grant update on messages to palomar_dns_server");
  await db.raw("grant select (private_key_sealed) on zone_keys to palomar_dns_server");
  expect(await rights()).toEqual({ deletes: true, updates: true, reads: true });
  await applyRoles(db);
  expect(await rights()).toEqual({ deletes: false, updates: false, reads: false });
});

it("several may apply them at once", async () => {
  const applied = await Promise.all(Array.from({ length: 3 }, () => applyRoles(database.db)));
  expect(applied.map((roles) => roles.length)).toEqual(Array(3).fill(Object.keys(rolePolicy.services).length));
});

it("passwords stand in nothing that a refusal prints, and reach the server as what it stores of them", async () => {
  const limited = openDb(urls.get("dns-server")!, { connections: 1, name: "test" });
  const secret = "never?printed";
  try {
    const refusal = await makeRolesByCommand(limited, new Map([["palomar_dns_server", secret]])).catch(
      (error: Error) => error,
    );
    expect(refusal).toBeInstanceOf(CommandRefused);
    expect((refusal as Error).message).toMatch(
      /^the roles are not made: permission denied.*SQLSTATE 42501.*CREATEROLE/,
    );
    const error = await applyRoles(limited, new Map([["palomar_delivery", secret]])).catch((error: Error) => error);
    expect(inspect([refusal, error])).not.toMatch(/never|SCRAM/);
  } finally {
    await limited.destroy();
  }
  const role = `test_${randomBytes(6).toString("hex")}`;
  const password = "ü?\u00a0b\u00ad'ﬁ";
  await database.db.raw(`create role ${role} login password '${makeScramVerifier(password)}'`);
  const own = Object.assign(new URL(database.url), { username: role, password: encodeURIComponent(password) });
  const db = openDb(own.href, { connections: 1, name: "test" });
  expect(await queryRows(db, "select current_user as role")).toEqual([{ role }]);
  await db.destroy();
  await database.db.raw(`drop role ${role}`);
});

it("an error holds the server's words and not the statement, and names what was done to what", async () => {
  const { db } = database;
  const inTransaction = db.transaction((transaction) =>
    transaction.raw("select ? as x, nothing from zones", ["secret"]),
  );
  for (const asked of [inTransaction, db("zones").where({ nothing: "secret" })]) {
    const error = await asked.then(
      () => undefined,
      (error: Error) => error,
    );
    expect(error).toMatchObject({
      message: expect.stringMatching(/^column "nothing" does not exist$/),
      statement: "select zones",
    });
    expect(inspect(error)).not.toContain("secret");
  }
});

describe("with a role for each service", () => {
  beforeAll(async () => {
    // What refers to a sibling's address waits for it, so all start at once.
    await Promise.all(SERVICES.map(([name, start]) => run(name, start)));
  });

  it("zones are made, changed, answered and deleted", async () => {
    const dnsApi = dnsApiOf(addresses.get("dns_api")!, ACCOUNTS);
    await addCompany(dnsApi);
    expect((await dnsApi("POST", "/master_zone/roles.test", zoneBody("roles.test"))).status).toBe(200);
    expect((await dnsApi("POST", "/rr/roles.test", { name: "www", type: "A", value: "192.0.2.7" })).status).toBe(200);
    await eventually(
      () => askDns(addresses.get("dns")!, "www.roles.test", "A"),
      (answer) => dataOf(answer)[0] === "192.0.2.7",
    );
    expect((await dnsApi("DELETE", "/master_zone/roles.test", { crm_id: "company" })).status).toBe(200);
  });

  it("updates reach the DNS API through the name server", async () => {
    const dnsApi = dnsApiOf(addresses.get("dns_api")!, ACCOUNTS);
    expect((await dnsApi("POST", "/master_zone/updates.test", zoneBody("updates.test"))).status).toBe(200);
    expect((await dnsApi("PUT", "/updates/updates.test", { enabled: true })).status).toBe(200);
    const { tsig } = (await dnsApi("POST", "/token", { name: "t", access: "write", tsig: "hmac-sha256" })).body;
    const [host, port] = addresses.get("dns")!.split(":") as [string, string];
    await eventually(
      () => {
        const { octets } = signUpdate("updates.test", tsig, {
          updates: [addition("www.updates.test", "A", "192.0.2.1")],
        });
        return exchangeDatagram(octets, { host, port: Number(port) });
      },
      // The name server reads keys each half second.
      (answer) => (answer[3]! & 0xf) === RCODE.NOERROR,
    );
    expect((await dnsApi("DELETE", "/master_zone/updates.test", { crm_id: "company" })).status).toBe(200);
  });

  it("a catalog takes new zones in, and a rule of a feed ends, by the name server's own doing", async () => {
    const { db } = database;
    const made = await addCatalog(db, "acme", named("catalog.acme.test"), { actor: "test", maker: "operator" });
    if (!made.ok) throw new Error(JSON.stringify(made.error));
    const feed = await addFeed(db, named("feed.acme.test"), "test");
    if (!feed.ok) throw new Error(JSON.stringify(feed.error));
    const dnsApi = dnsApiOf(addresses.get("dns_api")!, ACCOUNTS);
    expect((await dnsApi("POST", "/master_zone/member.test", zoneBody("member.test"))).status).toBe(200);
    await eventually(
      () => db("catalog_members").count({ n: "*" }).first(),
      (row) => Number(row?.n) === 1,
    );
    expect((await dnsApi("DELETE", "/master_zone/member.test", { crm_id: "company" })).status).toBe(200);
    await eventually(
      () => db("catalog_members").count({ n: "*" }).first(),
      (row) => Number(row?.n) === 0,
    );
    expect(failures).toEqual([]);
  });

  it("the name server writes more members of a catalog than one statement takes, and ends rules of feeds", async () => {
    const { db } = database;
    const dnsApi = dnsApiOf(addresses.get("dns_api")!, ACCOUNTS);
    expect((await dnsApi("POST", "/master_zone/pattern.test", zoneBody("pattern.test"))).status).toBe(200);
    await copyZone("pattern.test", RECORDS_A_STATEMENT + 1);
    const members = async () => Number((await db("catalog_members").count({ n: "*" }).first())!.n);
    await eventually(members, (count) => count === RECORDS_A_STATEMENT + 2);
    await deleteZonesWhere(db, "name like $1", ["%pattern.test"]);
    await eventually(members, (count) => count === 0);

    const trigger = parseRpzTrigger("qname:bad.example");
    const action = parseRpzAction("nxdomain");
    if (!trigger.ok || !action.ok) throw new Error("no rule");
    const rule = { trigger: trigger.value, action: action.value, expiresAt: new Date() };
    const added = await addRule(db, named("feed.acme.test"), rule, "test");
    if (!added.ok) throw new Error(JSON.stringify(added.error));
    await eventually(
      () => db("rpz_feeds").first("rules"),
      ({ rules }) => rules === 0,
    );
    expect(failures).toEqual([]);
  });

  it(`mail goes out, bounces, complaints and touches come back`, async () => {
    const mailApi = mailApiOf(addresses.get("mail_api")!, ACCOUNTS);
    const numid = await addCampaign(mailApi, "news@acme.test");
    const emails = ["a@example.net", "bounce+b@example.net", "reject+c@example.net", "complaint+d@example.net"];
    const sent = await sendTo(mailApi, numid, emails);
    expect(sent.body).toMatchObject({ status: "ok", sent: 4 });
    await eventually(
      async () =>
        (await database.db.raw("select kind, count(*)::int as n from events group by 1 order by 1")).rows as {
          kind: string;
          n: number;
        }[],
      (rows) => rows.reduce((sum, { n }) => sum + n, 0) >= 7 && failures.length === 0,
      120_000,
    );
    const { rows } = await database.db.raw("select content from sandbox_messages limit 1").catch(() => ({ rows: [] }));
    expect(rows.length).toBeLessThanOrEqual(1);
    expect((await mailApi("GET", `/contacto/${encodeURIComponent("a@example.net")}`)).status).toBe(200);
  });

  it("the mail API removes what an instance keeps no longer", async () => {
    const { db } = database;
    await db("instances").update({ message_retention_days: 30 });
    const asMailApi = openDb(urls.get("mail-api")!, { connections: 1, name: "test" });
    try {
      // Years from now everything has been sent, and all that came back for it has been read.
      await eventually(
        async () => {
          await applyRetention(asMailApi, new Date("2200-01-01T00:00:00Z"), eachThrown());
          return Number((await db("batches").count())[0]!.count);
        },
        (left) => left === 0,
        120_000,
      );
    } finally {
      await asMailApi.destroy();
    }
  });

  it("the console answers", async () => {
    expect((await callApi("GET", `${addresses.get("console")}/admin/v1/sandbox/messages`, {})).status).toBe(401);
  });

  it("nothing was refused by the database", () => {
    expect(failures.filter(({ err }) => (err as { code?: string } | undefined)?.code === "42501")).toEqual([]);
    expect(failures).toEqual([]);
  });
});

describe("what a role must not do, it cannot", () => {
  it.each([
    ["dns_server", "select * from contacts"],
    ["dns_server", "select * from users"],
    ["dns_server", "select * from companies"],
    ["dns_server", "delete from resellers"],
    ["dns_server", "delete from zones"],
    ["dns_server", "insert into zones (name) values ('made.test')"],
    ["dns_server", "select private_key_sealed from zone_keys"],
    ["dns_server", "delete from zone_keys"],
    ["dns_server", "delete from derived_records"],
    ["dns_server", "update zone_permissions set name = ''"],
    ["dns_server", "update rpz_activations set reseller_id = 'acme'"],
    ["dns_server", "update dns_updates set rcode = 0"],
    ["dns_server", "delete from dns_updates"],
    ["dns_api", "select * from contacts"],
    ["dns_api", "select * from instance_domains"],
    ["dns_api", "update resellers set rpz_licence = true"],
    ["dns_api", "select * from users"],
    ["mail_api", "select * from zones"],
    ["mail_api", "select * from tsig_keys"],
    ["mail_api", "update instances set archive = true"],
    ["submission", "select * from users"],
    ["submission", "delete from campaigns"],
    ["submission", "delete from contacts"],
    ["submission", "delete from events"],
    ["submission", "delete from messages"],
    ["submission", "update messages set subject = ''"],
    ["submission", "select key_sealed from dkim_keys"],
    ["delivery", "select * from tsig_keys"],
    ["delivery", "update instances set name = 'x'"],
    ["delivery", "delete from contacts"],
    ["delivery", "delete from messages"],
    ["delivery", "update campaigns set name = 'x'"],
    ["bounce", "select * from companies"],
    ["bounce", "delete from instances"],
    ["bounce", "delete from contacts"],
    ["bounce", "delete from events"],
    ["bounce", "select from batches"],
    ["bounce", "update messages set subject = ''"],
    ["bounce", "delete from mailboxes"],
    ["bounce", "select key_sealed from dkim_keys"],
    ["tracking", "select * from resellers"],
    ["tracking", "select * from users"],
    ["tracking", "delete from contacts"],
    ["tracking", "delete from events"],
    ["tracking", "select from batches"],
    ["tracking", "update messages set subject = ''"],
    ["tracking", "delete from webhooks"],
    ["tracking", "select key_sealed from dkim_keys"],
    ["tracking", "select dkim_key_sealed from instance_domains"],
    ["console", "create table mine (id int)"],
    ["console", "drop table users"],
    ["dns_server", "update schema_migrations set checksum = ''"],
    ["mail_api", "update deployment_facts set value = ''"],
  ])("%s: %s", isRefused);

  const isSpread = inject("citusWorkers").length > 0;
  it.skipIf(isSpread)(
    `submission: the secrets of webhooks${isSpread ? " (not on Citus: what a row points to is read as by who writes it)" : ""}`,
    () => isRefused("submission", "select secret_sealed from webhooks"),
  );

  async function isRefused(role: string, statement: string): Promise<void> {
    const db = openDb(urls.get(role.replaceAll("_", "-"))!, { connections: 1, name: "test" });
    try {
      await expect(db.raw(statement)).rejects.toMatchObject({ code: "42501" });
    } finally {
      await db.destroy();
    }
  }
});
