import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, inject, it, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { readCatalogue, readSequences } from "../../services/store/backup-catalogue.ts";
import { verifyBackup } from "../../services/store/backup-content.ts";
import { backUp, formerBackupText, restoreFrom, streamOf } from "../support/backups.ts";
import { createEmptyDatabase, createTestDatabase, type TestDatabase, withDatabase } from "../support/database.ts";
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
  '"quoted" $$dollars$$ ${braces} ? ??',
  "é ñ 鳩 🕊 \u202e \ufeff",
  "",
  "x".repeat(3_000_000),
];

let source: TestDatabase;

beforeAll(async () => {
  source = await createTestDatabase(2);
  await fill(source.db);
});
afterAll(() => source.drop());

async function fill(db: Db): Promise<void> {
  for (const [index, value] of HOSTILE.entries()) {
    await queryRows(db, "insert into deployment_facts (name, value) values (?, ?)", [
      `${index} ${value.slice(0, 40)}`,
      value,
    ]);
  }
  await queryRows(db, "insert into resellers (id, name, key_hash) values ('acme', ?, ?)", [
    HOSTILE[2],
    randomBytes(32),
  ]);
  await queryRows(
    db,
    "insert into acls (reseller_id, name, blocks, zones, notify) values ('acme', ?, '{192.0.2.0/24,2001:db8::/32}', ?, ?)",
    [HOSTILE[6], HOSTILE.slice(0, 9), []],
  );
  const [instance] = await queryRows<{ id: number }>(
    db,
    "insert into instances (name, host, key_hash) values ('news', 'mail.example.org', ?) returning id",
    [randomBytes(32)],
  );
  await queryRows(
    db,
    `insert into contacts (instance_id, email, email_key, first_name, fields, age)
      values (?, 'a@example.org', 'a@example.org', ?, ?, null)`,
    [instance!.id, HOSTILE[9], JSON.stringify(Object.fromEntries(HOSTILE.entries()))],
  );
  await queryRows(
    db,
    "insert into inbound_messages (feedback_address, mail_from, octets) values ('f@example.org', '', ?)",
    [Buffer.concat([Buffer.from(Array.from({ length: 256 }, (_, octet) => octet)), randomBytes(2_000_000)])],
  );
  for (const month of ["2025-12-01", "2026-02-01"]) await queryRows(db, "select make_events_month(?::date)", [month]);
  for (const at of ["2025-12-31T23:59:59.999999Z", "2026-02-01T00:00:00Z"]) {
    await queryRows(db, "insert into events (instance_id, at, kind, detail) values (?, ?, 1, ?)", [
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
  const database = await createTestDatabase(2);
  try {
    await database.db.raw("create table somebodys_own (note text)");
    const { head } = await verifyBackup(streamOf(await backUp(database.db, KEY_RING)), KEY_RING);
    expect(head.tables.map(({ name }) => name)).not.toContain("somebodys_own");
    expect(head.tables.length).toBeGreaterThan(50);
  } finally {
    await database.drop();
  }
});

describe("a file of the former format", () => {
  let folder: string;
  let empty: TestDatabase;
  let written: string;
  beforeAll(async () => {
    written = await formerBackupText(source.db, KEY_RING);
    folder = mkdtempSync(join(tmpdir(), "palomar-former-"));
    empty = await createEmptyDatabase(1);
  });
  afterAll(async () => {
    await empty.drop();
    rmSync(folder, { recursive: true });
  });

  const restoring = (edit = (text: string) => text, trusted = true) =>
    restoreFrom(empty.db, gzipSync(edit(written), { level: 1 }), KEY_RING, trusted);

  it("is refused unless it is asked for", async () => {
    await expect(restoring(undefined, false)).rejects.toMatchObject({ refusal: { kind: "former-format" } });
  });

  const facts = /(COPY deployment_facts \()(name, value)(\) FROM stdin;\n)/;
  test.each<[string, string, (text: string) => string]>([
    [
      "a program",
      "no-backup",
      (text) => text.replace(/^COPY/m, () => `COPY zones FROM PROGRAM 'touch ${folder}/taken';\nCOPY`),
    ],
    [
      "a program in the place of rows",
      "no-backup",
      (text) => text.replace(facts, `COPY deployment_facts (name, value) FROM PROGRAM 'touch ${folder}/taken';\n`),
    ],
    [
      "a statement behind the columns",
      "no-backup",
      (text) => text.replace(facts, "$1$2) FROM stdin; drop table zones;\n"),
    ],
    ["a statement in a name", "no-backup", (text) => text.replace(facts, '$1name, value) FROM stdin; --"$3')],
    [
      "a file to write",
      "no-backup",
      (text) => text.replace(facts, `COPY deployment_facts TO '${folder}/taken';\n$1$2$3`),
    ],
    ["a call", "no-backup", (text) => text.replace(/setval\(.*\)/, "pg_read_file('/etc/passwd')")],
    ["a table that is not ours", "unknown-table", (text) => text.replace(facts, "COPY pg_authid ($2$3")],
    ["a column that is not ours", "other-columns", (text) => text.replace(facts, "$1name, values$3")],
    ["a column left out", "other-columns", (text) => text.replace(facts, "$1name$3")],
    ["a column twice", "other-columns", (text) => text.replace(facts, "$1name, value, value$3")],
    ["a sequence that is not ours", "unknown-sequence", (text) => text.replace(/setval\('\w+'/, "setval('pg_toast'")],
    ["a number no sequence has", "not-taken", (text) => text.replace(/(setval\('\w+', )\d+/, "$19999999999999999999")],
    ["rows without an end", "truncated", (text) => text.slice(0, -60_000)],
    ["too few rows", "other-count", (text) => text.replace(facts, "$&one more\tthan it says\n")],
    ["a NUL", "not-taken", (text) => text.replace(facts, "$&a\t\\000\n")],
    ["a raw NUL", "not-taken", (text) => text.replace(facts, "$&a\t\0\n")],
    ["a field too many", "not-taken", (text) => text.replace(facts, "$&a\tb\tc\n")],
    ["a table left out", "missing-tables", (text) => text.replace(/COPY deployment_facts [\s\S]*?\n\\\.\n/, "")],
    ["a table twice", "unknown-table", (text) => text.replace(/COPY filters [\s\S]*?\n\\\.\n/, "$&$&")],
    [
      "a month that is none",
      "no-backup",
      (text) => text.replace('"2025-12-01"', `"2025-12-01'); drop table zones; --"`),
    ],
    [
      "a migration of ours that it does not have",
      "newer",
      (text) => text.replace("0010-accounts.sql", "../0010-accounts.sql"),
    ],
  ])("with %s is refused (%s), and nothing has changed", async (_what, kind, edit) => {
    await expect(restoring(edit)).rejects.toMatchObject({ refusal: { kind } });
    expect(await queryRows(empty.db, "select to_regclass('zones') as zones")).toEqual([{ zones: null }]);
    expect(statSync(join(folder, "taken"), { throwIfNoEntry: false })).toBeUndefined();
  });

  it("gives its rows where it is as it was written", async () => {
    await restoring();
    expect(await contentOf(empty.db)).toEqual(await contentOf(source.db));
  });
});
