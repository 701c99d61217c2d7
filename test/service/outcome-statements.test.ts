import pg from "pg";
import { afterAll, beforeAll, expect, inject, test, vi } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import type { RecipientDsn } from "../../services/core/mail/dsn-parameters.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { TOLD_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { addWebhook, removeWebhook } from "../../services/store/mail/tracking/webhooks.ts";
import { accepted } from "../support/accepted.ts";
import { attemptFacts } from "../support/attempts.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";
import { queuedDeliveries } from "../support/spread-tables.ts";
import { storeOutcomes } from "../support/store-outcomes.ts";

// What nobody asks for costs no statement, and no row.
const KEY_RING = KeyRing.ofSecret("a secret for tests only");
const REQUEST = { mailFrom: "info@example.org", international: false };
let database: TestDatabase;
let instanceId: number;
let sent = 0;

beforeAll(async () => {
  database = await createTestDatabase();
  const instance = { name: "test", host: "mail.test", key: "k", archive: false, domains: ["example.org"] };
  await addTestInstance(database.db, KEY_RING, instance);
  instanceId = (await findInstanceByName(database.db, "test"))!.id;
  // What is looked up once a process has been.
  await settle(await send(undefined));
});
afterAll(() => database.drop());

async function send(dsn: RecipientDsn | undefined): Promise<string[]> {
  const recipients = [1, 2].map((n) => {
    const address = validateAddress(`r${n}@d${sent++}.example.net`, { allowSmtputf8: false });
    if (!address.ok) throw new Error(address.error.message);
    return { address: address.value, ...(dsn && { dsn }) };
  });
  const outcome = await database.db.transaction((transaction) =>
    acceptSend(transaction, {
      ...{ instanceId, campaignNumid: 1, creator: "smtp", copies: [], archive: false, recipients },
      ...{ senderDomain: "example.org", sender: "info@example.org", ...(dsn && { dsn: REQUEST }) },
      content: { kind: "finished", octets: Buffer.from("From: info@example.org\r\nMessage-ID: <1@x>\r\n\r\nHi\r\n") },
    }),
  );
  accepted(outcome);
  return recipients.map(({ address }) => address.asGiven);
}

/** Both are taken; the second one says so in a way that a sender may want to hear of. */
async function settle(recipients: readonly string[], dsn?: RecipientDsn): Promise<void> {
  const rows = await database.db("deliveries").whereIn("recipient", recipients).orderBy("id").select("id", "recipient");
  const [{ message_id: messageId }] = await queuedDeliveries(database.db)
    .whereIn("recipient", recipients)
    .select("message_id");
  const outcomes = rows.map(({ id: deliveryId, recipient }, index) => ({
    ...{ instanceId, deliveryId, recipient, state: "delivered" as const, attempts: 1, reply: "250 ok" },
    attempt: attemptFacts(),
    ...(dsn && index === 1
      ? {
          report: {
            ...{ instanceId, messageId, deliveryId, recipient, dsn, kind: "success" as const, state: "due" as const },
            ...{ action: "relayed" as const, words: "250 ok" },
          },
        }
      : {}),
  }));
  await database.db.transaction((transaction) => storeOutcomes(transaction, outcomes, { hardBouncesToInvalidate: 2 }));
}

/** @returns the statements of a piece of work, without their transaction's */
async function statementsOf(work: () => Promise<unknown>): Promise<string[]> {
  const asking = vi.spyOn(pg.Client.prototype, "query");
  await work();
  const statements = asking.mock.calls.map(([asked]: readonly unknown[]) =>
    (typeof asked === "string" ? asked : (asked as { readonly text: string }).text).trim().replace(/\s+/g, " "),
  );
  asking.mockRestore();
  return statements.filter((sql) => !/^(begin|commit)\b/i.test(sql));
}

const rowsOf = async (table: string) => Number((await database.db(table).count({ rows: "*" }))[0]!.rows);

test("reports to senders: nothing where nobody asks, one statement of a message's or a window's where somebody does", async () => {
  let plain: string[] = [];
  let asking: string[] = [];
  const dsn = { notify: ["success", "delay"] } as const;
  const accept = await statementsOf(async () => (plain = await send(undefined)));
  const acceptAsking = await statementsOf(async () => (asking = await send(dsn)));
  expect(accept.filter((sql) => sql.includes("delivery_reports"))).toEqual([]);
  expect(acceptAsking.length - accept.length).toBeLessThanOrEqual(1);
  const outcome = await statementsOf(() => settle(plain));
  const outcomeAsking = await statementsOf(() => settle(asking, dsn));
  expect(outcome.filter((sql) => sql.includes("delivery_reports"))).toEqual([]);
  expect(outcomeAsking.filter((sql) => !outcome.includes(sql))).toEqual([
    expect.stringMatching(/^insert into delivery_reports /),
  ]);
  // The watch for a delay of both, and the success of one.
  expect(await rowsOf("delivery_reports")).toBe(3);
});

test("events of deliveries: nothing without a webhook and a stream, or with a webhook that does not want them", async () => {
  const quiet = await sendAndSettle();
  expect(await rowsOf("webhook_events")).toBe(0);
  const url = "http://127.0.0.1:9/";
  const choice = { name: "events", url, campaigns: null, condition: null, isFull: true };
  await addWebhook(database.db, KEY_RING, instanceId, { ...choice, kinds: [TOLD_KINDS.viewed] });
  const unwanted = await sendAndSettle();
  expect(added(unwanted.sending, quiet.sending)).toEqual(TOLD_APART);
  expect(unwanted.sending).toHaveLength(quiet.sending.length + Math.max(0, TOLD_APART.length - 1));
  expect(unwanted.settling).toEqual(quiet.settling);
  const before = await rowsOf("webhook_events");
  await addWebhook(database.db, KEY_RING, instanceId, { ...choice, kinds: [TOLD_KINDS.delivered] });
  const told = await sendAndSettle();
  expect(added(told.sending, quiet.sending)).toEqual(TOLD_APART);
  expect(added(told.settling, quiet.settling)).toEqual([expect.stringMatching(/^insert into webhook_events /)]);
  // Two acceptances and two deliveries.
  expect((await rowsOf("webhook_events")) - before).toBe(4);
  await removeWebhook(database.db, instanceId, "events");
  expect(await sendAndSettle()).toEqual(quiet);
});

/** Citus has a statement for each table: what is stored of events, and what is told of them where somebody hears any. */
const TOLD_APART =
  inject("citusWorkers").length > 0
    ? [
        expect.stringMatching(/^insert into events .* returning id, at, kind$/),
        expect.stringMatching(/^insert into webhook_events /),
      ]
    : [];

const added = (now: readonly string[], before: readonly string[]) => now.filter((sql) => !before.includes(sql));

async function sendAndSettle(): Promise<{ readonly sending: string[]; readonly settling: string[] }> {
  let recipients: string[] = [];
  const sending = await statementsOf(async () => (recipients = await send(undefined)));
  return { sending, settling: await statementsOf(() => settle(recipients)) };
}
