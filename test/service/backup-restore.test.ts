import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, inject, it, test } from "vitest";
import type { BackupContent, BackupTable, BackupTail } from "../../services/core/backup-format.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { readCatalogue, readSequences } from "../../services/store/backup-catalogue.ts";
import { verifyBackup } from "../../services/store/backup-content.ts";
import { backUp, restoreFrom, streamOf } from "../support/backups.ts";
import { createEmptyDatabase, createLocalDatabase, type TestDatabase, withDatabase } from "../support/database.ts";
import { hasOlderPostgres, startOlderPostgres } from "../support/older-postgres.ts";

const KEY_RING = KeyRing.ofSecret("the deployment's own secret");

/** Texts that mean something to psql, to COPY, or to SQL. */
const HOSTILE = [
  "\\.",
  "\n\\.\n",
  "\n\\.\nCOPY deployment_facts FROM PROGRAM 'touch /tmp/never';\n",
  "\\N",
  "\\",
  "\\\\",
  "a\tb\rc\nd\r\n\x01\x7f",
  "'; drop table zones; --",
  '"quoted" $$dollars$$ \x24{braces} ? ??',
  "é ñ 鳩 🕊 \u202e \ufeff",
  "",
  "x".repeat(3_000_000),
];

let source: TestDatabase;

beforeAll(async () => {
  source = await createLocalDatabase(2);
  await fill(source.db);
});
afterAll(() => source.drop());

async function fill(db: Db): Promise<void> {
  for (const [index, value] of HOSTILE.entries()) {
    await queryRows(db, "insert into deployment_facts (name, value) values ($1, $2)", [
      `${index} ${value.slice(0, 40)}`,
      value,
    ]);
  }
  await queryRows(db, "insert into resellers (id, name, key_hash) values ('acme', $1, $2)", [
    HOSTILE[2],
    randomBytes(32),
  ]);
  await queryRows(
    db,
    "insert into acls (reseller_id, name, blocks, zones, notify) values ('acme', $1, '{192.0.2.0/24,2001:db8::/32}', $2, $3)",
    [HOSTILE[6], HOSTILE.slice(0, 9), []],
  );
  const [instance] = await queryRows<{ id: number }>(
    db,
    "insert into instances (name, host, key_hash) values ('news', 'mail.example.org', $1) returning id",
    [randomBytes(32)],
  );
  await queryRows(
    db,
    `insert into contacts (instance_id, email, email_key, first_name, fields, age)
      values ($1, 'a@example.org', 'a@example.org', $2, $3, null)`,
    [instance!.id, HOSTILE[9], JSON.stringify(Object.fromEntries(HOSTILE.entries()))],
  );
  await queryRows(
    db,
    "insert into inbound_messages (feedback_address, mail_from, octets) values ('f@example.org', '', $1)",
    [Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, octet) => octet)), randomBytes(2_000_000)])],
  );
  for (const month of ["2025-12-01", "2026-02-01"]) await queryRows(db, "select make_events_month($1::date)", [month]);
  for (const at of ["2025-12-31T23:59:59.999999Z", "2026-02-01T00:00:00Z"]) {
    await queryRows(db, "insert into events (instance_id, at, kind, detail) values ($1, $2, 1, $3)", [
      instance!.id,
      at,
      JSON.stringify({ reply: HOSTILE[1] }),
    ]);
  }
}

/** Everything that a restore has to bring back, and what it leaves as migrations make it. */
async function contentOf(db: Db) {
  const { tables } = await readCatalogue(db);
  const digests: Record<string, unknown> = {};
  for (const { name, columns } of tables) {
    const row = columns.map((column) => `"${column}"`).join(", ");
    const [digest] = await queryRows(
      db,
      `select count(*), md5(coalesce(string_agg(one, '|' order by one), '')) from
         (select md5(row(${row})::text) as one from "${name}"
           ${name === "deployment_facts" ? "where name <> 'incarnation'" : ""}) lines`,
    );
    digests[name] = digest;
  }
  return {
    digests,
    sequences: await readSequences(db),
    triggers: await queryRows(
      db,
      "select tgrelid::regclass::text as table, tgname, tgenabled from pg_trigger where not tgisinternal order by 1, 2",
    ),
    months: await queryRows(
      db,
      "select inhrelid::regclass::text as month from pg_inherits where inhparent = 'events'::regclass order by 1",
    ),
  };
}

/** A database that belongs to a role with no privilege but to log in. */
async function createOwnedDatabase(server: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  const role = `${name}_owner`;
  const admin = openDb(server, { connections: 1, name: "test set-up" });
  await admin.raw(`create role ${role} login password 'known' nosuperuser nocreatedb nocreaterole noreplication`);
  await admin.raw(`create database ${name} owner ${role} template template0`);
  const url = new URL(withDatabase(server, name));
  url.username = role;
  url.password = "known";
  const db = openDb(url.href, { connections: 1, name: "test" });
  return {
    url: url.href,
    db,
    drop: async () => {
      await db.destroy();
      await admin.raw(`drop database ${name} with (force)`);
      await admin.raw(`drop role ${role}`);
      await admin.destroy();
    },
  };
}

async function expectTheSame(target: Db): Promise<void> {
  const [role] = await queryRows(target, "select rolsuper from pg_roles where rolname = current_user");
  expect(role).toEqual({ rolsuper: false });
  expect(await restoreFrom(target, await backUp(source.db, KEY_RING), KEY_RING)).toMatchObject({
    events: 2,
    contacts: 1,
  });
  expect(await contentOf(target)).toEqual(await contentOf(source.db));
  // Numbers go on behind those that were given, and triggers work again.
  const version = "select version from transfer_access_version";
  const [before] = await queryRows<{ version: number }>(target, version);
  const [acl] = await queryRows<{ id: number }>(
    target,
    "insert into acls (reseller_id, name) values ('acme', 'another') returning id",
  );
  expect(acl).toEqual({ id: 2 });
  expect(await queryRows(target, version)).not.toEqual([before]);
  expect(await migrate(target)).toEqual([]);
}

it("restores whatever rows hold, as a plain owner of the database", async () => {
  const target = await createOwnedDatabase(inject("postgresUrl"));
  try {
    await expectTheSame(target.db);
  } finally {
    await target.drop();
  }
});

test.skipIf(!hasOlderPostgres)(
  `the same in a PostgreSQL 15${hasOlderPostgres ? "" : " (skipped: it is not installed)"}`,
  async () => {
    const server = await startOlderPostgres();
    try {
      const target = await createOwnedDatabase(server.url);
      await expectTheSame(target.db);
      await target.drop();
    } finally {
      await server.stop();
    }
  },
);

it("leaves out tables that are not ours", async () => {
  const database = await createLocalDatabase(2);
  try {
    await database.db.raw("create table somebodys_own (note text)");
    const { head } = await verifyBackup(streamOf(await backUp(database.db, KEY_RING)), KEY_RING);
    expect(head.tables.map(({ name }) => name)).not.toContain("somebodys_own");
    expect(head.tables.length).toBeGreaterThan(50);
  } finally {
    await database.drop();
  }
});

/** As if a holder of the key had written something else: not even then is a name of the backup's run, or a row left out. */
describe("a backup under our key", () => {
  let empty: TestDatabase;
  let written: Buffer;
  beforeAll(async () => {
    written = await backUp(source.db, KEY_RING);
    empty = await createEmptyDatabase(1);
  });
  afterAll(() => empty.drop());

  test.each<[string, string, (content: BackupContent) => BackupContent]>([
    ["a table that is not ours", "unknown-table", withFacts((facts) => [{ ...facts, name: "pg_authid" }])],
    ["a statement for a table", "unknown-table", withFacts((facts) => [{ ...facts, name: "x; drop table zones" }])],
    ["a table twice", "unknown-table", withFacts((facts) => [facts, { ...facts, rows: Readable.from([]) }])],
    ["a table left out", "missing-tables", withFacts(() => [])],
    ["a column that is not ours", "other-columns", withColumns(["name", "values"])],
    ["a statement for a column", "other-columns", withColumns(["name", "value) from program 'id'; --\""])],
    ["a column left out", "other-columns", withColumns(["name"])],
    ["a column twice", "other-columns", withColumns(["name", "value", "value"])],
    ["a row too many", "other-count", withRows("one more\tthan it says\n")],
    ["a NUL", "not-taken", withRows("a\t\\000\n")],
    ["a raw NUL", "not-taken", withRows("a\t\0\n")],
    ["a field too many", "not-taken", withRows("a\tb\tc\n")],
    ["a sequence that is not ours", "unknown-sequence", withSequence("pg_toast", "1")],
    ["a number no sequence has", "not-taken", withSequence("contacts_id_seq", "9999999999999999999")],
    [
      "a migration that is no file of ours",
      "newer",
      (content) => ({ ...content, head: { ...content.head, migrations: ["../0010-accounts.sql"] } }),
    ],
  ])("with %s is refused (%s), and nothing has changed", async (_what, kind, edit) => {
    await expect(restoreFrom(empty.db, written, KEY_RING, edit)).rejects.toMatchObject({ refusal: { kind } });
    expect(await queryRows(empty.db, "select to_regclass('zones') as zones")).toEqual([{ zones: null }]);
  });
});

type ContentEdit = (content: BackupContent) => BackupContent;

/** Puts other tables in the place of `deployment_facts`. */
function withFacts(edit: (facts: BackupTable) => BackupTable[]): ContentEdit {
  async function* tables(content: BackupContent) {
    for await (const table of content.tables) {
      yield* table.name === "deployment_facts" ? edit(table) : [table];
      // What nobody took, so that the next table begins where it does.
      for await (const _ of table.rows);
    }
  }
  return (content) => ({ ...content, tables: tables(content) });
}

function withColumns(columns: readonly string[]): ContentEdit {
  return withFacts((facts) => [{ ...facts, columns }]);
}

function withRows(more: string): ContentEdit {
  async function* rows(facts: BackupTable) {
    yield* facts.rows;
    yield Buffer.from(more);
  }
  return withFacts((facts) => [{ ...facts, rows: rows(facts) }]);
}

function withSequence(name: string, value: string): ContentEdit {
  const edit = async (tail: Promise<BackupTail>) => ({ ...(await tail), sequences: { [name]: value } });
  return (content) => ({ ...content, readTail: () => edit(content.readTail()) });
}
