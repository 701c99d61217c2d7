import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, inject, test } from "vitest";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { ensureAttemptWeeks } from "../../services/store/mail/attempts/attempt-weeks.ts";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { MortalNode, moveInstance, nodeOf } from "../support/citus-nodes.ts";
import {
  accept,
  addSender,
  database,
  eventually,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
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

/** What hangs holds up all until somebody ends it, as docs/scaling.md says. */
describe.skipIf(!canDie).each([
  ["dies", 0],
  ["hangs and is ended then", 5_000],
])(`a machine that %s${whyNotKilled}`, (_, hangsMs) => {
  beforeEach(addSenders);

  test("stops its instances only, loses nothing that was acknowledged, and goes on when it is back", async () => {
    const { db, url } = database;
    const far = await unhurried();
    const pass = routes({ "a.example.net": far.port });
    for (let worker = 0; worker < 2; worker += 1) run(makeWorker(pass));
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
    const node = await MortalNode.find(url, await nodeOf(db, there[0]!));
    if (hangsMs > 0) node.hang();
    await sleep(hangsMs);
    node.kill();
    try {
      const refused = await acceptOf(there[0]!, ["refused@a.example.net"]).catch((error) => error);
      expect(refused).toBeInstanceOf(Error);
      // Others are accepted and sent meanwhile.
      for (const id of here) batches.push([await acceptOf(id, [`meanwhile${id}@a.example.net`]), id]);
      for (const [eeid, id] of batches) if (here.includes(id)) await untilSentBy(id, eeid);
    } finally {
      await node.restart();
    }
    for (const [eeid, id] of batches) await untilSentBy(id, eeid);
    const expected = [...emails.values()].flat().concat(here.map((id) => `meanwhile${id}@a.example.net`));
    expect([...new Set(recipientsOf(far))].sort()).toEqual(expected.sort());
    // A crash of the database is none of a worker: it knows what it has sent.
    expect(far.messages.length).toBe(expected.length);
    expect(await queryRows(db, "select from pg_prepared_xacts where database = current_database()")).toEqual([]);
  });
});
