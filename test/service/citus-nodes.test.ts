import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, inject, test } from "vitest";
import { registerInstanceCommand } from "../../services/cli/commands/instance.ts";
import { describeMissingMachines } from "../../services/cli/missing-machines.ts";
import { hashApiKey } from "../../services/core/api-key.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { CampaignRunner } from "../../services/delivery/campaign-runner.ts";
import { ContentScanner } from "../../services/operations/mail/content-scan.ts";
import { watchMachines } from "../../services/operations/mail/machine-watch.ts";
import type { Touch } from "../../services/operations/mail/tracking-events.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { guardPolicy } from "../../services/platform/config/guard-policy.ts";
import { makeResolver } from "../../services/platform/lookups/resolver.ts";
import { type Db, openDb, openListenConnection, queryRows } from "../../services/platform/postgres/db.ts";
import { StatementsUnderWay } from "../../services/platform/postgres/statements-under-way.ts";
import { ensureAttemptWeeks } from "../../services/store/mail/attempts/attempt-weeks.ts";
import { saveCampaignMessage, scheduleCampaign } from "../../services/store/mail/campaigns/campaign-sends.ts";
import { addCampaign, authenticateCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { EVENT_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { MachineAway } from "../../services/store/mail/machines.ts";
import { addWebhook, leaseWebhook } from "../../services/store/mail/tracking/webhooks.ts";
import { readStatus } from "../../services/store/status.ts";
import { EventWriter } from "../../services/tracking/event-writer.ts";
import { Spool } from "../../services/tracking/spool.ts";
import { MortalNode, moveInstance, nodeOf } from "../support/citus-nodes.ts";
import { runCommand } from "../support/command.ts";
import {
  accept,
  addSender,
  database,
  eventually,
  failures,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  stops,
  untilSentBy,
} from "../support/delivery.ts";
import type { SmtpSink } from "../support/smtp-sink.ts";

/**
 * Mail while machines of a Citus come and go. An instance moves on any Citus with two workers; that a machine dies has to be
 * allowed, as nobody else may use the cluster meanwhile, and its servers have to run here.
 */
const nodes = inject("citusWorkers").length;
const canMove = nodes > 1;
const canDie = canMove && process.env.PALOMAR_TEST_CITUS_MAY_DIE === "1";
const needsCitus = "needs PALOMAR_TEST_DATABASE_URL to name a coordinator of Citus with two workers";
const whyNotMoved = canMove ? "" : ` (${needsCitus})`;
const whyNotKilled = canDie ? "" : ` (${needsCitus} on this machine, and PALOMAR_TEST_CITUS_MAY_DIE=1)`;

const KEY_RING = KeyRing.ofSecret("a secret for tests only");

/** Instances of one machine, and of another. */
let [here, there]: [number[], number[]] = [[], []];

async function addSenders(): Promise<void> {
  // A part that is made just then has Citus refuse to move anything.
  await prepareEventMonths(database.db, new Date());
  await ensureAttemptWeeks(database.db, [new Date()]);
  [here, there] = [[], []];
  let first: number | undefined;
  for (let n = 0; here.length < 2 || there.length < 2; n += 1) {
    const id = await addSender(`sender${n}`, `sender${n}.example.org`);
    const { port } = await nodeOf(database.db, id);
    first ??= port;
    (port === first ? here : there).push(id);
  }
}

/** Takes a message in about 20 ms, as far sides do. */
const unhurried = () =>
  sink({
    onRcptTo: (_address, _session, done) => {
      setTimeout(done, 20);
    },
  });

const acceptOf = (id: number, emails: readonly string[]) => accept(emails, "<p>Hi</p>", false, [], 1, id);

/** Everybody got it, and nobody twice. */
function expectEachOnce(emails: readonly string[], ...sinks: readonly SmtpSink[]): void {
  expect(recipientsOf(...sinks).sort()).toEqual([...emails].sort());
}

setUpDelivery();

describe.skipIf(!canMove)(`an instance that moves to another machine${whyNotMoved}`, () => {
  beforeEach(addSenders);

  test.each(["auto", "block_writes"] as const)(
    "while it sends (%s) sends all of it, and nothing twice",
    async (mode) => {
      const { db } = database;
      const far = await unhurried();
      const pass = routes({ "a.example.net": far.port });
      const [mover] = here;
      for (let worker = 0; worker < 2; worker += 1) run(makeWorker(pass));
      const emails: string[] = [];
      const send = async (id: number, count: number) => {
        const own = Array.from({ length: count }, () => `r${emails.length}-${crypto.randomUUID()}@a.example.net`);
        const eeid = await acceptOf(id, own);
        emails.push(...own);
        return [eeid, id] as const;
      };
      const sent = [];
      for (const id of [...here, ...there]) sent.push(await send(id, 200));
      await eventually(
        async () => far.messages.length,
        (count) => count > 20,
      );
      const before = await nodeOf(db, mover!);
      let moved = false;
      const moving = moveInstance(db, mover!, mode).finally(() => {
        moved = true;
      });
      while (!moved) sent.push(await send(mover!, 20));
      await moving;
      expect(await nodeOf(db, mover!)).not.toEqual(before);
      for (const [eeid, id] of sent) await untilSentBy(id, eeid);
      expectEachOnce(emails, far);
    },
  );
});

/** A worker's way to the database, as its service has it: a machine that does not answer is noticed. */
function openWatched(): Db {
  const statements = new StatementsUnderWay();
  const db = openDb(database.url, { connections: 10, name: "test", statements });
  const openConnection = () => openListenConnection(database.url, "test");
  const watch = watchMachines({ db, statements, openConnection, observe: (observation) => failures.push(observation) });
  stops.push(
    () => db.destroy(),
    () => watch.stop(),
  );
  return db;
}

/** A campaign of an instance to one contact, which is to start at once. */
async function scheduleCampaignOf(instanceId: number, email: string): Promise<number> {
  const { db } = database;
  const of = { instance_id: instanceId };
  const [contact] = await db("contacts")
    .insert({ ...of, email, email_key: email })
    .returning("id");
  const [group] = await db("groups")
    .insert({ ...of, name: "all" })
    .returning("id");
  await db("contact_groups").insert({ ...of, contact_id: contact.id, group_id: group.id });
  const unsaid = { sender: "", senderName: "", subject: "", subjectUri: "", replyTo: "", url: "", charset: "" };
  const campaign = { instanceId, type: "normal", name: "all", unsubscribe: null, ...unsaid } as const;
  const { numid } = await addCampaign(db, KEY_RING, campaign);
  const sender = `news@${await db("instance_domains")
    .where(of)
    .first("domain")
    .then((row) => row.domain)}`;
  const message = { sender, senderName: "", subject: "Hi", body: { html: "<p>Hi</p>" }, groups: ["all"], filters: [] };
  await saveCampaignMessage(db, { instanceId, numid }, message, { login: "ana" });
  await scheduleCampaign(db, { instanceId, numid }, { at: null, login: "ana" });
  return numid;
}

async function runCampaigns(db: Db): Promise<void> {
  const config = loadConfig({});
  if (!config.ok) throw new Error(config.error.join());
  const runner = new CampaignRunner({
    db,
    clock: systemClock,
    observe: (observation) => failures.push(observation),
    fetch: { config: config.value, resolver: await makeResolver(null) },
    bounceSpike: { leastTried: 100, hardBouncePercent: 10 },
    content: new ContentScanner(null, guardPolicy.content, () => {}),
  });
  runner.start();
  stops.push(() => runner.stop());
}

/** What recipients do is stored as by the tracking service. @returns tells it of an opening */
async function runTracking(db: Db): Promise<(deliveryId: number) => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-touches-"));
  const spool = await Spool.open<Touch>(folder);
  const rule = { machineSeconds: 0, allLinks: [], recall: () => ({ device: "", deviceSubtypeId: null }) };
  const writer = new EventWriter({ db, spool, rule, observe: (observation) => failures.push(observation) });
  writer.start();
  stops.push(async () => {
    await writer.stop();
    await spool.close();
    rmSync(folder, { recursive: true });
  });
  const visitor = { device: "", deviceSubtypeId: null, userAgent: "", network: "" };
  return async (deliveryId) => {
    await spool.append({ kind: "open", deliveryId, atMs: Date.now(), visitor });
    writer.wake();
  };
}

async function deliveryOf(instanceId: number): Promise<number> {
  return (await database.db("deliveries").where({ instance_id: instanceId }).first("id")).id;
}

/** Waits until an instance has so many openings. */
async function untilOpened(instanceId: number, openings: number): Promise<void> {
  const opened = { instance_id: instanceId, kind: EVENT_KINDS.viewed };
  await eventually(
    () => database.db("events").where(opened).pluck("id"),
    (ids) => ids.length === openings,
  );
}

describe.skipIf(!canDie)(`while a machine is away${whyNotKilled}`, () => {
  beforeEach(addSenders);

  test("others sign in, webhooks go on, and lists and commands say what waits", async () => {
    const { db, url } = database;
    const names = async (ids: readonly number[]) => db("instances").whereIn("id", ids).orderBy("name").pluck("name");
    const dead = await nodeOf(db, there[0]!);
    const all: number[] = await db("instances").pluck("id");
    const waiting: number[] = [];
    for (const id of all) if ((await nodeOf(db, id)).port === dead.port) waiting.push(id);
    const logins = [];
    for (const [id] of [here, there]) {
      const unsaid = { sender: "", senderName: "", subject: "", subjectUri: "", replyTo: "", url: "", charset: "" };
      const campaign = { instanceId: id!, type: "api", name: "c", unsubscribe: null, ...unsaid } as const;
      const { numid, apikey } = await addCampaign(db, KEY_RING, campaign);
      logins.push([(await names([id!]))[0], numid, hashApiKey(KEY_RING, "campaign", apikey!)] as const);
      const webhook = {
        name: "w",
        url: "https://example.org/",
        kinds: null,
        campaigns: null,
        condition: null,
        isFull: false,
      };
      await addWebhook(db, KEY_RING, id!, webhook);
      await db("webhook_batches").insert({
        instance_id: id,
        webhook: "w",
        body: "{}",
        events: 1,
        give_up_at: new Date(),
      });
    }
    const config = loadConfig({ DATABASE_URL: url, PALOMAR_SECRET: "0".repeat(48) });
    if (!config.ok) throw new Error(config.error.join());
    const node = await MortalNode.find(url, dead);
    node.kill();
    try {
      const asking = openDb(url, { connections: 4, name: "test" });
      stops.push(() => asking.destroy());
      const said = `1 of 2 machines is away: its instances wait: ${(await names(waiting)).join(", ")}`;
      expect(await describeMissingMachines(asking, config.value)).toBe(said);
      const command = { db: asking, keyRing: KEY_RING, config: config.value };
      const { lines } = await runCommand(registerInstanceCommand, command, ["instance", "list"]);
      expect(lines).toHaveLength(all.length);
      expect((await readStatus(asking)).held).toEqual([]);
      const [present, absent] = logins;
      expect(await authenticateCampaign(asking, ...present!)).toMatchObject({ instanceId: here[0] });
      expect(await authenticateCampaign(asking, "nobody", 1, Buffer.from("key"))).toBeUndefined();
      await expect(authenticateCampaign(asking, ...absent!)).rejects.toThrow(MachineAway);
      const lease = { workerId: "00000000-0000-4000-8000-000000000001", leaseSeconds: 60 };
      expect(await leaseWebhook(asking, KEY_RING, lease)).toMatchObject({ instanceId: here[0] });
      expect(await leaseWebhook(asking, KEY_RING, lease)).toBeUndefined();
    } finally {
      await node.restart();
    }
  });
});

describe.skipIf(!canDie).each(["dies", "hangs"])(`a machine that %s${whyNotKilled}`, (fate) => {
  beforeEach(addSenders);

  test("stops its instances only, loses nothing that was acknowledged, and goes on when it is back", async () => {
    const { db, url } = database;
    const far = await unhurried();
    const pass = routes({ "a.example.net": far.port });
    // They outlast its absence: what was sent and not noted when they end others would send again.
    const leaseSeconds = 300;
    for (let worker = 0; worker < 2; worker += 1) run(makeWorker(pass, { leaseSeconds }, [1], { db: openWatched() }));
    await runCampaigns(openWatched());
    const open = await runTracking(openWatched());
    const emails = new Map<number, string[]>();
    const batches: (readonly [string, number])[] = [];
    for (const id of [...here, ...there]) {
      const own = numbered(150, "a.example.net").map((email) => `i${id}-${email}`);
      batches.push([await acceptOf(id, own), id]);
      emails.set(id, own);
    }
    await eventually(
      async () => new Set(recipientsOf(far).map((email) => email.split("-")[0])).size,
      (instances) => instances === here.length + there.length,
    );
    const [ofHere, ofThere] = [await deliveryOf(here[0]!), await deliveryOf(there[0]!)];
    const node = await MortalNode.find(url, await nodeOf(db, there[0]!));
    if (fate === "dies") node.kill();
    else node.hang();
    const sinceMs = performance.now();
    try {
      // What is asked of it waits, or fails; others are accepted and sent meanwhile.
      for (const id of here) batches.push([await acceptOf(id, [`meanwhile${id}@a.example.net`]), id]);
      await scheduleCampaignOf(here[0]!, "campaign@a.example.net");
      for (const [eeid, id] of batches) if (here.includes(id)) await untilSentBy(id, eeid);
      await eventually(
        async () => recipientsOf(far),
        (got) => got.includes("campaign@a.example.net"),
      );
      process.stdout.write(`sent to the others ${Math.round(performance.now() - sinceMs)} ms after it ${fate}\n`);
      // One is away, and holds up nobody behind it.
      for (const delivery of [ofThere, ofHere, ofThere]) await open(delivery);
      await untilOpened(here[0]!, 1);
    } finally {
      if (fate === "dies") await node.restart();
      else node.goOn();
    }
    for (const [eeid, id] of batches) await untilSentBy(id, eeid);
    await untilOpened(there[0]!, 2);
    const expected = [...emails.values()].flat().concat(here.map((id) => `meanwhile${id}@a.example.net`));
    expected.push("campaign@a.example.net");
    expect([...new Set(recipientsOf(far))].sort()).toEqual(expected.sort());
    // A crash of the database is none of a worker: it knows what it has sent.
    expect(far.messages.length).toBe(expected.length);
    expect(failures.map(({ kind }) => kind)).toContain("machines-away");
    await eventually(
      () => queryRows(db, "select from pg_prepared_xacts where database = current_database()"),
      (prepared) => prepared.length === 0,
    );
  });
});
