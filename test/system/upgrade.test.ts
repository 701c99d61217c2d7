import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { isBehind, migrate } from "../../services/platform/postgres/migrations.ts";
import { createEmptyDatabase, type TestDatabase } from "../support/database.ts";
import { eventually } from "../support/stack.ts";

const CONTACTS = 20_000;
const SENT = 5_000;

/** A migration as a later release may have it: large tables are changed in portions, an index is made meanwhile. */
const LATER = "9000-notes.sql";
const LATER_SQL = `-- When somebody was noted.

-- step
alter table contacts add column noted_at timestamptz;
alter table contacts alter column noted_at set default now();
create procedure note_contacts() language plpgsql as $$
declare
  noted bigint;
begin
  loop
    update contacts set noted_at = created_at
     where id in (select id from contacts where noted_at is null limit 1000 for no key update skip locked);
    get diagnostics noted = row_count;
    commit;
    exit when noted = 0 and not exists (select from contacts where noted_at is null);
  end loop;
end
$$;

-- step, outside a transaction
call note_contacts();

-- step
drop procedure note_contacts;
alter table contacts add constraint contacts_noted check (noted_at is not null) not valid;

-- step
alter table contacts validate constraint contacts_noted;

-- step, outside a transaction
create unique index concurrently if not exists filters_noted on filters (id, name);
`;

/** Our migrations, and the later one. */
const later = mkdtempSync(join(tmpdir(), "palomar-migrations-"));
let database: TestDatabase;

beforeAll(async () => {
  const ours = join(packageFolder, "migrations");
  for (const file of readdirSync(ours)) copyFileSync(join(ours, file), join(later, file));
  writeFileSync(join(later, LATER), LATER_SQL);
  database = await createEmptyDatabase();
  expect(await isBehind(database.db)).toBe(true);
  await migrate(database.db);
  expect(await isBehind(database.db)).toBe(false);
  await fill(database.db);
});

afterAll(async () => {
  await database.drop();
  rmSync(later, { recursive: true });
});

async function fill(db: Db): Promise<void> {
  for (const statement of [
    "insert into resellers (id, name, key_hash) values ('acme', 'Acme', 'k')",
    "insert into instances (name, host, key_hash) values ('acme', 'mail.test', 'k')",
    `insert into contacts (instance_id, email, email_key)
       select id, 'r' || n || '@example.net', 'r' || n || '@example.net' from instances, generate_series(1, ${CONTACTS}) n`,
    "insert into groups (instance_id, name) select id, 'all' from instances",
    "insert into contact_groups select contacts.id, groups.id, groups.instance_id from contacts, groups",
    "insert into batches (eeid, instance_id, campaign_numid, creator) select gen_random_uuid(), id, 1, 'api' from instances",
    `insert into messages (eeid, instance_id, campaign_numid, sender_domain, template, content_octets)
       select eeid, instance_id, 1, 'example.org', '{}', 2 from batches, generate_series(1, ${SENT})`,
    `insert into partitions (eeid, instance_id, message_id, destination, recipients)
       select eeid, instance_id, id, 'example.net', 1 from messages`,
    `insert into deliveries (partition_id, instance_id, role, recipient)
       select id, instance_id, 'to', 'r@example.net' from partitions`,
  ]) {
    await db.raw(statement);
  }
}

/** What accepts a call, and what stores what became of somebody. */
const ACCEPT = `
  with batch as (
    insert into batches (eeid, instance_id, campaign_numid, creator)
    select gen_random_uuid(), id, 1, 'api' from instances returning eeid, instance_id
  )
  insert into messages (eeid, instance_id, campaign_numid, sender_domain, template, content_octets)
  select eeid, instance_id, 1, 'example.org', '{}', 2 from batch`;
const SETTLE = `
  update deliveries set state = 'delivered', attempts = 1, reply = '250 ok', finished_at = now()
   where id = (select id from deliveries where state = 'queued' order by id limit 1 for update skip locked)`;

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

it("migrates a database while the release before works on it, without an error or a long wait", async () => {
  const load = startLoad(database.url, [
    "update contacts set updated_at = now() where id = 1 + (random() * 19999)::int",
    `insert into contacts (instance_id, email, email_key)
       select id, 'n' || gen_random_uuid() || '@example.net', 'n' || gen_random_uuid() || '@example.net' from instances`,
    ACCEPT,
    SETTLE,
    `with gone as (delete from contact_groups where contact_id = 1 + (random() * 19999)::int returning *)
       insert into contact_groups select 1 + (random() * 19999)::int, group_id, instance_id from gone on conflict do nothing`,
    "select * from resellers join companies on companies.reseller_id = resellers.id",
    "select count(*) from partitions where state = 'ready'",
    "insert into filters (instance_id, name, conditions) select id, gen_random_uuid(), '{}' from instances",
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
  expect(await migrate(database.db, later)).toEqual([LATER]);
  await goesOn();
  const { failures, longestMs } = await load.stop();
  expect(failures).toEqual([]);
  // A migration waits 1.5 s at most for a lock; the rest is for a busy machine.
  expect(longestMs).toBeLessThan(20_000);
  expect(await migrate(database.db, later)).toEqual([]);
  expect(await findUnfinished(database.db)).toEqual([]);
  expect(await database.db("contacts").whereNull("noted_at").first("id")).toBeUndefined();
});

it("a release that does not know a migration, or another form of it, does not touch the database", async () => {
  await expect(migrate(database.db)).rejects.toThrow(`the database is newer than this release: it has ${LATER}`);
  writeFileSync(join(later, LATER), `${LATER_SQL}-- and more\n`);
  await expect(migrate(database.db, later)).rejects.toThrow(`migration ${LATER} was changed after it was applied`);
  writeFileSync(join(later, LATER), LATER_SQL);
});

/** Indexes that are not valid, constraints that were not validated, notes of progress. */
async function findUnfinished(db: Db): Promise<string[]> {
  const { rows } = await db.raw(
    `select indexrelid::regclass::text as name from pg_index where not indisvalid
     union all select conname from pg_constraint where not convalidated
     union all select name from deployment_facts where name like 'steps of %'`,
  );
  return rows.map(({ name }: { name: string }) => name);
}

it("an index whose making was cut off is made anew, and the migration goes on from there", async () => {
  const fresh = await createEmptyDatabase();
  const migrator = openDb(fresh.url, { connections: 1, name: "cut off" });
  try {
    await migrate(fresh.db);
    await fresh.db.raw("insert into instances (name, host, key_hash) values ('acme', 'mail.test', 'k')");
    const holder = await fresh.db.transaction();
    await holder.raw("insert into filters (instance_id, name, conditions) select id, 'all', '{}' from instances");
    const cutOff = migrate(migrator, later).then(
      () => "done",
      () => "cut off",
    );
    const waits =
      "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ~ 'filters_noted on filters'";
    const [waiting] = await eventually(
      async () => (await fresh.db.raw(waits)).rows as { pid: number }[],
      (rows) => rows.length === 1,
    );
    await fresh.db.raw("select pg_terminate_backend(?)", [waiting!.pid]);
    expect(await cutOff).toBe("cut off");
    expect(await findUnfinished(fresh.db)).toEqual(expect.arrayContaining(["filters_noted", `steps of ${LATER}`]));
    await holder.rollback();
    expect(await Promise.all([migrate(migrator, later), migrate(fresh.db, later)])).toContainEqual([LATER]);
    expect(await findUnfinished(fresh.db)).toEqual([]);
  } finally {
    await migrator.destroy();
    await fresh.drop();
  }
});

it("a table that somebody holds for long is waited for without holding up the others", async () => {
  const fresh = await createEmptyDatabase();
  try {
    await migrate(fresh.db);
    const holder = await fresh.db.transaction();
    await holder.raw("lock table contacts in share mode");
    const load = startLoad(fresh.url, [
      "select count(*) from contacts",
      "select count(*) from contact_groups join contacts on contacts.id = contact_groups.contact_id",
    ]);
    const migrated = migrate(fresh.db, later);
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
