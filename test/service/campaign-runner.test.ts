import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import type { ContentVerdict } from "../../services/core/mail/guard/content.ts";
import { ok } from "../../services/core/result.ts";
import { sentence } from "../../services/core/sentences.ts";
import { CampaignRunner } from "../../services/delivery/campaign-runner.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import {
  campaignTemplate,
  completeCancellation,
  pauseCampaign,
  requestCancellation,
  resumeCampaign,
} from "../../services/operations/mail/campaign-control.ts";
import { beginCampaign, gatherPortion } from "../../services/operations/mail/campaign-start.ts";
import { ContentScanner } from "../../services/operations/mail/content-scan.ts";
import { endHeldContent, type HeldContentEnd } from "../../services/operations/mail/held-content.ts";
import { recordOutcomes } from "../../services/operations/mail/outcomes.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { guardPolicy } from "../../services/platform/config/guard-policy.ts";
import { makeResolver } from "../../services/platform/lookups/resolver.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { Transaction } from "../../services/platform/postgres/db.ts";
import { claimDueCampaign, settleHeld, withdrawCancelled } from "../../services/store/mail/campaigns/campaign-runs.ts";
import {
  findCampaignSend,
  saveCampaignMessage,
  scheduleCampaign,
  setPaused,
} from "../../services/store/mail/campaigns/campaign-sends.ts";
import { addCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { addFilter } from "../../services/store/mail/contacts/filters.ts";
import { addGroups } from "../../services/store/mail/contacts/groups.ts";
import { listHeldContent } from "../../services/store/mail/guard/content-verdicts.ts";
import { removeGlobal, setGlobal } from "../../services/store/mail/instances/globals.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { leasePartitions } from "../../services/store/mail/queue/lease-partitions.ts";
import { beginWork } from "../../services/store/mail/queue/mail-work.ts";
import {
  extendLeases,
  loadDueDeliveries,
  lockPartitions,
  releasePartitions,
  wakePartitions,
} from "../../services/store/mail/queue/queue-leases.ts";
import {
  acknowledgeStops,
  findStops,
  isQuiet,
  markHeld,
  stopHeld,
} from "../../services/store/mail/queue/queue-stops.ts";
import { findBatch, readBatchProgress, setBatchCancelled } from "../../services/store/mail/sends/batches.ts";
import { accepted } from "../support/accepted.ts";
import { attemptFacts } from "../support/attempts.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { eachThrown } from "../support/each-thrown.ts";
import { addTestInstance } from "../support/instances.ts";
import { listWaiting, queuedDeliveries } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";

const PAUSED = sentence("paused-by", { login: "ana" });

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
const DOMAIN = "sender.example.org";
const CONTACTS = 12_000;
/** What is waited for comes, however busy the machine. */
const PATIENCE_MS = 240_000;

let database: TestDatabase;
let instanceId: number;

beforeAll(async () => {
  database = await createTestDatabase(20);
  const { db } = database;
  await addTestInstance(db, KEY_RING, {
    name: "test",
    host: "m.test",
    key: "key-of-test",
    archive: false,
    domains: [DOMAIN],
  });
  instanceId = (await findInstanceByName(db, "test"))!.id;
  await db.raw(
    `with added as (
       insert into contacts (instance_id, email, email_key, first_name)
       select ?, e, e, 'N' || n from (select n, 'c' || n || '@d' || n % 11 || '.example.net' as e
         from generate_series(1, ${CONTACTS}) as n) as given returning id, instance_id
     ), base as (insert into groups (instance_id, name) values (?, 'all') returning id)
     insert into contact_groups (instance_id, contact_id, group_id) select instance_id, added.id, base.id from added, base`,
    [instanceId, instanceId],
  );
  await db.raw("insert into groups (instance_id, name) values (?, 'nobody')", [instanceId]);
});
afterAll(() => database.drop());

function makeRunner(failures: Observation[] = []): Promise<CampaignRunner> {
  const config = loadConfig({ PALOMAR_FETCH_ALLOW: "127.0.0.0/8" });
  if (!config.ok) throw new Error(config.error.join());
  return makeResolver(null).then(
    (resolver) =>
      new CampaignRunner({
        db: database.db,
        clock: systemClock,
        observe: (observation) => {
          if (observation.level === "error") failures.push(observation);
        },
        fetch: { config: config.value, resolver },
        bounceSpike: { leastTried: 100, hardBouncePercent: 10 },
        content: new ContentScanner(null, guardPolicy.content, () => {}),
      }),
  );
}

async function addSend(
  changes: { groups?: string[]; filters?: number[]; html?: string; url?: string; of?: number } = {},
): Promise<number> {
  const { db } = database;
  const { of = instanceId, url } = changes;
  const { numid } = await addCampaign(db, KEY_RING, {
    instanceId: of,
    type: "normal",
    name: "all",
    sender: "",
    senderName: "",
    subject: "",
    subjectUri: "",
    replyTo: "",
    url: "",
    charset: "",
    unsubscribe: null,
  });
  const body = url === undefined ? { html: changes.html ?? "<p>XYZNOMBREXYZ</p>" } : { url };
  const message = { sender: `news@${DOMAIN}`, senderName: "", subject: "Hi", body };
  const audience = { groups: changes.groups ?? ["all"], filters: changes.filters ?? [] };
  await saveCampaignMessage(db, { instanceId: of, numid }, { ...message, ...audience }, { login: "ana" });
  return numid;
}

const sendOf = (numid: number) => findCampaignSend(database.db, instanceId, numid);
const until = (numid: number, state: string) =>
  eventually(
    () => sendOf(numid),
    (send) => send?.state === state,
    PATIENCE_MS,
  );
const untilPaused = async (numid: number) =>
  (await eventually(
    () => sendOf(numid),
    (send) => send?.paused != null,
    PATIENCE_MS,
  ))!;

describe("gathering a campaign's recipients", () => {
  test("several nodes, and connections that break all the time: everybody once, and started once", async () => {
    const { db } = database;
    const runners = await Promise.all([makeRunner(), makeRunner(), makeRunner()]);
    for (const runner of runners) runner.start();
    const numid = await addSend();
    await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
    for (let broken = 0; broken < 6; broken += 1) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      await db
        .raw(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'`,
        )
        .catch(() => {});
    }
    // Who lost his connection after he had claimed the start keeps the others from it for a minute: let it be over.
    await db("campaign_sends").where({ campaign_numid: numid }).update({ claimed_until: null });
    const send = await until(numid, "sending");
    await Promise.all(runners.map((runner) => runner.stop()));
    expect(await db("batches").where({ campaign_numid: numid }).count()).toEqual([{ count: 1 }]);
    const [row] = await queuedDeliveries(db)
      .where({ eeid: send!.eeid })
      .select(db.raw("count(*)::int as all"), db.raw("count(distinct contact_id)::int as different"));
    expect(row).toEqual({ all: CONTACTS, different: CONTACTS });
    expect(await db("events").where({ eeid: send!.eeid }).count()).toEqual([{ count: CONTACTS }]);
    expect(await db("campaign_recipients").count()).toEqual([{ count: 0 }]);
    expect(await readBatchProgress(db, instanceId, send!.eeid!)).toMatchObject({
      recipients: CONTACTS,
      queued: CONTACTS,
    });
  });

  test("the batch is not sent while recipients are still to come, and a contact of later is none of them", async () => {
    const { db } = database;
    const numid = await addSend();
    await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
    let due = (await claimDueCampaign(db))!;
    expect(await claimDueCampaign(db)).toBeUndefined();
    // Written anew while it is being prepared: what was prepared is not sent.
    await saveCampaignMessage(db, { instanceId, numid }, due, { login: "ana" });
    const outdated = { audience: [], senderDomain: DOMAIN, now: new Date() };
    const before = campaignTemplate(due, due, { subject: "before", html: "before" });
    expect(await beginCampaign(db, due, { ...outdated, template: before })).toEqual(ok(false));
    due = (await claimDueCampaign(db))!;
    const template = campaignTemplate(due, due, { subject: "Hi", html: "<p>XYZNOMBREXYZ</p>" });
    const start = { template, senderDomain: DOMAIN, audience: [{ condition: { group: "all" } }], now: new Date() };
    expect(await beginCampaign(db, due, start)).toEqual(ok(true));
    expect(await beginCampaign(db, due, start)).toEqual(ok(false));
    await db.raw(
      `with added as (insert into contacts (instance_id, email, email_key) values (?, 'late@example.net', 'late@example.net')
         returning id)
       insert into contact_groups (instance_id, contact_id, group_id)
         select instance_id, added.id, groups.id from added, groups where name = 'all'`,
      [instanceId],
    );
    const { eeid } = (await sendOf(numid))!;
    expect((await findBatch(db, instanceId, eeid!))!.state).toBe("queued");
    await gatherPortion(db, eachThrown());
    await db("partitions").where({ eeid }).update({ state: "finished", taken_at: db.fn.now() });
    expect((await findBatch(db, instanceId, eeid!))!.state).toBe("sending");
    while ((await gatherPortion(db, eachThrown())) !== undefined) {}
    await db("partitions").where({ eeid }).update({ state: "finished" });
    const batch = await findBatch(db, instanceId, eeid!);
    expect(batch).toMatchObject({ state: "sent", recipients: CONTACTS });
    await db("contacts").where({ email: "late@example.net" }).delete();
  });

  test("a campaign has the global variables of its start, once", async () => {
    const { db } = database;
    await setGlobal(db, instanceId, { name: "SHOP", value: "Corner" });
    const numid = await addSend({ html: "<p>XYZSHOPXYZ</p>" });
    await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
    const runner = await makeRunner();
    runner.start();
    const { eeid } = (await until(numid, "sending"))!;
    await runner.stop();
    await removeGlobal(db, instanceId, "SHOP");
    const { template } = await db("messages").where({ eeid }).first("template");
    expect(template.globals).toEqual({ SHOP: "Corner" });
    const queued = db("deliveries").whereIn("partition_id", db("partitions").where({ eeid }).select("id"));
    const values = await queued.distinct(db.raw("personal -> 'tags' as tags"));
    expect(values).toEqual([{ tags: {} }]);
    await db("partitions").where({ eeid }).update({ state: "finished" });
  });

  test("a campaign whose global variables take too much is paused", async () => {
    const { db } = database;
    // From before an instance's variables had a bound.
    await db("globals").insert({
      ...{ instance_id: instanceId, key: "HUGE", name: "HUGE", value: "x".repeat(16 * 2 ** 20 + 1) },
    });
    const numid = await addSend({ html: "<p>XYZHUGEXYZ</p>" });
    await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
    const runner = await makeRunner();
    runner.start();
    const { paused } = await untilPaused(numid);
    await runner.stop();
    expect(paused?.reason.message).toBe("variables globales: las del mensaje ocupan mas de 16 MiB");
    await removeGlobal(db, instanceId, "HUGE");
  });

  test("contacts with many custom fields are queued fewer at a time, and all of them", async () => {
    const { db } = database;
    const large = db("contacts").where({ instance_id: instanceId }).orderBy("id").limit(100).pluck("id");
    await db("contacts")
      .whereIn("id", await large)
      .update({ fields: JSON.stringify({ bio: "x".repeat(2 ** 18) }) });
    const numid = await beginSend("Hi");
    const portions: number[] = [];
    for (
      let count = await gatherPortion(db, eachThrown());
      count !== undefined;
      count = await gatherPortion(db, eachThrown())
    )
      portions.push(count);
    // 16 MiB of them at a time.
    expect(portions[0]).toBe(63);
    expect(portions.reduce((sum, count) => sum + count, 0)).toBe(CONTACTS);
    await db("contacts").where({ instance_id: instanceId }).update({ fields: "{}" });
    const { eeid } = (await sendOf(numid))!;
    await db("partitions").where({ eeid }).update({ state: "finished" });
  });

  test("a campaign that is written anew while it is being prepared is not paused for what failed before", async () => {
    const { db } = database;
    const numid = await addSend({ filters: [999] });
    const blocker = await db.transaction();
    await blocker.raw("lock table instance_domains in access exclusive mode");
    const runner = await makeRunner();
    runner.start();
    await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
    const claims = () => db("campaign_sends").where({ campaign_numid: numid }).pluck("claimed_until");
    await eventually(claims, ([claim]) => claim !== null);
    const send = (await sendOf(numid))!;
    await saveCampaignMessage(
      db,
      { instanceId, numid },
      { ...send, groups: ["nobody"], filters: [] },
      { login: "ana" },
    );
    await blocker.commit();
    const ended = await eventually(
      () => sendOf(numid),
      (after) => after?.state === "sent" || after?.paused != null,
      PATIENCE_MS,
    );
    await runner.stop();
    expect(ended).toMatchObject({ state: "sent", paused: null });
  });

  test("one that cannot go on keeps no other from it, and loses nobody once it can", async () => {
    const { db } = database;
    const begin = async (minutesAgo: number) => {
      const numid = await beginSend("<p>XYZNOMBREXYZ</p>");
      const touched = db.raw("now() - make_interval(mins => ?)", [minutesAgo]);
      await db("campaign_sends").where({ campaign_numid: numid }).update({ modified_at: touched });
      return { numid, messages: () => db("messages").where({ campaign_numid: numid }) };
    };
    const [broken, other] = [await begin(2), await begin(1)];
    const { template } = await broken.messages().first("template");
    await broken.messages().update({ template: "{}" });
    const seen: Observation[] = [];
    const runner = await makeRunner(seen);
    runner.start();
    await until(other.numid, "sending");
    expect(await sendOf(broken.numid)).toMatchObject({ state: "gathering" });
    // Again with each attempt, however many there were.
    const told = new Set(seen.map((one) => `${one.kind} ${"campaign" in one && one.campaign}`));
    expect([...told]).toEqual([`campaigns-not-run ${broken.numid}`]);
    await broken.messages().update({ template: JSON.stringify(template) });
    const { eeid } = (await until(broken.numid, "sending"))!;
    await runner.stop();
    expect(await queuedDeliveries(db).where({ eeid }).countDistinct("contact_id")).toEqual([{ count: CONTACTS }]);
    const eeids = db("campaign_sends").whereIn("campaign_numid", [broken.numid, other.numid]).select("eeid");
    await db("partitions").whereIn("eeid", eeids).update({ state: "finished" });
  });

  test("a campaign to nobody comes to its end", async () => {
    const runner = await makeRunner();
    runner.start();
    const numid = await addSend({ groups: ["nobody"] });
    await scheduleCampaign(database.db, { instanceId, numid }, { at: null, login: "ana" });
    expect(await until(numid, "sent")).toMatchObject({ recipients: 0 });
    await runner.stop();
  });
});

describe("campaigns of several instances that are due", () => {
  /** An instance with nobody to write to, and campaigns of it that are due, one after another. */
  async function addDue(name: string, urls: readonly (string | undefined)[]) {
    const { db } = database;
    const settings = { host: `${name}.test`, key: `key-of-${name}`, archive: false, domains: [DOMAIN] };
    await addTestInstance(db, KEY_RING, { name, ...settings });
    const { id } = (await findInstanceByName(db, name))!;
    await db("groups").insert({ instance_id: id, name: "nobody" });
    const numids: number[] = [];
    for (const url of urls) {
      const numid = await addSend({ groups: ["nobody"], of: id, ...(url && { url }) });
      await scheduleCampaign(db, { instanceId: id, numid }, { at: null, login: "ana" });
      numids.push(numid);
    }
    return { id, numids };
  }

  test("are claimed in turn, one of an instance whose start is under way not at all", async () => {
    const { db } = database;
    const many = await addDue("many", new Array(25));
    const [one, other] = [await addDue("one", [undefined]), await addDue("other", [undefined])];
    const order = [many.numids[0], one.numids[0], other.numids[0], many.numids[1], many.numids[2]];
    const claimed: (number | undefined)[] = [];
    for (let after = 0; claimed.length < order.length; ) {
      const due = await claimDueCampaign(db, { after, busy: [] });
      claimed.push(due?.campaignNumid);
      after = due?.instanceId ?? 0;
    }
    expect(claimed).toEqual(order);
    expect(await claimDueCampaign(db, { after: 0, busy: [many.id] })).toBeUndefined();
    for (const numid of [...many.numids, ...one.numids, ...other.numids]) {
      await requestCancellation(db, numid);
      await completeCancellation(db, numid);
    }
  });

  test("start, although a page of another's does not come", async () => {
    let asked = 0;
    const web = createServer(() => {
      asked += 1;
    });
    await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
    const page = `http://127.0.0.1:${(web.address() as AddressInfo).port}/`;
    const slow = await addDue("slow", new Array(5).fill(page));
    const quick = await addDue("quick", [undefined, undefined]);
    const runner = await makeRunner();
    runner.start();
    const { db } = database;
    await eventually(
      () => db("campaign_sends").where({ instance_id: quick.id }).pluck("state"),
      (states) => states.every((state) => state === "sent"),
      PATIENCE_MS,
    );
    // Ten seconds are waited for each.
    expect(asked).toBeLessThan(slow.numids.length);
    const stopped = runner.stop();
    web.closeAllConnections();
    await stopped;
    web.close();
    await db("campaign_sends").where({ instance_id: slow.id }).update({ state: "cancelled", withdrawn: true });
  });
});

test("a runner that stops waits for no page, and does not pause the campaign for it", async () => {
  let isAsked = false;
  const web = createServer(() => {
    isAsked = true;
  });
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  const numid = await addSend({ url: `http://127.0.0.1:${(web.address() as AddressInfo).port}/` });
  await scheduleCampaign(database.db, { instanceId, numid }, { at: null, login: "ana" });
  const runner = await makeRunner();
  runner.start();
  await eventually(
    async () => isAsked,
    (asked) => asked,
    PATIENCE_MS,
  );
  const since = performance.now();
  await runner.stop();
  // Ten seconds are waited for a page.
  expect(performance.now() - since).toBeLessThan(9_000);
  expect(await sendOf(numid)).toMatchObject({ state: "scheduled", paused: null });
  web.closeAllConnections();
  web.close();
  await requestCancellation(database.db, numid);
  await completeCancellation(database.db, numid);
});

/** A campaign whose recipients are all queued, and a runner no more. */
async function sendCampaign(): Promise<{ numid: number; eeid: string }> {
  const runner = await makeRunner();
  runner.start();
  const numid = await addSend();
  await scheduleCampaign(database.db, { instanceId, numid }, { at: null, login: "ana" });
  const { eeid } = (await until(numid, "sending"))!;
  await runner.stop();
  return { numid, eeid: eeid! };
}

/** A message to one. @param eeid of the batch that it joins @returns its batch's */
async function send(verdict: ContentVerdict, eeid?: string): Promise<string> {
  const address = validateAddress("joins@example.net", { allowSmtputf8: false });
  if (!address.ok) throw new Error(address.error.message);
  const template = { from: { name: "", address: `news@${DOMAIN}` }, subject: "Hi", html: "x", unsubscribe: false };
  const outcome = await database.db.transaction((transaction) =>
    acceptSend(transaction, {
      ...{ instanceId, campaignNumid: 1, creator: "api", senderDomain: DOMAIN, sender: `news@${DOMAIN}` },
      content: { kind: "template", template, attachments: [] },
      recipients: [{ address: address.value }],
      ...{ copies: [], archive: false, reuseEeid: eeid, verdict },
    }),
  );
  return accepted(outcome).eeid;
}

const endHeld = (eeid: string, how: HeldContentEnd) =>
  endHeldContent(database.db, eeid, how, {
    instance: { id: instanceId, name: "test" },
    reason: sentence("guard-by-hand", { reason: "looked at" }),
    ...{ by: "ana", address: "", audited: false, now: new Date() },
  });

/** Of a batch's partitions, each once. */
const statesOf = (eeid: string) => database.db("partitions").where({ eeid }).distinct("state").pluck("state");

/** A campaign to everybody that is being gathered. @returns its number */
async function beginSend(html: string): Promise<number> {
  const { db } = database;
  const numid = await addSend();
  await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
  const due = (await claimDueCampaign(db))!;
  const template = campaignTemplate(due, due, { subject: "Hi", html });
  const start = { template, senderDomain: DOMAIN, audience: [{ condition: { group: "all" } }], now: new Date() };
  expect(await beginCampaign(db, due, start)).toEqual(ok(true));
  return numid;
}

const waitingForLocks = (expected: number) =>
  eventually(
    () => listWaiting(database.db),
    (waiting) => waiting.length >= expected,
  );

describe("a spike of bounces", () => {
  /** A campaign with its first portion queued, and all of that bounced. */
  async function addBouncing(): Promise<{ numid: number; eeid: string }> {
    const { db } = database;
    const numid = await beginSend("<p>XYZNOMBREXYZ</p>");
    await gatherPortion(db, eachThrown());
    const { eeid } = (await sendOf(numid))!;
    await db("partitions")
      .where({ eeid })
      .update({ state: "finished", taken_at: db.fn.now(), hard_bounces: db.ref("recipients") });
    return { numid, eeid: eeid! };
  }

  test("pauses a campaign that is still being gathered", async () => {
    const { numid, eeid } = await addBouncing();
    const runner = await makeRunner();
    runner.start();
    const { state } = await untilPaused(numid);
    await runner.stop();
    expect(state).toBe("gathering");
    const { recipients } = await readBatchProgress(database.db, instanceId, eeid);
    expect(recipients).toBeLessThan(CONTACTS);
    await requestCancellation(database.db, numid);
    await completeCancellation(database.db, numid);
  });

  test("pauses a campaign while another one is being prepared", async () => {
    const { db } = database;
    const { numid } = await addBouncing();
    const slow = await addSend();
    await scheduleCampaign(db, { instanceId, numid: slow }, { at: null, login: "ana" });
    const blocker = await db.transaction();
    await blocker.raw("lock table instance_domains in access exclusive mode");
    const runner = await makeRunner();
    runner.start();
    try {
      await untilPaused(numid);
      expect((await sendOf(slow))!.state).toBe("scheduled");
    } finally {
      await blocker.commit();
      await runner.stop();
    }
    for (const one of [numid, slow]) {
      await requestCancellation(db, one);
      await completeCancellation(db, one);
    }
  });
});

describe("what is in a batch that waits for somebody to look at it", () => {
  const isHeld = async (eeid: string) => (await findBatch(database.db, instanceId, eeid))!.held;
  const listHeld = async () => (await listHeldContent(database.db, instanceId, 10)).map(({ eeid }) => eeid);

  test("does not leave as a campaign that it joined is resumed, nor ends its leaving the campaign's pause", async () => {
    const { db } = database;
    const { numid, eeid } = await sendCampaign();
    await send({ action: "hold" }, eeid);
    await pauseCampaign(db, numid, PAUSED);
    expect(await resumeCampaign(db, numid, { tried: 0, bounced: 0 })).toBe(true);
    expect(await isHeld(eeid)).toBe(true);
    expect(await statesOf(eeid)).toEqual(["held"]);
    expect(await listHeld()).toEqual([eeid]);

    await pauseCampaign(db, numid, PAUSED);
    expect(await endHeld(eeid, "release")).toBe(true);
    expect(await isHeld(eeid)).toBe(true);
    expect(await statesOf(eeid)).toEqual(["held"]);
    await resumeCampaign(db, numid, { tried: 0, bounced: 0 });
    expect(await isHeld(eeid)).toBe(false);
    expect(await statesOf(eeid)).toEqual(["ready"]);

    await send({ action: "hold" }, eeid);
    await requestCancellation(db, numid);
    expect(await endHeld(eeid, "release")).toBe(true);
    expect(await isHeld(eeid)).toBe(true);
    await completeCancellation(db, numid);
  });

  test("waits whatever joins it, until it is looked at", async () => {
    const eeid = await send({ action: "hold", scan: { score: 12, rejected: false, symbols: { SPAM: 12 } } });
    await send({ action: "accept", scan: { score: 0, rejected: false, symbols: {} } }, eeid);
    expect(await listHeldContent(database.db, instanceId, 10)).toMatchObject([{ eeid, score: 12, recipients: 2 }]);
    expect(await endHeld(eeid, "release")).toBe(true);
    expect(await isHeld(eeid)).toBe(false);
    await send({ action: "hold" }, eeid);
    expect(await isHeld(eeid)).toBe(true);
    expect(await listHeld()).toEqual([eeid]);
    expect(await endHeld(eeid, "discard")).toBe(true);
  });

  test("a campaign that is paused while what joined it is let go stays paused", async () => {
    const { db } = database;
    const { numid, eeid } = await sendCampaign();
    await send({ action: "hold" }, eeid);
    const pausing = await db.transaction();
    await setPaused(pausing, numid, PAUSED);
    await markHeld(pausing, { instanceId, eeid });
    const released = endHeld(eeid, "release");
    await waitingForLocks(1).finally(() => pausing.commit());
    expect(await released).toBe(true);
    expect(await isHeld(eeid)).toBe(true);
    await requestCancellation(db, numid);
    await completeCancellation(db, numid);
  });
});

describe("stopping", () => {
  const worker = randomUUID();
  const lease = async (limit = 1) => {
    const [result] = await leasePartitions(database.db, {
      workerId: worker,
      asks: [{ instanceId, share: limit, queues: 100, after: "", isNew: false, goesAhead: true, aheadAfter: "" }],
      leaseSeconds: 30,
      now: new Date().toISOString(),
      ...{ suspended: [], end: "", slots: new Map(), unfinished: [] },
      slotsPerQueue: limit,
    });
    return result!;
  };
  const release = (transaction: Transaction, partitionId: number, now: string) =>
    releasePartitions(transaction, worker, [{ instanceId, partitionId, putOffSeconds: 0 }], now);
  const giveBack = (partitionId: number) =>
    database.db.transaction(async (transaction) =>
      release(transaction, partitionId, await beginWork(transaction, [instanceId])),
    );

  test("a cancellation waits for the worker's word, and what is on the wire is counted", async () => {
    const { db } = database;
    await db("partitions").update({ state: "finished" });
    const { numid, eeid } = await sendCampaign();
    const { partitions } = await lease();
    const due = await loadDueDeliveries(db, partitions);
    expect(due.length).toBeGreaterThan(10);

    expect(await requestCancellation(db, numid)).toBe(true);
    expect(await completeCancellation(db, numid)).toBe(false);
    expect(await findStops(db, worker, [instanceId], [])).toEqual([{ instanceId, id: partitions[0]!.id }]);
    expect((await findBatch(db, instanceId, eeid))!.state).toBe("sending");
    await acknowledgeStops(db, worker, partitions);
    expect(await isQuiet(db, { instanceId, eeid })).toBe(true);
    expect(await completeCancellation(db, numid)).toBe(true);
    expect((await findBatch(db, instanceId, eeid))!.state).toBe("cancelled");

    // The message that was on the wire.
    await db("deliveries").where({ id: due[0]!.id, state: "queued" }).update({ state: "delivered" });
    await giveBack(partitions[0]!.id);
    await withdrawCancelled(db, eachThrown()); // as the runner does every second
    expect(await readBatchProgress(db, instanceId, eeid)).toMatchObject({
      recipients: CONTACTS,
      delivered: 1,
      queued: 0,
      cancelled: CONTACTS - 1,
    });
    expect(await findBatch(db, instanceId, eeid)).toMatchObject({ partitionsFinished: expect.any(Number) });
    expect((await lease()).partitions).toEqual([]);
  });

  test("a partition that is given back while its batch is paused is held", async () => {
    const { db } = database;
    const { numid, eeid } = await sendCampaign();
    const { partitions } = await lease();
    await pauseCampaign(db, numid, PAUSED);
    expect(await loadDueDeliveries(db, partitions)).toEqual([]);
    await giveBack(partitions[0]!.id);
    expect(await db("partitions").where({ eeid }).distinct("state")).toEqual([{ state: "held" }]);
    expect((await lease()).partitions).toEqual([]);
    await resumeCampaign(db, numid, { tried: 0, bounced: 0 });
    expect(await db("partitions").where({ eeid }).distinct("state")).toEqual([{ state: "ready" }]);
    expect((await lease()).partitions).toHaveLength(1);
  });

  test("a partition that is being changed while its campaign is resumed goes on as well", async () => {
    const { db } = database;
    const { numid, eeid } = await sendCampaign();
    await pauseCampaign(db, numid, PAUSED);
    const { id } = await db("partitions").where({ eeid }).first("id");
    // As a report does that a message of it has bounced.
    await db.transaction(async (report) => {
      await lockPartitions(report, [{ instanceId, id }]);
      await resumeCampaign(db, numid, { tried: 0, bounced: 0 });
    });
    expect(await db("partitions").where({ eeid, state: "held" }).pluck("id")).toEqual([id]);
    await settleHeld(db, eachThrown());
    expect(await db("partitions").where({ eeid, state: "held" })).toEqual([]);
    await pauseCampaign(db, numid, PAUSED);
    await settleHeld(db, eachThrown());
    expect(await db("partitions").where({ eeid }).whereNot({ state: "held" })).toEqual([]);
    await resumeCampaign(db, numid, { tried: 0, bounced: 0 });
  });

  test("what a worker has of a batch that is taken back for its content is withdrawn when it gives that back", async () => {
    const { db } = database;
    const ready = await db("partitions").where({ state: "ready" }).pluck("id");
    await db("partitions").whereIn("id", ready).update({ state: "finished" });
    const eeid = await send({ action: "accept" });
    const {
      partitions: [partition],
    } = await lease();
    await send({ action: "hold" }, eeid);
    await endHeld(eeid, "discard");
    await giveBack(partition!.id);
    await settleHeld(db, eachThrown());
    expect(await statesOf(eeid)).toEqual(["finished"]);
    expect(await readBatchProgress(db, instanceId, eeid)).toMatchObject({ queued: 0, cancelled: 2 });
    await db("partitions").whereIn("id", ready).update({ state: "ready" });
  });

  test("what whoever took a batch back had not come to withdraw is withdrawn", async () => {
    const { db } = database;
    const eeid = await send({ action: "hold" });
    await stopHeld(db, { instanceId, eeid });
    await setBatchCancelled(db, instanceId, eeid);
    await settleHeld(db, eachThrown());
    expect(await statesOf(eeid)).toEqual(["finished"]);
  });

  test("what a worker that is gone still held is taken back, and counted", async () => {
    const { db } = database;
    const {
      partitions: [partition],
    } = await lease();
    const [held] = await db("partitions").where({ id: partition!.id });
    await db("partitions")
      .where({ state: "leased" })
      .update({ lease_until: db.raw("now()") });
    const {
      abandoned: [gone, ...others],
    } = await wakePartitions(db, [instanceId], 1_000);
    expect(others).toEqual([]);
    expect(gone).toMatchObject({ workerId: worker });
    expect(gone!.partitions).toBeGreaterThanOrEqual(1);
    expect(gone!.recipients).toBeGreaterThanOrEqual(held.recipients);
    expect(await wakePartitions(db, [instanceId], 1_000)).toEqual({ woken: [], abandoned: [] });
    expect(await db("partitions").where({ id: partition!.id }).first("state")).toEqual({ state: "ready" });
  });

  test("outcomes are stored while the leases are prolonged, whichever partitions both change", async () => {
    const { db } = database;
    const { partitions } = await lease(2);
    const [low, high] = partitions.map(({ id }) => id).sort((a, b) => a - b) as [number, number];
    const [refused] = await loadDueDeliveries(db, [{ instanceId, id: high }]);
    const blocker = await db.transaction();
    await blocker("partitions").where({ instance_id: instanceId, id: low }).forUpdate();
    const prolonged = extendLeases(db, worker, 30, [
      { instanceId, id: high },
      { instanceId, id: low },
    ]);
    await waitingForLocks(1);
    const stored = db.transaction(async (transaction) => {
      const outcome = {
        instanceId,
        deliveryId: refused!.id,
        recipient: refused!.recipient,
        state: "refused" as const,
        attempts: 1,
        reply: "550 5.1.1 no",
        attempt: attemptFacts({ code: 550, status: "5.1.1" }),
      };
      const now = await beginWork(transaction, [instanceId]);
      await recordOutcomes(transaction, { now, alsoChanged: [{ instanceId, id: low }] }, [outcome], {
        hardBouncesToInvalidate: 2,
      });
      await release(transaction, low, now);
    });
    await waitingForLocks(2);
    await blocker.commit();
    expect((await prolonged).toSorted((a, b) => a - b)).toEqual([low, high]);
    await stored;
    expect(await db("partitions").where({ id: high }).first("refused")).toEqual({ refused: 1 });
    expect(await db("partitions").where({ id: low }).first("lease_owner")).toEqual({ lease_owner: null });
  });
});

describe("an audience of which a part is gone", () => {
  test("a campaign waits for somebody to look at it, and goes on when the group is there again", async () => {
    const { db } = database;
    const but = Number(await addFilter(db, instanceId, { name: "but", condition: { not: { group: "removed" } } }));
    const sends = [await addSend({ groups: ["removed"] }), await addSend({ groups: [], filters: [but!] })];
    const runner = await makeRunner();
    runner.start();
    for (const numid of sends) await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
    const reasons = [
      sentence("group-gone", { group: "removed" }),
      sentence("filter-group-gone", { filter: "but", group: "removed" }),
    ];
    for (const [index, numid] of sends.entries()) {
      const paused = await eventually(
        () => sendOf(numid),
        (send) => send?.paused != null,
        PATIENCE_MS,
      );
      expect(paused).toMatchObject({ eeid: null, paused: { reason: reasons[index] } });
    }
    await addGroups(db, instanceId, ["removed"]);
    await resumeCampaign(db, sends[1]!, { tried: 0, bounced: 0 });
    await until(sends[1]!, "sending");
    await runner.stop();
  });
});
