import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { type SendingLimit, windowStart } from "../../services/core/mail/guard/sending-limits.ts";
import type { Send } from "../../services/operations/mail/accept-sends.ts";
import { gatherPortion } from "../../services/operations/mail/campaign-start.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { SendQueue } from "../../services/operations/mail/send-queue.ts";
import { readSendingOverview } from "../../services/operations/mail/sending-overview.ts";
import { sendingPolicy } from "../../services/platform/config/sending-limits.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import { removeSendingLimit, setRamp, setSendingLimit } from "../../services/store/mail/guard/sending-limits.ts";
import { releaseWaiting } from "../../services/store/mail/guard/waiting-recipients.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { withdrawBatch } from "../../services/store/mail/queue/queue-stops.ts";
import { cancelDelivery } from "../../services/store/mail/queue/single-deliveries.ts";
import { inTransaction, Overtaken } from "../../services/store/transactions.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { eachThrown } from "../support/each-thrown.ts";
import { hourLeft } from "../support/hour-left.ts";
import { addTestInstance } from "../support/instances.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { submitMessage } from "../support/submit.ts";

const dataDir = makeDataDir();
let stack: MailStack;
let db: Db;
let databaseUrl: string;
let submissions: string;
let numid: number;

beforeAll(async () => {
  stack = await startMailStack([MAIL_SERVICES.api], { PALOMAR_DATA_DIR: dataDir });
  db = stack.context.db;
  submissions = (await stack.run(startSubmission)).addresses.submissions!;
  numid = await stack.addCampaign();
  databaseUrl = db.client.connectionSettings.connectionString;
});
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});
/** Ten times what the longest of these tests takes on a quiet machine. */
const TEST_MS = 30_000;

beforeEach(async () => {
  await hourLeft(TEST_MS);
  for (const table of ["sending_limits", "sending_counts", "instance_guards", "deliveries", "partitions", "batches"]) {
    await db(table).delete();
  }
});

const limit = (changes: Partial<SendingLimit>): SendingLimit => ({
  ...{ scope: "instance", subject: "", perHour: null, perDay: null, over: "refuse" },
  ...changes,
});
const setLimit = (changes: Partial<SendingLimit>) => setSendingLimit(db, stack.instanceId, limit(changes));

function makeSend(emails: readonly string[], changes: Partial<Send> = {}): Send {
  return {
    instanceId: stack.instanceId,
    campaignNumid: numid,
    creator: "api",
    content: { kind: "finished", octets: Buffer.from("Subject: x\r\n\r\n") },
    senderDomain: TEST_DOMAIN,
    sender: `info@${TEST_DOMAIN}`,
    recipients: emails.map((email) => {
      const address = validateAddress(email, { allowSmtputf8: true });
      if (!address.ok) throw new Error(email);
      return { address: address.value };
    }),
    copies: [],
    archive: false,
    ...changes,
  };
}
const emails = (count: number, name: string) => Array.from({ length: count }, (_, n) => `${name}-${n}@d.example.net`);

const call = (contacts: readonly string[], headers = {}) => {
  const contactos = contacts.map((email) => ({ email }));
  const body = { campana_id: numid, email: true, contactos, html: "<p>Hi</p>" };
  return stack.call("POST", "/envio/send_many_inline", body, headers);
};

/** What is counted, hour by hour. */
const countedHours = (key = "instance") =>
  db("sending_counts").where({ key, grain: "hour" }).orderBy("starts_at").select("starts_at", "used");
const queued = async () => Number((await db("deliveries").count())[0]!.count);

describe("however many processes accept mail", () => {
  it("exactly so much passes within a window as is allowed, and what is counted is what is queued", async () => {
    const perHour = 60;
    await setLimit({ perHour });
    const pools = Array.from({ length: 3 }, () => openDb(databaseUrl, { connections: 4, name: "other" }));
    const queues = pools.map((pool) => new SendQueue(pool));
    const outcomes = await Promise.all(
      Array.from({ length: 120 }, (_, n) =>
        queues[n % queues.length]!.accept(makeSend(emails(1 + (n % 3), `exact${n}`))),
      ),
    );
    const sent = outcomes.reduce((sum, outcome) => sum + (outcome.ok ? outcome.value.sent : 0), 0);
    const hours = await countedHours();
    expect(hours.reduce((sum, { used }) => sum + Number(used), 0)).toBe(sent);
    expect(await queued()).toBe(sent);
    // The clock may strike meanwhile: each hour has its own.
    for (const { used } of hours) expect(Number(used)).toBeLessThanOrEqual(perHour);
    expect(sent).toBeGreaterThan(perHour - 3);
    const refused = outcomes.find((outcome) => !outcome.ok);
    expect(refused).toMatchObject({ error: { kind: "limit-reached", grain: "hour", allowed: perHour } });
    // Of a refused send nothing is left.
    expect(Number((await db("batches").count())[0]!.count)).toBe(outcomes.filter(({ ok }) => ok).length);
    for (const pool of pools) await pool.destroy();
  });

  it("who is overtaken by one after the other gets through when they have", async () => {
    let others = 20;
    const left = await inTransaction(db, async () => {
      if (others === 0) return others;
      others -= 1;
      throw new Overtaken();
    });
    expect(left).toBe(0);
  });

  it("what a process did not commit when it was killed counts for nobody", async () => {
    await setLimit({ perHour: 10_000 });
    const pool = openDb(databaseUrl, { connections: 4, name: "killed" });
    const queue = new SendQueue(pool);
    const sending = Array.from({ length: 200 }, (_, n) => queue.accept(makeSend(emails(2, `killed${n}`))));
    const settled = Promise.allSettled(sending);
    await eventually(queued, (count) => count > 0);
    await db.raw("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'palomar killed'");
    await settled;
    await eventually(
      async () =>
        (
          await db.raw(
            "select from pg_stat_activity where application_name = 'palomar killed' and xact_start is not null",
          )
        ).rows.length,
      (count) => count === 0,
    );
    const hours = await countedHours();
    expect(hours.reduce((sum, { used }) => sum + Number(used), 0)).toBe(await queued());
    await pool.destroy();
  });

  it("a limit that another process sets, changes or removes goes for the next send of one that has sent before", async () => {
    const pool = openDb(databaseUrl, { connections: 2, name: "sends before" });
    const queue = new SendQueue(pool);
    const send = async (count: number, name: string) => (await queue.accept(makeSend(emails(count, name)))).ok;
    const sent: boolean[] = [await send(3, "free")];
    await setLimit({ perHour: 2 });
    sent.push(await send(3, "above"), await send(2, "within"), await send(1, "full"));
    await setLimit({ perHour: 3 });
    sent.push(await send(2, "above"), await send(1, "more"));
    expect((await countedHours()).reduce((sum, { used }) => sum + Number(used), 0)).toBe(3);
    await removeSendingLimit(db, stack.instanceId, { scope: "instance", subject: "" });
    sent.push(await send(3, "guarded"));
    await db("instance_guards").delete();
    sent.push(await send(3, "free-again"), await send(3, "free-still"));
    await setLimit({ perDay: 0 });
    sent.push(await send(1, "none"));
    expect(sent).toEqual([true, false, true, false, false, true, true, true, true, false]);
    await pool.destroy();
  });

  it("goes by the present windows alone, and by those to come where mail waits", async () => {
    const hour = windowStart("hour", new Date()).getTime();
    const count = (grain: "hour" | "day", startsAt: number, used: number) => ({
      instance_id: stack.instanceId,
      key: "instance",
      grain,
      starts_at: new Date(startsAt),
      used,
    });
    const day = windowStart("day", new Date()).getTime();
    await db("sending_counts").insert([
      count("hour", hour - 3_600_000, 100),
      count("day", day - 86_400_000, 100),
      count("hour", hour + 3_600_000, 9),
    ]);
    await setLimit({ perHour: 10, perDay: 1_000, over: "wait" });
    const queue = new SendQueue(db);
    expect((await queue.accept(makeSend(emails(12, "present")))).ok).toBe(true);
    const used = (await countedHours()).map((row) => [row.starts_at.getTime() - hour, Number(row.used)]);
    expect(used).toEqual([
      [-3_600_000, 100],
      [0, 10],
      [3_600_000, 10],
      [7_200_000, 1],
    ]);
  });

  it("others are not touched by what one may not send", async () => {
    const name = { name: `other-${Date.now()}`, host: "other.test", key: "other", archive: false, domains: [] };
    await addTestInstance(db, stack.context.keyRing, name);
    const otherId = (await findInstanceByName(db, name.name))!.id;
    await setLimit({ perHour: 0 });
    const queue = new SendQueue(db);
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        queue.accept(makeSend(emails(1, `neighbour${n}`), n % 2 === 0 ? {} : { instanceId: otherId })),
      ),
    );
    expect(outcomes.map(({ ok }) => ok)).toEqual(outcomes.map((_, n) => n % 2 === 1));
    expect(await db("sending_counts")).toEqual([]);
  });
});

const submit = (local: string, ...recipients: string[]) => submitFrom(`${local}@${TEST_DOMAIN}`, ...recipients);
/** @param author the From field, and what may follow it */
const submitFrom = async (author: string, ...recipients: string[]) => {
  const { body } = await stack.call("GET", `/campania_apikey?numid=${numid}`);
  const login = { user: `test-${numid}`, key: body.camp_apikey };
  return submitMessage(submissions, login, { from: `info@${TEST_DOMAIN}`, author, recipients });
};

describe("what is said", () => {
  it("by the API: 429 with the time, and the key of the call stays free", async () => {
    await setLimit({ perDay: 2 });
    const headers = { "Idempotency-Key": `k${Date.now()}` };
    expect((await call(emails(2, "fits"))).status).toBe(200);
    const refused = await call(emails(1, "above"), headers);
    expect(refused.status).toBe(429);
    const tomorrow = new Date(windowStart("day", new Date()).getTime() + 86_400_000);
    const time = `${tomorrow.toISOString().slice(0, 19)}Z`;
    const on = `limite de envios alcanzado: 2 por dia (instancia), sigue ${time}`;
    expect(refused.body).toEqual({ status: "err", on });
    const retryAfter = Number(refused.headers["retry-after"]);
    expect(Math.abs(retryAfter - (tomorrow.getTime() - Date.now()) / 1000)).toBeLessThan(60);
    const never = await call(emails(3, "never"));
    expect(never).toMatchObject({
      status: 400,
      body: { on: "mas destinatarios que el limite de envios: 2 por dia (instancia)" },
    });
    await removeSendingLimit(db, stack.instanceId, { scope: "instance", subject: "" });
    expect((await call(emails(1, "above"), headers)).status).toBe(200);
    // No contact was made of whom a refused call named.
    expect(await db("contacts").where("email", "like", "never%")).toEqual([]);
  });

  it("by submission: 452 with the time, and 550 to what can never pass", async () => {
    await setLimit({ scope: "sender", subject: `info@${TEST_DOMAIN}`, perHour: 1 });
    expect(await submit("Info", "one@example.net")).toMatch(/^250 2\.6\.0 /);
    expect(await submit("info", "two@example.net")).toMatch(
      /^452 4\.5\.3 at most 1 recipient per hour for this sender: goes on at 20\d\d-\d\d-\d\dT\d\d:00:00Z\r\n$/,
    );
    expect(await submit("info", "two@example.net", "three@example.net")).toMatch(
      /^550 5\.5\.3 at most 1 recipient per/,
    );
    expect(await submit("other", "two@example.net")).toMatch(/^250 /);
  });

  it("neither another author, nor the Sender field, nor a plus address is a way round a sender's limit", async () => {
    const info = `info@${TEST_DOMAIN}`;
    await setLimit({ scope: "sender", subject: info, perDay: 1 });
    // Whoever is named first, it counts for the others too.
    const first = `decoy@${TEST_DOMAIN}, ${info}\r\nSender: decoy@${TEST_DOMAIN}`;
    expect(await submitFrom(first, "one@example.net")).toMatch(/^250 /);
    const ways = [
      first,
      `decoy@${TEST_DOMAIN}\r\nSender: ${info}`,
      `decoy@${TEST_DOMAIN}\r\nSender: INFO+x@${TEST_DOMAIN}`,
      `info+1@${TEST_DOMAIN}`,
    ];
    for (const from of ways) expect(await submitFrom(from, "two@example.net"), from).toMatch(/^452 4\.5\.3 /);
    expect((await db("sending_counts").where({ key: `sender ${info}` })).map(({ used }) => Number(used))).toEqual([1]);
    const plus = { remitente: `info+2@${TEST_DOMAIN}` };
    const body = {
      campana_id: numid,
      email: true,
      contactos: [{ email: "two@example.net" }],
      html: "<p>Hi</p>",
      ...plus,
    };
    expect((await stack.call("POST", "/envio/send_many_inline", body)).status).toBe(429);
    const crowd = Array.from({ length: 20 }, (_, n) => `a${n}@${TEST_DOMAIN}`).join(", ");
    expect(await submitFrom(`${crowd}\r\nSender: ${info}`, "two@example.net")).toMatch(/^550 5\.6\.0 .*20 authors/);
  });
});

describe("what may wait", () => {
  it("is accepted, and due when there is room", async () => {
    await setLimit({ perHour: 100, over: "wait" });
    const answer = await call(emails(250, "waits"));
    expect(answer).toMatchObject({ status: 200, body: { sent: 250 } });
    const hours = await countedHours();
    expect(hours.map(({ used }) => Number(used))).toEqual([100, 100, 50]);
    const due: { due_at: Date; recipients: number; state: string }[] = await db("partitions").orderBy("id");
    expect(due.map(({ state, recipients }) => [state, recipients])).toEqual([
      ["ready", 100],
      ["deferred", 100],
      ["deferred", 50],
    ]);
    expect(due.slice(1).map(({ due_at }) => due_at)).toEqual(hours.slice(1).map(({ starts_at }) => starts_at));
    const overview = await readSendingOverview(db, stack.instanceId, new Date(hours[0].starts_at));
    expect(overview).toMatchObject({ waiting: 150, goes_on_at: hours[1].starts_at.toISOString() });
    expect(overview.limits).toMatchObject([{ scope: "instance", per_hour: 100, used_hour: 100, over: "wait" }]);
    expect(await releaseWaiting(db, stack.instanceId)).toBe(150);
    expect(await db("partitions").where({ state: "deferred" })).toEqual([]);
  });

  /** How much is counted by hours and days from the present ones on. */
  const counted = async (key: string) => {
    const rows: { grain: "hour" | "day"; starts_at: Date; used: number }[] = await db("sending_counts").where({ key });
    const units = { hour: 3_600_000, day: 86_400_000 };
    return Object.fromEntries(
      rows
        .filter(({ used }) => Number(used) !== 0)
        .map(({ grain, starts_at, used }) => {
          const ahead = (starts_at.getTime() - windowStart(grain, new Date()).getTime()) / units[grain];
          return [`${grain} ${ahead}`, Number(used)];
        }),
    );
  };
  const overview = () => readSendingOverview(db, stack.instanceId, new Date());
  const hoursAhead = (hours: number) =>
    new Date(windowStart("hour", new Date()).getTime() + hours * 3_600_000).toISOString();

  it("counts where it goes once it is released, and leaves its hours to others", async () => {
    await setLimit({ perHour: 2, over: "wait" });
    await setLimit({ scope: "sender", perHour: 5, perDay: 1_000, over: "wait" });
    const sender = `sender info@${TEST_DOMAIN}`;
    expect((await call(emails(6, "released"))).body.sent).toBe(6);
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 1": 2, "hour 2": 2 });
    expect(await releaseWaiting(db, stack.instanceId)).toBe(4);
    expect(await counted("instance")).toEqual({ "hour 0": 6 });
    expect(await counted(sender)).toEqual({ "hour 0": 6, "day 0": 6 });
    expect(await overview()).toMatchObject({ waiting: 0, goes_on_at: null });
    expect((await call(emails(1, "next"))).body.sent).toBe(1);
    expect(await overview()).toMatchObject({ waiting: 1, goes_on_at: hoursAhead(1) });
    expect(await releaseWaiting(db, stack.instanceId)).toBe(1);
    expect(await releaseWaiting(db, stack.instanceId)).toBe(0);
    expect(await counted("instance")).toEqual({ "hour 0": 7 });
  });

  it("gives its place back when it is cancelled or erased, alone or with its batch", async () => {
    await setLimit({ perHour: 2, over: "wait" });
    await setLimit({ scope: "campaign", perHour: 1_000, perDay: 1_000, over: "wait" });
    const send = async (count: number, name: string) => (await call(emails(count, name))).body.eeid as string;
    await send(2, "goes");
    const first = await send(3, "first");
    const second = await send(3, "second");
    const campaign = await addGathering("00000000-0000-4000-8000-0000000000ad", "first");
    await db("campaign_sends")
      .where({ campaign_numid: campaign })
      .update({ waits_until: hoursAhead(4) });
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 1": 2, "hour 2": 2, "hour 3": 2 });
    const deliveries: { id: number }[] = await db("deliveries").where("recipient", "like", "first-%").orderBy("id");
    for (const { id } of deliveries.slice(0, 2)) {
      expect(await cancelDelivery(db, stack.instanceId, id)).toBe("done");
      expect(await cancelDelivery(db, stack.instanceId, id)).toBe("settled");
    }
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 2": 2, "hour 3": 2 });
    expect(await db("campaign_sends").where({ campaign_numid: campaign }).pluck("waits_until")).toEqual([null]);
    await db("campaign_sends").where({ campaign_numid: campaign }).delete();
    expect(await overview()).toMatchObject({ waiting: 4, goes_on_at: hoursAhead(2) });
    // The last of its message, and one of several.
    for (const email of ["first-2@d.example.net", "second-0@d.example.net"]) {
      const address = validateAddress(email, { allowSmtputf8: true });
      if (!address.ok) throw new Error(email);
      await eraseAddress(db, stack.instanceId, address.value);
    }
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 3": 2 });
    expect(await send(3, "third")).not.toBe(first);
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 1": 2, "hour 2": 1, "hour 3": 2 });
    await db("batches").where({ eeid: second }).update({ cancelled_at: new Date() });
    await withdrawBatch(db, { instanceId: stack.instanceId, eeid: second });
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 1": 2, "hour 2": 1 });
    const { "day 0": today = 0, "day 1": tomorrow = 0, ...hours } = await counted(`campaign ${numid}`);
    expect({ total: today + tomorrow, hours }).toEqual({
      total: 5,
      hours: { "hour 0": 2, "hour 1": 2, "hour 2": 1 },
    });
  });

  it("gives back nothing of the hour that has begun, nor what has waited since before its windows were kept", async () => {
    await setLimit({ perHour: 2, over: "wait" });
    await call(emails(4, "begun"));
    await db("partitions").where({ state: "deferred" }).update({ counted_as: null });
    const ids: number[] = await db("deliveries").orderBy("id").pluck("id");
    for (const id of ids) expect(await cancelDelivery(db, stack.instanceId, id)).toBe("done");
    expect(await counted("instance")).toEqual({ "hour 0": 2, "hour 1": 2 });
    expect(await overview()).toMatchObject({ waiting: 0, goes_on_at: null });
  });

  it("is bounded: what would wait for weeks is refused", async () => {
    await setLimit({ perDay: 1, over: "wait" });
    // So many days ahead, of which a part is on one more day but in the first hour.
    const days = new Date().getUTCHours() === 0 ? 14 : 15;
    expect((await call(emails(days, "weeks"))).status).toBe(200);
    expect((await call(emails(1, "later"))).status).toBe(429);
    expect(await call(emails(16, "never"))).toMatchObject({
      status: 400,
      body: {
        on: "mas destinatarios de los que caben en los dias por venir (14), nunca se aceptara: 1 por dia (instancia)",
      },
    });
    expect(await submit("info", ...emails(16, "never"))).toMatch(/^550 5\.5\.3 .* more than fit into 14 days/);
  });
});

/** A campaign of type normal whose recipients, contacts that begin so, are noted and not queued yet. @returns its numid */
async function addGathering(eeid: string, prefix: string): Promise<number> {
  const numidOf = (await stack.call("POST", "/campania/", { tipo: "normal", nombre: prefix })).body.numid;
  await db("batches").insert({
    eeid,
    instance_id: stack.instanceId,
    campaign_numid: numidOf,
    creator: "c",
    gathering: true,
  });
  const template = { from: { name: "", address: `info@${TEST_DOMAIN}` }, subject: "x", html: "x", unsubscribe: false };
  const [message] = await db("messages").insert(
    {
      ...{ instance_id: stack.instanceId, eeid, campaign_numid: numidOf, sender_domain: TEST_DOMAIN },
      ...{ template: JSON.stringify(template), content_octets: 1 },
    },
    ["id"],
  );
  await db("campaign_sends").insert({
    ...{ campaign_numid: numidOf, instance_id: stack.instanceId, sender: `Info@${TEST_DOMAIN}`, sender_name: "" },
    ...{ subject: "x", html: "x", groups: [], filters: [], state: "gathering", creator: "c", eeid },
    message_id: message.id,
  });
  await db.raw("insert into campaign_recipients select ?, id, instance_id from contacts where email like ?", [
    numidOf,
    `${prefix}-%`,
  ]);
  return numidOf;
}

describe("a campaign of type normal", () => {
  const sendOf = (numidOf: number) => db("campaign_sends").where({ campaign_numid: numidOf }).first();

  it("is charged as its portions are queued, and waits for room", async () => {
    expect((await call(emails(30, "group"))).body.sent).toBe(30);
    await db("partitions").delete();
    await setLimit({ scope: "campaign", perHour: 12 });
    const numidOf = await addGathering("00000000-0000-4000-8000-0000000000aa", "group");
    expect(await gatherPortion(db, eachThrown())).toBe(12);
    expect(await gatherPortion(db, eachThrown())).toBe(0);
    const { waits_until, state } = await sendOf(numidOf);
    const [hour] = await countedHours(`campaign ${numidOf}`);
    expect({ state, used: Number(hour.used) }).toEqual({ state: "gathering", used: 12 });
    expect(waits_until.getTime()).toBe(hour.starts_at.getTime() + 3_600_000);
    expect(await gatherPortion(db, eachThrown())).toBeUndefined();
    // More room, and it goes on at once.
    await setLimit({ scope: "campaign", perHour: 100 });
    expect(await gatherPortion(db, eachThrown())).toBe(18);
    expect(await sendOf(numidOf)).toMatchObject({ state: "sending", waits_until: null });
    expect(Number((await countedHours(`campaign ${numidOf}`))[0].used)).toBe(30);
  });

  it("is through when its last recipients have used up the hour, or it has none", async () => {
    expect((await call(emails(12, "exactly"))).body.sent).toBe(12);
    await db("partitions").delete();
    await setLimit({ perHour: 12 });
    const exact = await addGathering("00000000-0000-4000-8000-0000000000ab", "exactly");
    expect(await gatherPortion(db, eachThrown())).toBe(12);
    const nobody = await addGathering("00000000-0000-4000-8000-0000000000ac", "nobody");
    expect([await gatherPortion(db, eachThrown()), await gatherPortion(db, eachThrown())]).toEqual([0, 0]);
    for (const numidOf of [exact, nobody]) expect(await sendOf(numidOf)).toMatchObject({ state: "sending" });
    expect(await db("batches").where({ gathering: true })).toEqual([]);
    expect(await gatherPortion(db, eachThrown())).toBeUndefined();
  });
});

it("a new instance may send little a day at first, once its ramp has begun", async () => {
  await setRamp(db, stack.instanceId, new Date());
  expect((await call(emails(501, "ramp"))).body.on).toBe(
    "mas destinatarios que el limite de envios: 500 por dia (instancia)",
  );
  await setRamp(db, stack.instanceId, new Date(Date.now() - 2 * 86_400_000));
  expect((await call(emails(501, "ramp"))).status).toBe(200);
  expect(await readSendingOverview(db, stack.instanceId, new Date())).toMatchObject({
    limits: [{ scope: "ramp", per_day: 1_000, used_day: 501 }],
  });
  await setRamp(db, stack.instanceId, null);
  expect((await call(emails(501, "ramp"))).status).toBe(200);
});

it("what goes for everybody is shown as such, but for scopes of which the instance has limits of its own", async () => {
  await setLimit({ perDay: 5 });
  const everybody = ["instance", "campaign"].map((scope) =>
    limit({ scope: scope as SendingLimit["scope"], perDay: 9 }),
  );
  const policy = { ...sendingPolicy, default: everybody };
  expect((await readSendingOverview(db, stack.instanceId, new Date(), policy)).limits).toMatchObject([
    { scope: "instance", per_day: 5, default: false },
    { scope: "campaign", per_day: 9, default: true },
  ]);
});
