import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { listTables } from "../../services/store/database-roles.ts";
import { ensureAttemptWeeks } from "../../services/store/mail/attempts/attempt-weeks.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

/** What deploy/citus.sql spreads, as it stands there; whether Citus takes it is for the tests below that need one. */
const SCRIPT = readFileSync("deploy/citus.sql", "utf8");
const DISTRIBUTED = [...SCRIPT.matchAll(/create_distributed_table\('(\w+)', 'instance_id'/g)].map(([, name]) => name!);
const COPIED = [...SCRIPT.matchAll(/create_reference_table\('(\w+)'\)/g)].map(([, name]) => name!);

const hasCitus = inject("citusWorkers").length > 0;
const why = hasCitus ? "" : " (needs PALOMAR_TEST_DATABASE_URL to name a coordinator of Citus)";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(() => database.drop());

async function namesOf(query: string, values: readonly (readonly string[])[] = []): Promise<string[]> {
  const { rows } = await database.db.raw(query, values as never);
  return rows.map(({ name }: { name: string }) => name);
}

test("every table with an instance is spread, and no other", async () => {
  const owned = await namesOf(
    `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid
     where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition
       and attname = 'instance_id' and attnum > 0 and relname <> 'mail_work' order by 1`,
  );
  expect(DISTRIBUTED.toSorted()).toEqual(owned);
});

test("all tables are locked before the first is touched", () => {
  const [, locked = ""] = /^lock table([^;]+) in access exclusive mode;/m.exec(SCRIPT) ?? [];
  expect(locked.split(",").map((name) => name.trim())).toEqual([...COPIED, ...DISTRIBUTED]);
});

test("what stays on the coordinator refers to nothing that is distributed, and is known", async () => {
  const references = await namesOf(
    `select conname as name from pg_constraint
     where contype = 'f' and confrelid::regclass::text = any(?) and not conrelid::regclass::text = any(?)
       and not exists (select 1 from pg_inherits where inhrelid = conrelid)`,
    [DISTRIBUTED, DISTRIBUTED],
  );
  expect(references).toEqual([]);
  const views = await namesOf("select viewname as name from pg_views where schemaname = current_schema()");
  const others = [...DISTRIBUTED, ...COPIED, ...views];
  const local = (await listTables(database.db)).filter((name) => !others.includes(name));
  expect(local.filter((name) => MAIL.test(name))).toEqual([
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
  const keys = await namesOf(
    `select conname as name from pg_constraint join pg_attribute on attrelid = conrelid and attidentity <> ''
     where contype = 'p' and conrelid::regclass::text = any(?)
       and conkey[1] <> attnum and array_position(conkey, attnum) is not null`,
    [DISTRIBUTED],
  );
  expect(keys).toEqual([]);
});

describe.skipIf(!hasCitus)(`on Citus${why}`, () => {
  test("the tables of an instance lie on one machine, and what is read everywhere on all", async () => {
    const kinds = (kind: string) =>
      namesOf(
        `select table_name::text as name from citus_tables join pg_class on pg_class.oid = table_name
         where citus_table_type = '${kind}' and not relispartition order by 1`,
      );
    expect(await kinds("distributed")).toEqual(DISTRIBUTED.toSorted());
    expect(await kinds("reference")).toEqual(COPIED.toSorted());
    const groups = await namesOf(
      "select distinct colocation_id::text as name from citus_tables where citus_table_type = 'distributed'",
    );
    expect(groups).toHaveLength(1);
  });

  test("what belongs to an instance goes with it", async () => {
    const { db } = database;
    const [{ id }] = await db("instances").insert({ name: "n", host: "n.example.org", key_hash: Buffer.from("n") }, [
      "id",
    ]);
    const at = new Date();
    await ensureAttemptWeeks(db, [at]);
    await db("event_feeds").insert({ instance_id: id });
    await db("webhook_events").insert({ instance_id: id, at, kind: 1, delivery_id: 1, detail: "{}" });
    await db("delivery_attempts").insert({
      ...{ instance_id: id, at, delivery_id: 1, result_id: 1, attempt: 1, duration_ms: 1 },
    });
    await db("instances").where({ id }).delete();
    expect(await db("webhook_events").where({ instance_id: id })).toEqual([]);
    expect(await db("event_feeds").where({ instance_id: id })).toEqual([]);
  });
});
