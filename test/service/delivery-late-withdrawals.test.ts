import { expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { addCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { addSuppressions, type SuppressionOwner } from "../../services/store/mail/contacts/suppressions.ts";
import { addUnsubscription } from "../../services/store/mail/contacts/unsubscriptions.ts";
import { EVENT_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { findBatch } from "../../services/store/mail/sends/batches.ts";
import { accepted } from "../support/accepted.ts";
import {
  accept,
  DOMAIN,
  database,
  eventually,
  failures,
  instanceId,
  makeWorker,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";

setUpDelivery();

interface Gone {
  readonly id: number;
  readonly key: string;
  readonly campaignNumid: number;
}
type Bar = (db: Db, gone: Gone) => Promise<unknown>;

const contact = (db: Db, { id }: Gone) => db("contacts").where({ instance_id: instanceId, id });
const suppress = (db: Db, key: string, owner: SuppressionOwner = { instanceId }) =>
  addSuppressions(db, owner, [{ key, text: key, kind: "by-hand", note: "", creator: "" }]);
const WAYS: readonly [what: string, bar: Bar, events: number][] = [
  [
    "unsubscribed from its campaign",
    (db, { id, campaignNumid }) =>
      db.transaction((transaction) =>
        addUnsubscription(transaction, { instanceId, contactId: id, campaignNumid, at: new Date() }),
      ),
    0,
  ],
  ["unsubscribed from all", (db, gone) => contact(db, gone).update({ unsubscribed_at: new Date() }), 0],
  ["became invalid", (db, gone) => contact(db, gone).update({ invalid: true }), 1],
  ["was suppressed", (db, { key }) => suppress(db, key), 1],
  ["had its domain suppressed", (db) => suppress(db, "@a.example.net"), 1],
];

test.each(WAYS)("what waited for another attempt is not sent to who %s", async (_what, bar, notSent) => {
  const { db } = database;
  let isBusy = true;
  const far = await sink({
    onRcptTo: (_address, _session, done) =>
      done(isBusy ? Object.assign(new Error("4.2.0 later"), { responseCode: 450 }) : null),
  });
  const campaignNumid = await addedCampaign(db);
  const emails = ["gone@a.example.net", "stays@b.example.net"];
  const eeid = await accept(emails, "<p>Hi</p>", false, [], campaignNumid);
  const worker = run(makeWorker(routes({ "a.example.net": far.port, "b.example.net": far.port })));
  await eventually(
    () => db("deliveries").where({ instance_id: instanceId }).where("attempts", ">", 0),
    (tried) => tried.length === 2,
  );
  await worker.stop();

  const gone = await db("contacts").where({ instance_id: instanceId, email: emails[0]! }).first("id", "email_key");
  await bar(db, { id: gone.id, key: gone.email_key, campaignNumid });
  isBusy = false;
  run(makeWorker(routes({ "a.example.net": far.port, "b.example.net": far.port })));
  await untilSent(eeid);

  expect(recipientsOf(far)).toEqual([emails[1]]);
  const deliveries = await db("deliveries").where({ instance_id: instanceId }).orderBy("recipient").select("state");
  expect(deliveries.map(({ state }) => state)).toEqual(["cancelled", "delivered"]);
  const events = await db("events")
    .where({ instance_id: instanceId, kind: EVENT_KINDS["not-sent"] })
    .select("eeid", "contact_id");
  expect(events).toEqual(Array(notSent).fill({ eeid, contact_id: gone.id }));
  expect(await findBatch(db, instanceId, eeid)).toMatchObject({ recipients: 1, refused: 0 });
  expect(failures).toEqual([]);
});

test("what its recipient has complained of counts as delivered, although it is not known to have been sent", async () => {
  const { db } = database;
  let isBusy = true;
  const far = await sink({
    onRcptTo: (_address, _session, done) =>
      done(isBusy ? Object.assign(new Error("4.2.0 later"), { responseCode: 450 }) : null),
  });
  const email = "gone@a.example.net";
  const eeid = await accept([email], "<p>Hi</p>", false, [], await addedCampaign(db));
  const worker = run(makeWorker(routes({ "a.example.net": far.port })));
  await eventually(
    () => db("deliveries").where({ instance_id: instanceId }).where("attempts", ">", 0),
    (tried) => tried.length === 1,
  );
  await worker.stop();
  await db("contacts").where({ instance_id: instanceId, email }).update({ invalid: true });
  await db("deliveries").where({ instance_id: instanceId }).update({ complained_at: new Date() });
  isBusy = false;
  run(makeWorker(routes({ "a.example.net": far.port })));
  await untilSent(eeid);

  expect(recipientsOf(far)).toEqual([]);
  expect(await db("deliveries").where({ instance_id: instanceId }).pluck("state")).toEqual(["delivered"]);
  expect(await db("events").where({ instance_id: instanceId, kind: EVENT_KINDS["not-sent"] })).toEqual([]);
  expect(await findBatch(db, instanceId, eeid)).toMatchObject({ recipients: 1, refused: 0 });
  expect(failures).toEqual([]);
});

const LISTS: readonly [what: string, key: string, by: "its instance" | "the operator"][] = [
  ["an address", "gone@a.example.net", "its instance"],
  ["a domain", "@a.example.net", "its instance"],
  ["an address", "gone@a.example.net", "the operator"],
  ["a domain", "@a.example.net", "the operator"],
];

test.each(LISTS)(
  "a copy to no contact that waited is not sent once %s, %s, is suppressed by %s",
  async (_what, key, by) => {
    const { db } = database;
    let isBusy = true;
    const far = await sink({
      onRcptTo: (_address, _session, done) =>
        done(isBusy ? Object.assign(new Error("4.2.0 later"), { responseCode: 450 }) : null),
    });
    const ports = { "a.example.net": far.port, "b.example.net": far.port };
    const eeid = await acceptWithCopies("first@b.example.net", ["gone@a.example.net", "stays@b.example.net"]);
    expect(await db("contacts").where({ instance_id: instanceId }).pluck("email")).toEqual(["first@b.example.net"]);
    const worker = run(makeWorker(routes(ports)));
    await eventually(
      () => db("deliveries").where({ instance_id: instanceId }).where("attempts", ">", 0),
      (tried) => tried.length === 3,
    );
    await worker.stop();

    await suppress(db, key, by === "the operator" ? "operator" : { instanceId });
    isBusy = false;
    run(makeWorker(routes(ports)));
    await untilSent(eeid);

    expect(recipientsOf(far).sort()).toEqual(["first@b.example.net", "stays@b.example.net"]);
    const deliveries = await db("deliveries").where({ instance_id: instanceId }).orderBy("recipient").pluck("state");
    expect(deliveries).toEqual(["delivered", "cancelled", "delivered"]);
    const events = await db("events")
      .where({ instance_id: instanceId, kind: EVENT_KINDS["not-sent"] })
      .select("eeid", "contact_id", "email", "detail");
    expect(events).toEqual([{ eeid, contact_id: null, email: "gone@a.example.net", detail: { reason: "suppressed" } }]);
    expect(await findBatch(db, instanceId, eeid)).toMatchObject({ recipients: 2, refused: 0 });
    expect(failures).toEqual([]);
  },
);

async function acceptWithCopies(to: string, copies: readonly string[]): Promise<string> {
  const [recipient, ...others] = [to, ...copies].map((email) => {
    const valid = validateAddress(email, { allowSmtputf8: false });
    return valid.ok ? valid.value : expect.fail();
  });
  const from = { name: "", address: `info@${DOMAIN}` };
  const outcome = await database.db.transaction((transaction) =>
    acceptSend(transaction, {
      ...{ instanceId, campaignNumid: 1, creator: "api", senderDomain: DOMAIN, sender: from.address, archive: false },
      content: {
        kind: "template",
        template: { from, subject: "Hi", html: "<p>Hi</p>", unsubscribe: false, to: { name: "", address: to }, cc: [] },
        attachments: [],
      },
      recipients: [{ address: recipient! }],
      copies: others.map((address) => ({ address, role: "bcc" as const })),
    }),
  );
  return accepted(outcome).eeid;
}

async function addedCampaign(db: Db): Promise<number> {
  const { numid } = await addCampaign(db, KeyRing.ofSecret("a secret for tests only"), {
    instanceId,
    type: "api",
    name: "late",
    sender: `info@${DOMAIN}`,
    senderName: "Late",
    subject: "Hi",
    subjectUri: "",
    replyTo: "",
    url: "",
    charset: "utf8",
    unsubscribe: true,
  });
  return numid;
}
