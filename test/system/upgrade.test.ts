import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { isBehind, migrate, migrateTo } from "../../services/platform/postgres/migrations.ts";
import { EVENT_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { createEmptyDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { dnsServerContext } from "../support/dns-server.ts";
import { eventually } from "../support/stack.ts";

/** The schema of release 0.1.0. */
const PREVIOUS = [
  "0001-accounts.sql",
  "0002-dns.sql",
  "0003-mail.sql",
  "0004-sending.sql",
  "0010-zone-permissions.sql",
  "0020-event-history-index.sql",
  "0030-delivery-updates.sql",
  "0031-sts-policies.sql",
  "0050-tracking.sql",
  "0051-webhooks.sql",
  "0060-transfers.sql",
  "0061-attachment-types.sql",
];
const ZONES = 2_000;
const CONTACTS = 20_000;
const SENT = 5_000;

let database: TestDatabase;

beforeAll(async () => {
  database = await createEmptyDatabase();
  await database.db.transaction((transaction) => migrateTo(transaction, PREVIOUS));
  await fill(database.db);
});

afterAll(() => database.drop());

/** What a deployment of that release had, as its own statements wrote it. */
async function fill(db: Db): Promise<void> {
  for (const statement of [
    "insert into resellers (id, name, key_hash) values ('acme', 'Acme', 'k')",
    "insert into companies (reseller_id, crm_id, name, apikey_sealed, apikey_hash) values ('acme', 'c', 'C', 's', 'h')",
    `insert into zones (reseller_id, company_id, name, name_key, apex, serial_type, serial, mname, rname, refresh, retry, expire, minimum, ttl)
       select 'acme', (select id from companies), 'z' || n || '.test', decode('0474657374', 'hex') || ('z' || n)::bytea,
              set_byte('\\x00', 0, length('z' || n)) || ('z' || n)::bytea || '\\x047465737400', 'numeric', 1,
              '\\x026e73047465737400', '\\x04726f6f74047465737400', 7200, 900, 1209600, 300, 3600
         from generate_series(1, ${ZONES}) n`,
    `insert into records (zone_id, owner, owner_key, type, ttl, rdata)
       select id, '\\x03777777' || apex, name_key || '\\x00'::bytea || 'www'::bytea, 1, 300, '\\xc0000201' from zones`,
    "insert into instances (name, host, key_hash) values ('acme', 'mail.test', 'k')",
    `insert into contacts (instance_id, email, email_key, domain_group_id)
       select (select id from instances), 'r' || n || '@example.net', 'r' || n || '@example.net', 0 from generate_series(1, ${CONTACTS}) n`,
    "insert into groups (instance_id, name) select id, 'all' from instances",
    "insert into contact_groups (contact_id, group_id) select contacts.id, groups.id from contacts, groups",
    "insert into campaigns (instance_id, type, name) select id, 'bulk', 'News' from instances",
    `insert into campaign_unsubscriptions (contact_id, campaign_numid)
       select contacts.id, numid from contacts, campaigns where contacts.id % 10 = 0`,
    "insert into batches (eeid, instance_id, campaign_numid, creator) select gen_random_uuid(), id, 1, 'api' from instances",
    `insert into messages (eeid, campaign_numid, sender_domain, template)
       select eeid, 1, 'example.org', '{}' from batches, generate_series(1, ${SENT})`,
    "insert into message_attachments (message_id, position, filename, octets) select id, 0, 'f', 'f' from messages",
    "insert into tracked_links (message_id, link, target) select id, 'l', 'https://example.org/' from messages",
    `insert into partitions (eeid, message_id, destination, recipients)
       select eeid, id, 'example.net', 1 from messages`,
    `insert into deliveries (partition_id, contact_id, role, recipient)
       select id, null, 'to', 'r@example.net' from partitions`,
    `insert into archived_messages (delivery_id, eeid, recipient_key, octets, sent_at)
       select deliveries.id, eeid, recipient, 'o', now() from deliveries join partitions on partitions.id = partition_id`,
  ]) {
    await db.raw(statement);
  }
}

/** What that release does to accept a call: in this order, and the last two in one statement. */
const ACCEPT = `
  select set_config('test.eeid', gen_random_uuid()::text, true),
    set_config('test.partition', nextval('partitions_id_seq')::text, true);
  insert into batches (eeid, instance_id, campaign_numid, creator)
    select current_setting('test.eeid')::uuid, id, 1, 'api' from instances;
  insert into messages (eeid, campaign_numid, sender_domain, template)
    values (current_setting('test.eeid')::uuid, 1, 'example.org', '{}');
  with cut as (
    insert into partitions (id, eeid, message_id, destination, recipients) overriding system value
    select current_setting('test.partition')::bigint, eeid, id, 'example.net', 2 from messages
    where eeid = current_setting('test.eeid')::uuid
  )
  insert into deliveries (partition_id, contact_id, role, recipient)
    values (current_setting('test.partition')::bigint, 1, 'to', 'r1@example.net'),
      (current_setting('test.partition')::bigint, null, 'cc', 'copy@example.net')`;

/** And to store what became of somebody. */
const SETTLE = `
  with settled as (
    update deliveries set state = 'delivered', attempts = 1, reply = '250 ok', finished_at = now()
    where id = (select id from deliveries where state = 'queued' order by id limit 1 for update skip locked) returning id
  )
  insert into archived_messages (delivery_id, eeid, recipient_key, octets, sent_at)
    select id, gen_random_uuid(), 'r@example.net', 'o', now() from settled on conflict (delivery_id) do nothing`;

/** Statements of the running release, again and again until it is told to stop. */
function startLoad(url: string, statements: readonly string[]) {
  const db = openDb(url, { connections: statements.length, name: "load" });
  const failures: unknown[] = [];
  let longestMs = 0;
  const runs = statements.map(() => 0);
  let stopped = false;
  const work = statements.map(async (statement, index) => {
    while (!stopped) {
      const startedAt = performance.now();
      await db.raw(statement).catch((error) => failures.push(error));
      longestMs = Math.max(longestMs, performance.now() - startedAt);
      runs[index]! += 1;
      await sleep(1);
    }
  });
  return {
    /** How often each statement has run so far. */
    runs: () => [...runs],
    stop: async () => {
      stopped = true;
      await Promise.all(work);
      await db.destroy();
      return { failures, longestMs };
    },
  };
}

/** Whether a statement of this database waits for a lock that another has. */
async function waitsForLock(db: Db): Promise<boolean> {
  const { rows } = await db.raw(
    "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  );
  return rows.length > 0;
}

it("migrates a database of the release before while that release works on it, without an error or a long wait", async () => {
  expect(await isBehind(database.db)).toBe(true);
  const load = startLoad(database.url, [
    "update zones set serial = serial + 1, version = version + 1, changed_xid = pg_current_xact_id() where id = 1 + (random() * 1999)::int",
    "select count(*) from records join zones on zones.id = records.zone_id where zones.id = 1 + (random() * 1999)::int",
    "update contacts set updated_at = now() where id = 1 + (random() * 19999)::int",
    `insert into contacts (instance_id, email, email_key, domain_group_id)
       select id, 'n' || gen_random_uuid() || '@example.net', 'n' || gen_random_uuid() || '@example.net', 0 from instances`,
    ACCEPT,
    SETTLE,
    `with gone as (delete from contact_groups where contact_id = 1 + (random() * 19999)::int returning *)
       insert into contact_groups (contact_id, group_id) select 1 + (random() * 19999)::int, group_id from gone on conflict do nothing`,
    "select * from resellers join companies on companies.reseller_id = resellers.id",
    "select count(*) from partitions where state = 'ready'",
    "select count(*) from inbound_messages where state = 'waiting'",
  ]);
  /** Every statement runs a few times more. */
  const goesOn = async () => {
    const before = load.runs();
    await eventually(
      async () => load.runs(),
      (runs) => runs.every((count, index) => count >= before[index]! + 5),
    );
  };
  await goesOn();
  const applied = await migrate(database.db);
  await goesOn();
  const { failures, longestMs } = await load.stop();
  expect(applied.length).toBeGreaterThan(0);
  expect(applied).not.toContain(PREVIOUS.at(-1));
  expect(failures).toEqual([]);
  // A migration waits 1.5 s at most for a lock; the rest is for a busy machine.
  expect(longestMs).toBeLessThan(20_000);
  expect(await migrate(database.db)).toEqual([]);
});

it("what that release wrote before and meanwhile belongs to its instance, and nothing was left half done", async () => {
  const { db } = database;
  const [{ id }] = await db("instances").select("id");
  for (const table of INSTANCE_TABLES) {
    const rows = await db(table).distinct("instance_id");
    expect({ table, rows }).toEqual({ table, rows: [{ instance_id: id }] });
  }
  expect(await findUnfinished(db)).toEqual([]);
});

const INSTANCE_TABLES = [
  "contact_groups",
  "campaign_unsubscriptions",
  "messages",
  "message_attachments",
  "partitions",
  "deliveries",
  "archived_messages",
  "tracked_links",
];

/** Indexes that are not valid, constraints that were not validated, notes of progress. */
async function findUnfinished(db: Db): Promise<string[]> {
  const { rows } = await db.raw(
    `select indexrelid::regclass::text as name from pg_index where not indisvalid
     union all select conname from pg_constraint where not convalidated
     union all select name from deployment_facts where name like 'steps of %'`,
  );
  return rows.map(({ name }: { name: string }) => name);
}

it("a webhook is told each event once, whichever release stores it", async () => {
  const { db } = database;
  const [{ id: instanceId }] = await db("instances").select("id");
  await db("webhooks").insert({ instance_id: instanceId, url: "https://hook.example.net/", secret_sealed: "s" });
  const at = new Date();
  await recordEvents(db, [{ instanceId, at, kind: "revalidated", contactId: 1 }]);
  await db("events").insert({ instance_id: instanceId, at, kind: EVENT_KINDS.revalidated, contact_id: 2 });
  await db.transaction(async (transaction) => {
    await recordEvents(transaction, [{ instanceId, at, kind: "revalidated", contactId: 3 }]);
  });
  const told = await db("webhook_events")
    .join("events", "events.id", "event_id")
    .orderBy("contact_id")
    .pluck("contact_id");
  expect(told).toEqual([1, 2, 3]);
});

it("an index whose making was cut off is made anew, and the migration goes on from there", async () => {
  const fresh = await createEmptyDatabase();
  const migrator = openDb(fresh.url, { connections: 1, name: "cut off" });
  try {
    const names = readdirSync(join(packageFolder, "migrations")).filter((name) => name < "0150");
    await fresh.db.transaction((transaction) => migrateTo(transaction, names.sort()));
    await fresh.db.raw("insert into instances (name, host, key_hash) values ('acme', 'mail.test', 'k')");
    const holder = await fresh.db.transaction();
    await holder.raw("insert into filters (instance_id, name, conditions) select id, 'all', '{}' from instances");
    const cutOff = migrate(migrator).then(
      () => "done",
      () => "cut off",
    );
    const waits =
      "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'filters_key on filters'";
    const [waiting] = await eventually(
      async () => (await fresh.db.raw(waits)).rows as { pid: number }[],
      (rows) => rows.length === 1,
    );
    await fresh.db.raw("select pg_terminate_backend(?)", [waiting!.pid]);
    expect(await cutOff).toBe("cut off");
    expect(await findUnfinished(fresh.db)).toEqual(
      expect.arrayContaining(["filters_key", "steps of 0150-contacts-by-instance.sql"]),
    );
    await holder.rollback();
    expect(await Promise.all([migrate(migrator), migrate(fresh.db)])).toContainEqual(
      expect.arrayContaining(["0150-contacts-by-instance.sql"]),
    );
    expect(await findUnfinished(fresh.db)).toEqual([]);
  } finally {
    await migrator.destroy();
    await fresh.drop();
  }
});

it("a table that somebody holds for long is waited for without holding up the others", async () => {
  const fresh = await createEmptyDatabase();
  try {
    await fresh.db.transaction((transaction) => migrateTo(transaction, PREVIOUS));
    const holder = await fresh.db.transaction();
    for (const table of ["users", "resellers", "zones", "records", "batches", "inbound_messages"]) {
      await holder.raw(`lock table ${table} in share mode`);
    }
    const load = startLoad(fresh.url, [
      "select count(*) from zones",
      "select count(*) from users",
      "select count(*) from batches",
    ]);
    const migrated = migrate(fresh.db);
    // While the table is held, and the migration wants it, the others get on, again and again.
    for (let round = 0; round < 3; round += 1) {
      await eventually(() => waitsForLock(fresh.db), Boolean);
      const before = load.runs();
      await eventually(
        async () => load.runs(),
        (runs) => runs.every((count, index) => count > before[index]!),
      );
    }
    await holder.rollback();
    expect((await migrated).length).toBeGreaterThan(0);
    expect((await load.stop()).failures).toEqual([]);
  } finally {
    await fresh.drop();
  }
});

it("and the new release answers from it", async () => {
  const server = await startDnsServer(dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } }));
  try {
    for (const zone of [1, 77, ZONES]) {
      expect(dataOf(await askDns(server.addresses.dns!, `www.z${zone}.test`, "A"))).toEqual(["192.0.2.1"]);
    }
  } finally {
    await server.stop();
  }
});
