import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { addMissingContacts, type RecipientAddress } from "../../services/store/mail/contacts/recipients.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { inTransaction } from "../../services/store/transactions.ts";
import { accepted } from "../support/accepted.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";

// What belongs to an instance is there as long as it is, and no longer.

let database: TestDatabase;
let db: Db;
beforeAll(async () => {
  database = await createTestDatabase();
  db = database.db;
});
afterAll(() => database.drop());

async function makeInstance(name: string): Promise<number> {
  const keyRing = KeyRing.ofSecret("a secret for tests only");
  await addTestInstance(db, keyRing, {
    name,
    host: `${name}.test`,
    key: `key-of-${name}`,
    archive: false,
    domains: [],
  });
  return (await findInstanceByName(db, name))!.id;
}

function addressed(email: string): RecipientAddress {
  const address = validateAddress(email, { allowSmtputf8: true });
  if (!address.ok) throw new Error(address.error.message);
  return { address: address.value };
}

async function sendTo(instanceId: number, ...emails: readonly string[]): Promise<void> {
  const outcome = await inTransaction(db, (transaction) =>
    acceptSend(transaction, {
      ...{ instanceId, campaignNumid: 1, creator: "smtp", archive: false, copies: [] },
      content: { kind: "finished", octets: Buffer.from("Subject: hello\r\n\r\n") },
      ...{ senderDomain: "example.org", sender: "info@example.org", recipients: emails.map(addressed) },
    }),
  );
  expect(accepted(outcome).sent).toBe(emails.length);
}

const removeInstance = (on: Db, id: number) => on("instances").where({ id }).delete();

/** Tables that have rows of an instance. */
async function tablesOf(instanceId: number): Promise<string[]> {
  const { rows } = await db.raw(
    `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid
     where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition
       and attname = 'instance_id' and attnum > 0 order by 1`,
  );
  const found: string[] = [];
  for (const { name } of rows) {
    if (await db(name).where({ instance_id: instanceId }).first()) found.push(name);
  }
  return found;
}

test("a removed instance takes its contacts, batches, messages, partitions and deliveries along, and nobody else's", async () => {
  const [leaves, stays] = [await makeInstance("leaves"), await makeInstance("stays")];
  for (const id of [leaves, stays]) await sendTo(id, "a@one.example.net", "b@two.example.net", "c@two.example.net");
  const kept = await tablesOf(stays);
  expect(kept).toEqual(expect.arrayContaining(["batches", "contacts", "deliveries", "messages", "partitions"]));
  await removeInstance(db, leaves);
  // Events go with their months.
  expect((await tablesOf(leaves)).filter((name) => !/^(events|event_count|mail_work)/.test(name))).toEqual([]);
  expect(await tablesOf(stays)).toEqual(kept);
  expect(await db("deliveries").where({ instance_id: stays })).toHaveLength(3);
});

test("there are no contacts of an instance that does not exist", async () => {
  const added = addMissingContacts(db, 999_999, [addressed("a@example.net"), addressed("b@example.net")]);
  await expect(added).rejects.toMatchObject({ code: "23503" });
});

test("an instance waits for contacts that are being added, and takes them along", async () => {
  const id = await makeInstance("waits");
  const adding = await db.transaction();
  await addMissingContacts(adding, id, [addressed("a@example.net")]);
  let removed = false;
  const removing = removeInstance(db, id).then(() => {
    removed = true;
  });
  // Whoever does not wait is done by then.
  await db.raw("select pg_sleep(0.5)");
  expect(removed).toBe(false);
  await adding.commit();
  await removing;
  expect(await db("contacts").where({ instance_id: id })).toEqual([]);
});

test("contacts wait for an instance that is being removed, and are refused", async () => {
  const id = await makeInstance("goes");
  const removing = await db.transaction();
  await removeInstance(removing, id);
  const added = addMissingContacts(db, id, [addressed("a@example.net")]);
  added.catch(() => {});
  await db.raw("select pg_sleep(0.2)");
  await removing.commit();
  await expect(added).rejects.toMatchObject({ code: "23503" });
});
