import { expect, test } from "vitest";
import { forgetLearnt, pinLimits } from "../../services/operations/mail/paces.ts";
import type { PaceKey } from "../../services/store/mail/pace/source-paces.ts";
import {
  accept,
  database,
  eventually,
  makeWorker,
  numbered,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";
import { changeTriggers } from "../support/spread-tables.ts";

setUpDelivery();

const SLOW = { id: 1, name: "slow", domains: ["slow.example.net"], mxDomains: [] };
const UNLIMITED = { connections: 9, messagesPerConnection: 100, messagesPerMinute: null };
const groups = (perMinute: number) => ({ default: UNLIMITED, slow: { ...UNLIMITED, messagesPerMinute: perMinute } });

/** Counts from now on how often partitions of a destination are leased. */
async function countLeases(): Promise<(destination: string) => Promise<number>> {
  const { db } = database;
  await db.raw("alter table partitions add column leases int not null default 0");
  await changeTriggers(
    db,
    `create function note_lease() returns trigger language plpgsql as
       $$ begin new.leases := old.leases + 1; return new; end $$`,
    `create trigger note_lease before update on partitions for each row
       when (new.state = 'leased' and old.state <> 'leased') execute function note_lease()`,
  );
  return async (destination) =>
    Number((await db("partitions").where({ destination }).sum({ leases: "leases" }))[0]!.leases);
}

test("a message waits for leave where it is: its partition is leased once, over one session", async () => {
  const far = await sink();
  const leases = await countLeases();
  const eeid = await accept(numbered(14, "slow.example.net"));
  const startedAtMs = performance.now();
  run(
    makeWorker(routes({ "slow.example.net": far.port }), { groups: groups(120) }, [1], {
      providers: [SLOW],
      paced: true,
    }),
  );
  await untilSent(eeid);
  // Two a second, and what is saved up in four seconds at most.
  expect(performance.now() - startedAtMs).toBeGreaterThan(2_500);
  expect(await leases("slow.example.net")).toBe(1);
  expect(far.sessions()).toBe(1);
});

test("who waits for leave holds up no other destination, and gives others of the provider their turn", async () => {
  const far = await sink();
  const slow = await accept(numbered(200, "slow.example.net"));
  const pass = routes({ "slow.example.net": far.port, "quick.example.net": far.port });
  const changes = { groups: groups(20), lanes: 1, waitingLanes: 1 };
  run(makeWorker(pass, changes, [1], { providers: [SLOW], paced: true }));
  await eventually(
    async () => far.messages.length,
    (count) => count > 0,
  );
  const quick = await accept(numbered(20, "quick.example.net"));
  await untilSent(quick);
  const states = await database.db("partitions").where({ eeid: slow }).pluck("state");
  expect(states.every((state) => state === "finished")).toBe(false);
});

test("where a provider says for how long, the partition goes back until then, and all others of it wait as well", async () => {
  let asked = 0;
  const far = await sink({
    onRcptTo: (_address, _session, done) => {
      asked += 1;
      done(Object.assign(new Error("4.7.28 too much mail, try again in 5 minutes"), { responseCode: 421 }));
    },
  });
  await accept(numbered(30, "slow.example.net"));
  run(makeWorker(routes({ "slow.example.net": far.port }), {}, [1], { providers: [SLOW], paced: true }));
  await eventually(
    () => database.db("source_paces").select(database.db.raw("(memory->>'waitsUntilMs')::float8 as until")),
    ([pace]) => pace !== undefined && pace.until > 0,
  );
  // What is tried now finds no leave, and comes back not much before the time that was said.
  await accept(numbered(30, "slow.example.net"));
  const due = await eventually(
    () =>
      database
        .db("partitions")
        .where({ state: "deferred" })
        .select(database.db.raw("extract(epoch from due_at - now())::float8 as seconds")),
    (rows) => rows.some(({ seconds }) => seconds > 200),
  );
  expect(due.every(({ seconds }) => seconds < 310)).toBe(true);
  expect(asked).toBeLessThan(30);
  expect(far.messages).toHaveLength(0);
});

test.each<[string, (key: PaceKey) => Promise<unknown>]>([
  ["forgetting what was learnt", (key) => forgetLearnt(database.db, key)],
  ["pinning the rate", (key) => pinLimits(database.db, key, { ratePerHour: 360_000 }, "test")],
])("%s frees what was put off, though workers still believe that it waits", async (_, act) => {
  let refuses = true;
  const far = await sink({
    onRcptTo: (_address, _session, done) =>
      done(
        refuses
          ? Object.assign(new Error("4.7.28 too much mail, try again in 50 minutes"), { responseCode: 421 })
          : undefined,
      ),
  });
  await accept(numbered(2, "slow.example.net"));
  run(makeWorker(routes({ "slow.example.net": far.port }), {}, [1], { providers: [SLOW], paced: true }));
  const learnt = await eventually(
    () => database.db("source_paces").select("source", database.db.raw("(memory->>'waitsUntilMs')::float8 as until")),
    ([pace]) => pace?.until > 0,
  );
  await accept(numbered(3, "slow.example.net"));
  const putOff = () => database.db("partitions").where({ state: "deferred" }).whereNotNull("paced_by");
  const [waiting] = await eventually(putOff, (rows) => rows.length > 0);
  const { source } = learnt[0];
  expect(waiting.paced_by).toEqual({ provider: "slow", sources: [source], isPlanned: false });
  expect(waiting.due_at.getTime() - Date.now()).toBeGreaterThan(2_000_000);
  refuses = false;
  await act({ source, provider: "slow" });
  await eventually(
    async () => far.messages.length,
    (count) => count === 5,
  );
});

test("where nobody limits nothing is kept, and nothing waits", async () => {
  const far = await sink();
  const eeid = await accept(numbered(300, "slow.example.net"));
  run(makeWorker(routes({ "slow.example.net": far.port }), {}, [1], { paced: true }));
  await untilSent(eeid);
  expect(await database.db("source_paces")).toEqual([]);
  expect(await database.db("pace_counts")).toEqual([]);
});
