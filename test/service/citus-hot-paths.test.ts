import pg from "pg";
import { afterEach, beforeEach, describe, expect, inject, test, vi } from "vitest";
import { storeTouches } from "../../services/operations/mail/tracking-events.ts";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { putOffWork } from "../../services/store/mail/queue/mail-work.ts";
import { extendLeases, wakePartitions } from "../../services/store/mail/queue/queue-leases.ts";
import {
  accept,
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
      async () => far.messages.length,
      (sent) => sent === 2,
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
