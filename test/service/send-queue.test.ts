import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSends, type Send, type SendOutcome } from "../../services/operations/mail/accept-sends.ts";
import { SendQueue } from "../../services/operations/mail/send-queue.ts";
import { isDatabaseAway, openDb } from "../../services/platform/postgres/db.ts";
import { hearNotices } from "../../services/platform/postgres/notices.ts";
import { saveContacts } from "../../services/store/mail/contacts/contact-profiles.ts";
import { resolveRecipients } from "../../services/store/mail/contacts/recipients.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { QUEUE_CHANNEL, readNotice } from "../../services/store/mail/queue/queue.ts";
import { findBatch } from "../../services/store/mail/sends/batches.ts";
import { accepted } from "../support/accepted.ts";
import { attemptFacts } from "../support/attempts.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";
import { queuedDeliveries, sameInstance } from "../support/spread-tables.ts";
import { openStatementGate } from "../support/statement-gate.ts";
import { storeOutcomes } from "../support/store-outcomes.ts";

const DOMAIN = "sender.example.org";
let database: TestDatabase;
let instanceId: number;
beforeAll(async () => {
  database = await createTestDatabase();
  const { db } = database;
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), {
    name: "t",
    host: "t.test",
    key: "k",
    archive: false,
    domains: [],
  });
  instanceId = (await findInstanceByName(db, "t"))!.id;
});
afterAll(() => database.drop());

function makeSend(email: string, changes: Partial<Send> = {}): Send {
  const address = validateAddress(email, { allowSmtputf8: true });
  if (!address.ok) throw new Error(address.error.message);
  return {
    instanceId,
    campaignNumid: 1,
    creator: "smtp",
    content: { kind: "finished", octets: Buffer.from(`Subject: ${email}\r\n\r\n`) },
    senderDomain: DOMAIN,
    sender: `info@${DOMAIN}`,
    recipients: [{ address: address.value }],
    copies: [],
    archive: false,
    ...changes,
  };
}

test("sends that come together share transactions, and each has its own batch, message and recipient", async () => {
  const sends = new SendQueue(database.db);
  const emails = Array.from({ length: 60 }, (_, n) => `r${n % 50}@d${n % 3}.example.net`);
  const outcomes = await Promise.all(
    emails.map((email, n) => sends.accept(makeSend(email, { campaignNumid: 1 + (n % 2) }))),
  );
  const sent = outcomes.map(accepted);
  expect(sent.map(({ sent }) => sent)).toEqual(emails.map(() => 1));
  expect(new Set(sent.map(({ eeid }) => eeid)).size).toBe(60);
  const rows = await queuedDeliveries(database.db)
    .join("messages", sameInstance("messages.id", "partitions.message_id"))
    .select("messages.eeid", "deliveries.recipient", "messages.octets", "messages.campaign_numid");
  for (const [n, { eeid }] of sent.entries()) {
    const [row, ...more] = rows.filter((row) => row.eeid === eeid);
    expect(more).toEqual([]);
    expect(row).toMatchObject({ recipient: emails[n], campaign_numid: 1 + (n % 2) });
    expect(String(row.octets)).toContain(emails[n]);
  }
  expect(await database.db("batches").countDistinct("created_at")).not.toEqual([{ count: 60 }]);
});

test("large sends of one instance take turns, in a transaction of their caller's as well", async () => {
  const sends = new SendQueue(database.db, { atOnce: 2, perClient: 1 });
  const large = makeSend("first@example.net", {
    recipients: Array.from({ length: 501 }, (_, n) => makeSend(`turn${n}@example.net`).recipients[0]!),
  });
  let underWay = 0;
  let most = 0;
  const outcomes = await Promise.all([
    ...[1, 2].map(() =>
      sends.acceptAlone(large, async (transaction) => {
        most = Math.max(most, ++underWay);
        const [outcome] = await acceptSends(transaction, [large]);
        underWay -= 1;
        return outcome!;
      }),
    ),
    sends.accept(large),
  ]);
  expect(outcomes.map((outcome) => accepted(outcome).sent)).toEqual([501, 501, 501]);
  expect(most).toBe(1);
});

test("one that cannot be accepted fails alone, and leaves nothing", async () => {
  const sends = new SendQueue(database.db);
  const stranger = "00000000-0000-4000-8000-000000000000";
  const outcomes = await Promise.allSettled([
    sends.accept(makeSend("a@example.net")),
    sends.accept(makeSend("b@example.net")),
    sends.accept(makeSend("c@example.net", { reuseEeid: stranger })),
    sends.accept(makeSend("d@example.net")),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
  const { value } = outcomes[3] as PromiseFulfilledResult<SendOutcome>;
  expect(await findBatch(database.db, instanceId, accepted(value).eeid)).toMatchObject({
    recipients: 1,
    state: "queued",
  });
  expect(await database.db("contacts").where({ email: "c@example.net" })).toEqual([]);
});

test("nothing is accepted twice when the connection is lost at the commit", async () => {
  const gate = await openStatementGate(database.url);
  const pool = openDb(gate.url, { connections: 2, name: "loses its connection" });
  const sends = new SendQueue(pool);
  const [first, ...together] = ["alone", "lost-a", "lost-b"].map((local) =>
    sends.accept(makeSend(`${local}@example.net`)),
  );
  await first;
  const met = gate.loseAnswer("COMMIT;");
  const outcomes = await Promise.allSettled(together);
  expect(met.hasCome()).toBe(true);
  const reasons = outcomes.map((outcome) => outcome.status === "rejected" && isDatabaseAway(outcome.reason));
  expect(reasons).toEqual([true, true]);
  const stored = await database
    .db("deliveries")
    .where("recipient", "like", "lost-%")
    .orderBy("recipient")
    .pluck("recipient");
  expect(stored).toEqual(["lost-a@example.net", "lost-b@example.net"]);
  expect((await sends.accept(makeSend("afterwards@example.net"))).ok).toBe(true);
  await pool.destroy();
  gate.close();
});

test("the contacts of an instance that came after the last statistics are found without reading all of them for each", async () => {
  const { db } = database;
  const recipients = Array.from({ length: 500 }, (_, n) => makeSend(`late${n}@example.net`).recipients[0]!);
  await db.raw("analyze contacts");
  const name = { name: "late", host: "late.test", key: "k3", archive: false, domains: [] };
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), name);
  const late = (await findInstanceByName(db, "late"))!.id;
  const resolve = (handle: typeof db, firstName: string) =>
    resolveRecipients(handle, late, [
      { campaignNumid: 1, recipients: recipients.map((recipient) => ({ ...recipient, firstName })) },
    ]);
  const changes = recipients.map(({ address }) => ({ address, lastName: "Late", groups: ["late"] }));
  await resolve(db, "A");
  for (const work of [
    (handle: typeof db) => resolve(handle, "A"),
    (handle: typeof db) => resolve(handle, "B"),
    (handle: typeof db) => saveContacts(handle, late, changes, "imported"),
  ]) {
    await db.transaction(async (transaction) => {
      await work(transaction);
      const { rows } = await transaction.raw(
        "select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_xact_user_tables where relname = 'contacts'",
      );
      expect(rows[0].read).toBeLessThan(20 * 500);
    });
  }
  expect(await db("contacts").where({ instance_id: late, first_name: "B", last_name: "Late" })).toHaveLength(500);
});

test("archived messages that are large together go to the database in portions", async () => {
  const { db } = database;
  const sends = [0, 1, 2].map((n) => makeSend(`large${n}@example.net`, { archive: true }));
  const [first] = await db.transaction((transaction) => acceptSends(transaction, sends));
  const { eeid } = accepted(first!);
  const deliveries = await db("deliveries").where("recipient", "like", "large%").orderBy("id");
  const octets = Buffer.alloc(20 * 1024 * 1024, "x");
  const outcomes = deliveries.map(({ id, recipient }) => ({
    instanceId,
    deliveryId: id,
    recipient,
    state: "delivered" as const,
    attempts: 1,
    reply: "250 ok",
    attempt: attemptFacts(),
    archived: { eeid, recipientKey: recipient, octets },
  }));
  const inserts: string[] = [];
  const listen = ({ sql }: { sql: string }) => {
    if (sql.startsWith('insert into "archived_messages"')) inserts.push(sql);
  };
  db.on("query", listen);
  await db.transaction((transaction) => storeOutcomes(transaction, outcomes, { hardBouncesToInvalidate: 2 }));
  db.removeListener("query", listen);
  expect(inserts).toHaveLength(3);
  const kept = await db("archived_messages").select(db.raw("length(octets) as length"));
  expect(kept).toEqual(deliveries.map(() => ({ length: octets.length })));
});

/** Not by `inTransaction`, which would try again what had waited in a circle. */
test("who writes the same contacts and batches does not wait for another in a circle", async () => {
  const { db } = database;
  const name = { name: "u", host: "u.test", key: "k2", archive: false, domains: [] };
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), name);
  const otherId = (await findInstanceByName(db, "u"))!.id;
  const accept = (sends: readonly Send[]) => db.transaction((transaction) => acceptSends(transaction, sends));
  const batches = (await accept([makeSend("first@example.net"), makeSend("second@example.net")])).map(accepted);
  for (let round = 0; round < 6; round++) {
    // Every second one is new in this round; the others get another name.
    const emails = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? `known${n}` : `new${n}-${round}`));
    const sends = emails.map((local, n) => {
      const send = makeSend(`${local}@example.net`, { instanceId: n % 3 === 0 ? otherId : instanceId });
      const reuse = send.instanceId === instanceId ? { reuseEeid: batches[n % 4 < 2 ? 0 : 1]!.eeid } : {};
      return { ...send, ...reuse, recipients: send.recipients.map((one) => ({ ...one, firstName: `${n}-${round}` })) };
    });
    const changes = sends.map(({ recipients: [one] }) => ({ address: one!.address, lastName: `${round}` }));
    await Promise.all([
      accept(sends.map((send) => ({ ...send, campaignNumid: 1 + (send.recipients.length % 2) }))),
      accept(sends.toReversed().map((send, n) => ({ ...send, campaignNumid: 1 + (n % 2) }))),
      saveContacts(db, instanceId, changes.toReversed(), "modified"),
      saveContacts(db, otherId, changes, "imported"),
    ]);
  }
});

/** As above, of sends that have a transaction each. */
test("who sends to the same many at once does not wait for another in a circle, and each of them gets all", async () => {
  const { db } = database;
  const name = { name: "many", host: "many.test", key: "k4", archive: false, domains: [] };
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), name);
  const many = (await findInstanceByName(db, "many"))!.id;
  for (let round = 0; round < 4; round++) {
    // Every second one is new in this round; the others get another name.
    const locals = Array.from({ length: 600 }, (_, n) => (n % 2 === 0 ? `known${n}` : `new${n}-${round}`));
    const sendBy = (order: readonly string[], firstName: string) => {
      const recipients = order.map((local) => ({
        ...makeSend(`${local}@d${local.length}.example.net`).recipients[0]!,
        firstName,
      }));
      return db.transaction((transaction) =>
        acceptSends(transaction, [makeSend("x@example.net", { instanceId: many, recipients })]),
      );
    };
    const orders = [locals, locals.toReversed(), locals.toSorted((a, b) => (a.at(-3)! < b.at(-3)! ? -1 : 1))];
    const outcomes = await Promise.all(orders.map((order, n) => sendBy(order, `${n}-${round}`)));
    expect(outcomes.map(([outcome]) => accepted(outcome!).sent)).toEqual([600, 600, 600]);
    expect(await db("contacts").where({ instance_id: many })).toHaveLength(300 + 300 * (round + 1));
  }
});

test("workers are told whose mail there is, and of nobody else's", async () => {
  const { db } = database;
  const name = { name: "told", host: "told.test", key: "k5", archive: false, domains: [] };
  await addTestInstance(db, KeyRing.ofSecret("a secret for tests only"), name);
  const told = (await findInstanceByName(db, "told"))!.id;
  const notices: ReturnType<typeof readNotice>[] = [];
  let isListening = () => {};
  const listening = new Promise<void>((resolve) => {
    isListening = resolve;
  });
  const connect = async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    return client;
  };
  const hearing = hearNotices(connect, QUEUE_CHANNEL, (payload) =>
    payload === undefined ? isListening() : notices.push(readNotice(payload)),
  );
  await listening;
  const sends = new SendQueue(db);
  await Promise.all([
    ...["a", "b"].map((local) => sends.accept(makeSend(`${local}@told.example.net`))),
    sends.accept(makeSend("c@told.example.net", { instanceId: told })),
  ]);
  const idsOf = () => notices.flatMap((notice) => (notice.kind === "mail" ? [notice.instanceIds].flat() : []));
  await expect.poll(() => new Set(idsOf())).toEqual(new Set([instanceId, told]));
  notices.length = 0;
  const alone = makeSend("d@told.example.net", { instanceId: told });
  await sends.acceptAlone(alone, (transaction) => acceptSends(transaction, [alone]));
  await expect.poll(() => notices).toEqual([{ kind: "mail", instanceIds: [told] }]);
  await hearing.stop();
});
