import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Db } from "../../services/platform/postgres/db.ts";
import { listTables } from "../../services/store/database-roles.ts";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/**
 * Citus's functions, without Citus: each holds a table to the rules that the real one refuses it for, in the order in
 * which deploy/citus.sql calls them. The rules are those of docs.citusdata.com: «Creating and Modifying Distributed
 * Objects», «SQL Support and Workarounds», and of citus_utility_functions for co-location.
 */
const RULES = `
  create table citus_tables (name regclass primary key, distribution_column text, colocated_with regclass);

  create function refuse_unless(is_fine boolean, name regclass, rule text) returns void language plpgsql as $$
  begin
    if is_fine is not true then raise exception '%: %', name, rule; end if;
  end $$;

  create function refuse_triggers(name regclass) returns void language sql as $$
    select refuse_unless(
      not exists (select from pg_trigger where tgrelid = name and not tgisinternal and tgparentid = 0), name, 'has triggers')
  $$;

  create function create_reference_table(name regclass) returns void language plpgsql as $$
  #variable_conflict use_variable
  begin
    perform refuse_triggers(name);
    perform refuse_unless(bool_and(exists (select from citus_tables c where c.name = confrelid and distribution_column is null)),
      name, 'refers to a table that is no reference table')
      from pg_constraint where conrelid = name and contype = 'f' having count(*) > 0;
    insert into citus_tables values (name);
  end $$;

  create function create_distributed_table(name regclass, distribution_column text, colocate_with regclass default null)
  returns void language plpgsql as $$
  #variable_conflict use_variable
  declare
    distribution record;
    reference record;
  begin
    select attnum, atttypid, attnotnull into distribution from pg_attribute where attrelid = name and attname = distribution_column;
    perform refuse_triggers(name);
    perform refuse_unless(distribution.attnotnull, name, 'may have rows without instance');
    -- Co-located tables have a distribution column of one type, and are distributed by it already.
    perform refuse_unless(exists (select from citus_tables c
        join pg_attribute a on a.attrelid = c.name and a.attname = c.distribution_column
        where c.name = colocate_with and c.colocated_with = c.name and a.atttypid = distribution.atttypid),
      name, 'is not of the co-location group') where colocate_with is not null;
    perform refuse_unless(distribution.attnum = any (indkey::smallint[]) and indisvalid, name,
        indexrelid::regclass || ' is unique without the distribution column')
      from pg_index where indrelid = name and (indisunique or indisexclusion);
    perform refuse_unless(atttypid = 'bigint'::regtype, name, attname || ' is numbered, and no bigint')
      from pg_attribute where attrelid = name and attidentity <> '';
    perform refuse_unless(not exists (select from pg_partitioned_table where partrelid = inhrelid), name, 'is partitioned twice')
      from pg_inherits where inhparent = name;
    for reference in select * from pg_constraint where conrelid = name and contype = 'f' loop
      continue when exists (select from citus_tables c where c.name = reference.confrelid and c.distribution_column is null);
      -- Between distributed tables: of one group, and by the distribution column at the same place on both sides.
      perform refuse_unless(exists (select from citus_tables c
          join pg_attribute a on a.attrelid = c.name and a.attname = c.distribution_column
          where c.name = reference.confrelid and c.colocated_with = coalesce(colocate_with, name)
            and array_position(reference.confkey, a.attnum) = array_position(reference.conkey, distribution.attnum)),
        name, reference.conname || ' does not contain the distribution column on both sides');
      perform refuse_unless(reference.confdeltype not in ('n', 'd') and reference.confupdtype = 'a', name,
        reference.conname || ' changes the distribution column');
    end loop;
    insert into citus_tables values (name, distribution_column, coalesce(colocate_with, name));
  end $$;`;

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await prepareEventMonths(database.db, new Date());
  await database.db.raw(RULES);
});

afterAll(() => database.drop());

async function namesOf(db: Db, query: string): Promise<string[]> {
  const { rows } = await db.raw(query);
  return rows.map(({ name }: { name: string }) => name);
}

test.each([
  ["it has triggers", "select create_reference_table('companies')", "has triggers"],
  [
    "a unique index lacks the column",
    "select create_distributed_table('console_sessions', 'user_id')",
    "unique without the distribution column",
  ],
  [
    "what it refers to is not distributed",
    "select create_distributed_table('zone_journal', 'zone_id')",
    "does not contain the distribution column",
  ],
])("a table is refused where %s", async (_, statement, reason) => {
  await expect(
    database.db.transaction(async (transaction) => {
      await transaction.raw(statement);
    }),
  ).rejects.toThrow(reason);
});

test("deploy/citus.sql can distribute the tables of a migrated database", async () => {
  const { db } = database;
  await db.raw(readFileSync("deploy/citus.sql", "utf8"));
  const distributed = await namesOf(
    db,
    "select name::text from citus_tables where distribution_column is not null order by 1",
  );
  expect(await namesOf(db, "select name::text from citus_tables where distribution_column is null")).toEqual([
    "instances",
    "global_suppressions",
  ]);
  // All that belongs to an instance, and nothing else; whom to look at stands on the coordinator.
  expect(distributed).toEqual(
    await namesOf(
      db,
      `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid
       where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition
         and attname = 'instance_id' and attnum > 0 and relname <> 'mail_work' order by 1`,
    ),
  );
});

test("what stays on the coordinator refers to nothing that is distributed, and is known", async () => {
  const { db } = database;
  const references = await namesOf(
    db,
    `select conname as name from pg_constraint join citus_tables on name = confrelid and distribution_column is not null
     where contype = 'f' and not exists (select from citus_tables c where c.name = conrelid)`,
  );
  expect(references).toEqual([]);
  const citus = await namesOf(db, "select name::text from citus_tables");
  const views = await namesOf(db, "select viewname as name from pg_views where schemaname = current_schema()");
  const local = (await listTables(db)).filter((name) => ![...citus, ...views, "citus_tables"].includes(name));
  const mail = local.filter((name) => MAIL.test(name));
  expect(mail).toEqual([
    "destination_backoffs",
    "destination_holds",
    "inbound_messages",
    "mailboxes",
    "sandbox_deferrals",
    "sandbox_messages",
    "sts_policies",
    "tracking_positions",
  ]);
});

const MAIL =
  /^(batch|campaign|contact|conversion|deliver|destination|event|inbound|mailbox|message|sandbox|sts|track|webhook)/;

test("keys begin with what alone finds a row, so that look-ups by an id need no other index", async () => {
  const { db } = database;
  const keys = await namesOf(
    db,
    `select conname as name from pg_constraint join citus_tables on name = conrelid join pg_attribute on attrelid = conrelid
       and attidentity <> '' where contype = 'p' and conkey[1] <> attnum and array_position(conkey, attnum) is not null`,
  );
  expect(keys).toEqual([]);
});
