import pg from "pg";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { storeTouches } from "../../services/operations/mail/tracking-events.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import { authenticateCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { foldEventCounts } from "../../services/store/mail/events/event-counts.ts";
import { listContactEvents, readEventPage } from "../../services/store/mail/events/event-pages.ts";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { findMessagesByTerms } from "../../services/store/mail/explorer/look-ups.ts";
import { listHeldContent } from "../../services/store/mail/guard/content-verdicts.ts";
import { readRefusals } from "../../services/store/mail/inbound/wordings.ts";
import { listInstances } from "../../services/store/mail/instances/instances.ts";
import { MachineAway, setAway } from "../../services/store/mail/machines.ts";
import { purgeReportCounts, putOffReports } from "../../services/store/mail/queue/delivery-reports.ts";
import { putOffWork } from "../../services/store/mail/queue/mail-work.ts";
import { listDestinationQueues } from "../../services/store/mail/queue/queue-destinations.ts";
import { extendLeases, wakePartitions } from "../../services/store/mail/queue/queue-leases.ts";
import { tidyFeeds } from "../../services/store/mail/tracking/event-feed.ts";
import { leaseWebhook, removeOldWebhookBatches, removeWebhook } from "../../services/store/mail/tracking/webhooks.ts";
import { listUnopened } from "../../services/store/sealed-columns.ts";
import { countHeldInstances, readStatus } from "../../services/store/status.ts";
import { nodeOf } from "../support/citus-nodes.ts";
import {
  accept,
  addSender,
  database,
  eventually,
  instanceId,
  makeWorker,
  routes,
  run,
  setUpDelivery,
  sink,
} from "../support/delivery.ts";

/**
 * What is done for every message goes to one machine of a Citus: each statement has one task, and none a part whose
 * result another part waits for. Needs PALOMAR_TEST_DATABASE_URL to name a coordinator with workers.
 */
const hasCitus = inject("citusWorkers").length > 0;
const why = hasCitus ? "" : " (needs PALOMAR_TEST_DATABASE_URL to name a coordinator of Citus)";
const VISITOR = { device: "", deviceSubtypeId: null, userAgent: "test", network: "192.0.2.0" };
const RULE = { machineSeconds: 0, allLinks: [], recall: () => VISITOR };

interface Asked {
  readonly text: string;
  readonly values: unknown[];
}

describe.skipIf(!hasCitus)(`Citus${why}`, () => {
  setUpDelivery();
  let asked: Asked[];

  beforeEach(async () => {
    await prepareEventMonths(database.db, new Date());
    asked = [];
    const query = pg.Client.prototype.query as (...asked: unknown[]) => unknown;
    vi.spyOn(pg.Client.prototype, "query").mockImplementation(function (this: pg.Client, ...given: unknown[]) {
      const { text, values = [] } = given[0] as Partial<Asked>;
      if (text !== undefined && EXPLAINED.test(text)) asked.push({ text: text.trim().replace(/\s+/g, " "), values });
      return query.apply(this, given) as never;
    });
  });
  afterEach(() => void vi.restoreAllMocks());

  /** Those of the statements that ask several shards, or have one part wait for another, or cannot be explained for that. */
  async function wide(statements: readonly Asked[], sign = WIDE): Promise<string[]> {
    vi.restoreAllMocks();
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    try {
      await client.query("set citus.explain_all_tasks to on");
      const found = new Set<string>();
      for (const { text, values } of statements) {
        const explained = await client.query({ text: `explain ${text}`, values, rowMode: "array" }).then(
          ({ rows }) => rows.map(([line]) => String(line)),
          (error: Error) => [`Distributed Subplan: ${error.message}`],
        );
        if (explained.some((line) => sign.test(line))) found.add(text);
      }
      return [...found];
    } finally {
      await client.end();
    }
  }

  const saying = (...parts: readonly string[]) => asked.filter(({ text }) => parts.some((part) => text.includes(part)));

  test("queueing asks one shard", async () => {
    await accept(["a@d1.example.net", "b@d2.example.net"]);
    const queueing = saying(
      "insert into messages",
      "insert into partitions",
      "insert into deliveries",
      "mail_work",
      "insert into event",
    );
    expect(queueing.length).toBeGreaterThanOrEqual(4);
    expect(await wide(queueing)).toEqual([]);
  });

  test("leasing, loading, storing what became of it and giving back ask one shard", async () => {
    const far = await sink();
    await accept(["a@d1.example.net", "b@d1.example.net", "gone@d1.example.net"]);
    const { db } = database;
    await db("contacts").where({ email: "gone@d1.example.net" }).update({ invalid: true });
    await db("batches").update({ created_at: new Date(Date.now() - 60_000) }); // it waited, and is judged once more
    asked.length = 0;
    const worker = run(makeWorker(routes({ "d1.example.net": far.port })));
    await eventually(
      async () => far.messages.length === 2 && asked.some(({ text }) => text.includes("with withdrawn as")),
      (isDone) => isDone,
    );
    await worker.stop();
    // Ways and results of attempts have ids that are found once and remembered.
    const own = asked.filter(({ text }) => !/insert into attempt_(?:paths|results)/.test(text));
    const parts = [
      "with asked as",
      "as has_waited from unnest",
      "update deliveries",
      "outcome_deltas",
      "delivery_attempts",
    ];
    for (const part of [...parts, "update partitions", "campaign_unsubscriptions", "with withdrawn as"]) {
      expect(
        own.some(({ text }) => text.includes(part)),
        part,
      ).toBe(true);
    }
    expect(await wide(own)).toEqual([]);
    const stored = saying("into delivery_attempts", "into outcome_deltas");
    expect(stored.length).toBeGreaterThanOrEqual(2);
    expect(await wide(stored, COPIED)).toEqual([]);
  });

  test("prolonging leases, making ready what is due and putting looks off ask one shard", async () => {
    await accept(["a@d1.example.net"]);
    const [{ id }] = await database.db("partitions").select("id");
    asked.length = 0;
    await extendLeases(database.db, "00000000-0000-4000-8000-000000000001", 20, [{ instanceId, id }]);
    await wakePartitions(database.db, [instanceId], 10);
    await putOffWork(database.db, [instanceId]);
    expect(asked.length).toBeGreaterThanOrEqual(4);
    expect(await wide(asked)).toEqual([]);
  });

  test("pages of events, a contact's events, and logins of submission ask one shard", async () => {
    const { db } = database;
    const [campaign] = await db("campaigns").insert({ ...{ instance_id: instanceId, type: "normal", name: "c" } }, [
      "numid",
    ]);
    const { numid } = campaign;
    const [{ id }] = await db("contacts").insert(
      { instance_id: instanceId, email: "c@d.example.net", email_key: "c@d.example.net" },
      ["id"],
    );
    await recordEvents(db, [{ instanceId, at: new Date(), kind: "viewed", contactId: id, campaignNumid: numid }]);
    const { name } = await db("instances").where({ id: instanceId }).first("name");
    asked.length = 0;
    const until = new Date(Date.now() + 60_000);
    const period = { from: new Date(Date.now() - 60_000), until };
    const page = await readEventPage(db, instanceId, period, { skip: 0, take: 10 });
    expect(page.events).toMatchObject([{ email: "c@d.example.net", campaignName: "c" }]);
    expect(await listContactEvents(db, instanceId, id)).toHaveLength(1);
    for (const login of [name, "nobody"]) {
      expect(await authenticateCampaign(db, login, numid, Buffer.from("key"))).toBeUndefined();
    }
    expect(saying("from events", "from page", "from campaigns").length).toBeGreaterThanOrEqual(4);
    expect(await wide(asked)).toEqual([]);
  });

  test("removing a webhook, putting reports off and looking words up ask one shard", async () => {
    const { db } = database;
    await db("webhooks").insert({ instance_id: instanceId, name: "w", url: "https://example.org", secret_sealed: "s" });
    asked.length = 0;
    await removeWebhook(db, instanceId, "w");
    const request = { mailFrom: "sender@example.org" } as never;
    await db.transaction((transaction) =>
      putOffReports(transaction, { instanceId, request }, { seconds: 60, since: new Date(0) }),
    );
    await findMessagesByTerms(db, instanceId, ["12345"], 10);
    expect(saying("terms @>").length).toBe(1);
    expect(saying("delete from webhook_events", "with chosen as").length).toBe(2);
    expect(await wide(asked)).toEqual([]);
  });

  test("looks for something ask no machine that is away", async () => {
    const { db, url } = database;
    const away = await nodeOf(db, instanceId);
    for (let n = 0, here = true; here; n += 1)
      here = (await nodeOf(db, await addSender(`other${n}`, `o${n}.example.org`))).port === away.port;
    const client = await openListenConnection(url, "test");
    await setAway(db, client, [away]);
    await client.end();
    asked.length = 0;
    const keyRing = KeyRing.ofSecret("a secret for tests only");
    await leaseWebhook(db, keyRing, { workerId: "00000000-0000-4000-8000-000000000001", leaseSeconds: 1 });
    await removeOldWebhookBatches(db);
    await tidyFeeds(db);
    await purgeReportCounts(db);
    await foldEventCounts(db);
    await readStatus(db);
    await countHeldInstances(db);
    await listHeldContent(db, null, 10);
    await listUnopened(db, keyRing);
    await listDestinationQueues(db, 10);
    await readRefusals(db, 10);
    expect((await listInstances(db)).map(({ id }) => id).sort()).toEqual(
      await db("instances").orderBy("id").pluck("id"),
    );
    await expect(authenticateCampaign(db, "test", 1, Buffer.from("key"))).rejects.toThrow(MachineAway);
    expect(asked.length).toBeGreaterThan(15);
    expect(await wide(asked, new RegExp(`port=${away.port} `))).toEqual([]);
  });

  test("touches find their instance with one look-up, and store what follows on one shard", async () => {
    await accept(["a@d1.example.net"]);
    const [{ id: deliveryId }] = await database.db("deliveries").select("id");
    asked.length = 0;
    const opened = { kind: "open", deliveryId, atMs: Date.now(), visitor: VISITOR } as const;
    await database.db.transaction((transaction) => storeTouches(transaction, [opened], RULE));
    const [lookUp, ...rest] = asked;
    expect(lookUp!.text).toContain("from deliveries");
    expect(rest.length).toBeGreaterThanOrEqual(2);
    expect(await wide(rest)).toEqual([]);
  });
});

const EXPLAINED = /^\s*(?:select|with|insert|update|delete)\b/i;
/** The coordinator copies rows to where they belong, and commits that in two phases. */
const COPIED = /pull to coordinator/;
const WIDE = /Task Count: (?!1$)|Distributed Subplan/;
