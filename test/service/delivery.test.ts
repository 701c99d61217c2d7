import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { compileDomainGroups } from "../../services/core/mail/address-group.ts";
import type { Attachment } from "../../services/core/mail/mime.ts";
import { ok, refuse } from "../../services/core/result.ts";
import { MessageCache } from "../../services/delivery/message-cache.ts";
import { OctetBudget } from "../../services/delivery/octet-budget.ts";
import { type DeliveryPolicy, mostUnnoted, readDeliveryPolicy } from "../../services/delivery/policy.ts";
import type { FindRoute } from "../../services/delivery/routing/route.ts";
import { SourcePools } from "../../services/delivery/routing/source-pools.ts";
import { SessionPool } from "../../services/delivery/session-pool.ts";
import { TrafficShaping } from "../../services/delivery/shaping.ts";
import { DeliveryWorker } from "../../services/delivery/worker.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { type Clock, systemClock } from "../../services/platform/clock.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openSmtpSession } from "../../services/platform/smtp/client.ts";
import { addInstance, findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { leasePartitions } from "../../services/store/mail/queue/lease-partitions.ts";
import { holdDestination, releaseDestination } from "../../services/store/mail/queue/queue-destinations.ts";
import { holdBatch, resumeBatch } from "../../services/store/mail/queue/queue-stops.ts";
import { findBatch } from "../../services/store/mail/sends/batches.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import { eventually as eventuallyWithin } from "../support/stack.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
const DOMAIN = "sender.example.org";
/** What is waited for comes, however busy the machine. */
const PATIENCE_MS = 240_000;
vi.setConfig({ testTimeout: 2 * PATIENCE_MS });
/** No busy machine is taken for a far side that does not answer. */
const TIMEOUTS = { connectMs: PATIENCE_MS, greetingMs: PATIENCE_MS, commandMs: PATIENCE_MS };

let database: TestDatabase;
let instanceId: number;
let stops: (() => Promise<unknown> | unknown)[];
const failures: Observation[] = [];

beforeEach(async () => {
  stops = [];
  failures.length = 0;
  database = await createTestDatabase(20);
  const { db } = database;
  await addInstance(db, KEY_RING, {
    name: "test",
    host: "mail.test",
    key: "key-of-test",
    archive: false,
    domains: [DOMAIN],
  });
  instanceId = (await findInstanceByName(db, "test"))!.id;
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  await database.drop();
});

const eventually = <T>(ask: () => Promise<T>, pleases: (answer: T) => boolean) =>
  eventuallyWithin(ask, pleases, PATIENCE_MS);

async function sink(options: Parameters<typeof startSmtpSink>[0] = {}): Promise<SmtpSink> {
  const started = await startSmtpSink({ closeTimeout: 200, ...options });
  stops.push(() => started.close());
  return started;
}

/** Routes by destination: a sink's port, a port where nobody listens, or a refusal. */
const routes =
  (ports: Readonly<Record<string, number>>): FindRoute =>
  async (destination) => {
    const port = ports[destination];
    if (port === undefined) return refuse({ code: 550, enhancedStatus: "5.1.2", lines: ["no such domain"] });
    return ok({ key: `port ${port}`, peers: [{ host: "127.0.0.1", port, name: "localhost", tls: "opportunistic" }] });
  };

interface WorkerSurroundings {
  readonly clock?: Clock;
  readonly timeouts?: typeof TIMEOUTS;
  /** As config/domain-groups.json has them. */
  readonly providers?: readonly object[];
}

function makeWorker(
  findRoute: FindRoute,
  changes: Partial<DeliveryPolicy> = {},
  waitSeconds = [1],
  { clock = systemClock, timeouts = TIMEOUTS, providers = [] }: WorkerSurroundings = {},
): DeliveryWorker {
  const read = readDeliveryPolicy(JSON.parse(readFileSync("config/delivery.json", "utf8")));
  const groups = compileDomainGroups(providers);
  if (!read.ok || !groups.ok) throw new Error("unreadable");
  const policy = { ...read.value, ...changes };
  const { db } = database;
  const schedule = { waitSeconds, giveUpHours: 72, jitter: 0.1 };
  const observe = (observation: Observation) => {
    if (observation.level === "error") failures.push(observation);
  };
  return new DeliveryWorker({
    db,
    policy,
    schedule,
    observe,
    shaping: new TrafficShaping(policy, groups.value, clock),
    hardBouncesToInvalidate: 2,
    tools: {
      messages: new MessageCache(db, KEY_RING),
      budget: new OctetBudget(policy.composingOctets, policy.lanes),
      sessions: new SessionPool({ client: { hostname: "localhost", timeouts }, idleMs: 500 }),
      sources: new SourcePools(policy, clock, Math.random),
      findRoute,
      compose: { keyRing: KEY_RING, bounceDomain: "bounces.example.org", trackingUrl: "http://track.example.org" },
      schedule,
      clock,
      random: Math.random,
      observe,
    },
  });
}

function run(worker: DeliveryWorker): DeliveryWorker {
  worker.start();
  stops.push(() => worker.stop());
  return worker;
}

async function accept(
  emails: readonly string[],
  html = "<p>Hi</p>",
  archive = false,
  attachments: Attachment[] = [],
  campaignNumid = 1,
): Promise<string> {
  const recipients = emails.map((email) => {
    const address = validateAddress(email, { allowSmtputf8: true });
    if (!address.ok) throw new Error(address.error);
    return { address: address.value };
  });
  const { eeid } = await database.db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId,
      campaignNumid,
      creator: "api",
      senderDomain: DOMAIN,
      content: {
        kind: "template",
        template: { from: { name: "", address: `info@${DOMAIN}` }, subject: "Hi", html, unsubscribe: false },
        attachments,
      },
      recipients,
      copies: [],
      archive,
    }),
  );
  return eeid;
}

/** Does something before the next statement of this name, which fails if that does. @returns whether it was begun */
function beforeOnce(name: string, act: () => Promise<void>): () => boolean {
  let hasBegun = false;
  const { client } = database.db;
  const acquire = client.acquireConnection.bind(client);
  client.acquireConnection = async () => {
    const connection = await acquire();
    const query = Object.getPrototypeOf(connection).query.bind(connection);
    connection.query = (statement: { readonly name?: string }, ...rest: unknown[]) => {
      if (hasBegun || statement.name !== name) return query(statement, ...rest);
      hasBegun = true;
      return act().then(() => query(statement, ...rest));
    };
    return connection;
  };
  return () => hasBegun;
}

/** Has the monotonic clock jump ahead when it is told to. To be asked for before a worker runs, which must not see it jump back. */
function jumpingTime(): (ms: number) => void {
  const now = performance.now.bind(performance);
  let jumpedMs = 0;
  const jumping = vi.spyOn(performance, "now").mockImplementation(() => now() + jumpedMs);
  stops.push(() => jumping.mockRestore());
  return (ms) => {
    jumpedMs = ms;
  };
}

/** As over a lost connection. */
const failOnce = (name: string) =>
  beforeOnce(name, () => Promise.reject(new Error("Connection terminated unexpectedly")));

/** A server that takes messages, and says so when it is told to. */
async function answeringOnDemand(): Promise<{ far: SmtpSink; answers: (() => void)[] }> {
  const answers: (() => void)[] = [];
  const far = await sink({
    onData: (stream, _session, done) => {
      stream.resume();
      answers.push(() => done(null));
    },
  });
  return { far, answers };
}

const untilOnTheWire = (answers: readonly unknown[]) =>
  eventually(
    async () => answers.length,
    (count) => count > 0,
  );

/** Some statement waits for what another transaction has locked. */
const untilLocked = () =>
  eventually(
    () => database.db("pg_stat_activity").where({ wait_event_type: "Lock" }).whereRaw("datname = current_database()"),
    (waiting) => waiting.length > 0,
  );

const numbered = (count: number, domain: string) => Array.from({ length: count }, (_, i) => `r${i}@${domain}`);
const untilSent = (eeid: string) =>
  eventually(
    () => findBatch(database.db, instanceId, eeid),
    (batch) => batch?.state === "sent",
  );
const recipientsOf = (...sinks: SmtpSink[]) =>
  sinks.flatMap(({ messages }) => messages.flatMap(({ rcptTo }) => rcptTo));

describe("the worker", () => {
  test("reuses sessions, and no more of them than the policy allows", async () => {
    const far = await sink();
    const groups = { default: { connections: 3, messagesPerConnection: 50, messagesPerMinute: null } };
    run(makeWorker(routes({ "a.example.net": far.port }), { groups }));
    await untilSent(await accept(numbered(600, "a.example.net")));
    expect(new Set(recipientsOf(far)).size).toBe(600);
    expect(far.messages).toHaveLength(600);
    expect(far.sessions()).toBeGreaterThanOrEqual(12);
    expect(far.sessions()).toBeLessThanOrEqual(15);
    expect(failures).toEqual([]);
  });

  test("gives every recipient a return path of its own", async () => {
    const far = await sink();
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(20, "a.example.net")));
    const returnPaths = new Set(far.messages.map(({ mailFrom }) => mailFrom));
    expect(returnPaths.size).toBe(20);
    for (const path of returnPaths) expect(path).toMatch(/^b\+[a-z2-7]+\.[a-z2-7]{24}@bounces\.example\.org$/);
  });

  test("shares a queue with others: nobody gets anything twice", async () => {
    const far = await sink();
    const findRoute = routes({ "a.example.net": far.port, "b.example.net": far.port });
    for (let i = 0; i < 3; i++) run(makeWorker(findRoute));
    const emails = [...numbered(800, "a.example.net"), ...numbered(800, "b.example.net")];
    await untilSent(await accept(emails));
    expect(recipientsOf(far).sort()).toEqual([...emails].sort());
  });

  test("stops in the midst of a batch, and another one finishes it", async () => {
    const far = await sink();
    const findRoute = routes({ "a.example.net": far.port });
    const first = makeWorker(findRoute);
    first.start();
    const eeid = await accept(numbered(1_000, "a.example.net"));
    await eventually(
      async () => far.messages.length,
      (count) => count > 50,
    );
    await first.stop();
    const stoppedAt = far.messages.length;
    expect(stoppedAt).toBeLessThan(1_000);
    run(makeWorker(findRoute));
    await untilSent(eeid);
    expect(far.messages).toHaveLength(1_000);
    expect(new Set(recipientsOf(far)).size).toBe(1_000);
  });
});

describe("faults", () => {
  test("what a dead worker held goes to another when its lease ends", async () => {
    const far = await sink();
    const eeid = await accept(numbered(10, "a.example.net"));
    const taken = await leasePartitions(database.db, {
      workerId: randomUUID(),
      limit: 10,
      leaseSeconds: 2,
      after: 0,
      instances: new Map(),
      partitionsPerInstance: 100,
      room: new Map(),
      partitionsPerDestination: 10,
      unfinished: [],
    });
    expect(taken.partitions).toHaveLength(1);
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(eeid);
    expect(far.messages).toHaveLength(10);
  });

  test("what a worker took and could not read goes on when its lease ends, however busy the worker is", async () => {
    const { answers, far: slow } = await answeringOnDemand();
    const far = await sink();
    const ports = { "slow.example.net": slow.port, "a.example.net": far.port };
    const worker = run(makeWorker(routes(ports), { leaseSeconds: 8 }));
    stops.push(() => answers[0]?.());
    // A lane that is not done before the end of the test.
    await accept(["one@slow.example.net"]);
    await untilOnTheWire(answers);
    const hasFailed = failOnce("load-due-deliveries");
    const eeid = await accept(numbered(10, "a.example.net"));
    worker.wake();
    await untilSent(eeid);
    expect(hasFailed()).toBe(true);
    expect(recipientsOf(far).sort()).toEqual(numbered(10, "a.example.net").sort());
  });

  test("a lost partition is not taken again while its message is on the wire, or its outcome not stored", async () => {
    const { db } = database;
    const { answers, far: slow } = await answeringOnDemand();
    const far = await sink();
    run(makeWorker(routes({ "slow.example.net": slow.port, "a.example.net": far.port })));
    stops.push(() => answers[0]?.());
    const eeid = await accept(["one@slow.example.net"]);
    await untilOnTheWire(answers);
    const stateOf = () => db("partitions").where({ eeid }).pluck("state");
    // As `wakePartitions` does with what is not prolonged in time.
    await db("partitions").where({ eeid }).update({ state: "ready", lease_owner: null, lease_until: null });
    // The look that finds this one finds the lost one as well.
    await untilSent(await accept(["one@a.example.net"]));
    expect(await stateOf()).toEqual(["ready"]);

    const blocker = await db.transaction();
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await blocker("deliveries").where({ recipient: "one@slow.example.net" }).forUpdate().select("id");
    answers[0]!();
    await untilLocked();
    await accept(["two@a.example.net"]);
    await eventually(
      async () => far.messages.length,
      (count) => count === 2,
    );
    expect(await stateOf()).toEqual(["ready"]);
    await blocker.commit();
    await untilSent(eeid);
    expect(answers).toHaveLength(1);
  });

  test("a partition whose recipients come to be known after its lease is left to who has it then", async () => {
    const { db } = database;
    const { answers, far: slow } = await answeringOnDemand();
    const far = await sink();
    const jump = jumpingTime();
    run(makeWorker(routes({ "slow.example.net": slow.port, "a.example.net": far.port })));
    stops.push(() => answers[0]?.());
    const held = await accept(["one@slow.example.net"]);
    await untilOnTheWire(answers);
    let letGo = () => {};
    const isHeld = beforeOnce("load-due-deliveries", () => new Promise((resolve) => (letGo = resolve)));
    const eeid = await accept(["one@a.example.net"]);
    await eventually(
      async () => isHeld(),
      (held) => held,
    );
    await db("partitions").where({ eeid }).update({ lease_owner: randomUUID() });
    jump(60_000);
    // Then the worker's leases are certain again.
    const leaseUntil = async () => (await db("partitions").where({ eeid: held }).first("lease_until")).lease_until;
    for (let prolonged = 0; prolonged < 2; prolonged += 1) {
      const before = await leaseUntil();
      await eventually(leaseUntil, (until) => until > before);
    }
    letGo();
    await untilSent(await accept(["two@a.example.net"]));
    expect(recipientsOf(far)).toEqual(["two@a.example.net"]);
  });

  test("a message that was made ready for longer than its lease lasts does not leave", async () => {
    const far = await sink();
    const known = routes({ "slow.example.net": far.port, "a.example.net": far.port });
    let letGo: (() => void) | undefined;
    const isKnown = new Promise<void>((resolve) => {
      stops.push(resolve);
      letGo = resolve;
    });
    let isAsked = false;
    const findRoute: FindRoute = async (destination) => {
      if (destination === "slow.example.net") {
        isAsked = true;
        await isKnown;
      }
      return known(destination);
    };
    const jump = jumpingTime();
    run(makeWorker(findRoute));
    const eeid = await accept(["one@slow.example.net"]);
    await eventually(
      async () => isAsked,
      (asked) => asked,
    );
    await database.db("partitions").where({ eeid }).update({ lease_owner: randomUUID() });
    jump(60_000);
    letGo!();
    await untilSent(await accept(["two@a.example.net"]));
    expect(recipientsOf(far)).toEqual(["two@a.example.net"]);
  });

  test("a database that says nothing of the key that is known holds up no mail", async () => {
    const { db } = database;
    const { answers, far } = await answeringOnDemand();
    const jump = jumpingTime();
    run(makeWorker(routes({ "a.example.net": far.port })));
    stops.push(() => answers.forEach((answer) => void answer()));
    const eeid = await accept(["one@a.example.net", "two@a.example.net"]);
    await untilOnTheWire(answers);
    const blocker = await db.transaction();
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await blocker.raw("lock table instance_domains in access exclusive mode");
    jump(12_000);
    answers[0]!();
    await eventually(
      async () => answers.length,
      (count) => count === 2,
    );
    await blocker.commit();
    answers[1]!();
    await untilSent(eeid);
  });

  test("a message is loaded once there is memory for it, and once for all of its recipients", async () => {
    const file = { filename: "large.bin", content: Buffer.alloc(24 * 2 ** 20) };
    const loading = vi.spyOn(pg.Client.prototype, "query");
    const taking = vi.spyOn(OctetBudget.prototype, "take");
    stops.push(() => vi.restoreAllMocks());
    const far = await sink();
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(2, "a.example.net"), "<p>Hi</p>", false, [file]));
    const loads = loading.mock.calls.flatMap(([statement], index) =>
      JSON.stringify(statement).includes("load-messages") ? [loading.mock.invocationCallOrder[index]!] : [],
    );
    expect(loads).toHaveLength(1);
    expect(taking.mock.calls[0]![0]).toBeGreaterThan(file.content.length);
    expect(taking.mock.invocationCallOrder[0]).toBeLessThan(loads[0]!);
    expect(recipientsOf(far)).toHaveLength(2);
  });

  test("what is to be archived takes its share of the memory until it is stored", async () => {
    const { db } = database;
    const far = await sink();
    let givenBack = 0;
    const { take } = OctetBudget.prototype;
    const taking = vi.spyOn(OctetBudget.prototype, "take").mockImplementation(async function (
      this: OctetBudget,
      octets,
    ) {
      const giveBack = await take.call(this, octets);
      return () => {
        givenBack += 1;
        giveBack();
      };
    });
    stops.push(() => taking.mockRestore());
    const eeid = await accept(["one@a.example.net"], "<p>Hi</p>", true);
    const blocker = await db.transaction();
    await blocker("deliveries").forUpdate().select("id");
    run(makeWorker(routes({ "a.example.net": far.port })));
    stops.push(() => blocker.isCompleted() || blocker.commit());
    await untilLocked();
    expect([far.messages.length, givenBack]).toEqual([1, 0]);
    await blocker.commit();
    await untilSent(eeid);
    expect(givenBack).toBe(1);
  });

  test("a partition that fails for a reason of our own is put off before it is tried again", async () => {
    run(makeWorker(() => Promise.reject(new Error("no way to tell"))));
    const eeid = await accept(["one@a.example.net"]);
    await eventually(
      () => database.db("partitions").where({ eeid, state: "deferred" }),
      (putOff) => putOff.length === 1,
    );
    expect(await database.db("deliveries").pluck("attempts")).toEqual([0]);
  });

  test("a dead, a mute and a refusing destination delay nobody else", async () => {
    const mute = await muteServer();
    const busy = await sink({
      onConnect: (_session, done) => done(Object.assign(new Error("4.3.2 busy"), { responseCode: 421 })),
    });
    const far = await sink();
    const ports = { "dead.example.net": 1, "mute.example.net": mute.port, "busy.example.net": busy.port };
    const timeouts = { ...TIMEOUTS, greetingMs: 5_000 };
    run(makeWorker(routes({ ...ports, "live.example.net": far.port }), { lanes: 8 }, [60], { timeouts }));
    await accept(Object.keys(ports).flatMap((domain) => numbered(600, domain)));
    const eeid = await accept(numbered(300, "live.example.net"));
    await untilSent(eeid);
    expect(far.messages).toHaveLength(300);
    expect(busy.sessions()).toBeLessThan(20);
    await mute.close();
  });

  test("a server that comes back gets what waited for it", async () => {
    const placeholder = await startSmtpSink();
    await placeholder.close();
    run(makeWorker(routes({ "a.example.net": placeholder.port })));
    const eeid = await accept(numbered(30, "a.example.net"));
    await eventually(
      async () => (await database.db("deliveries").where({ state: "queued" }).min("attempts as least"))[0]?.least,
      (least) => Number(least) >= 1,
    );
    const far = await sink({ port: placeholder.port });
    await untilSent(eeid);
    expect(new Set(recipientsOf(far)).size).toBe(30);
  });

  test("a connection lost after the final dot is tried again under the same Message-ID", async () => {
    let drops = 2;
    const far = await sink();
    const flaky = await sink({
      onData: async (stream, _session, done) => {
        for await (const _ of stream);
        if (drops-- > 0) done(Object.assign(new Error("4.3.0 not now"), { responseCode: 421 }));
        else done(null);
      },
    });
    const ports: Record<string, number> = { "a.example.net": flaky.port };
    run(makeWorker(routes(ports)));
    const eeid = await accept(["one@a.example.net"]);
    await eventually(
      async () => drops,
      (left) => left <= 0,
    );
    ports["a.example.net"] = far.port;
    await untilSent(eeid);
    expect(far.messages).toHaveLength(1);
  });

  test("the database breaks every connection in the midst: nothing is lost", async () => {
    const far = await sink();
    run(makeWorker(routes({ "a.example.net": far.port })));
    const emails = numbered(2_000, "a.example.net");
    const eeid = await accept(emails);
    await eventually(
      async () => far.messages.length,
      (count) => count > 100,
    );
    const killer = await createTestDatabase(1);
    await killer.db.raw(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = ? and pid <> pg_backend_pid()",
      [new URL(database.url).pathname.slice(1)],
    );
    await killer.drop();
    await untilSent(eeid);
    expect(new Set(recipientsOf(far)).size).toBe(emails.length);
  });

  test("a server that takes few messages a session is no server in trouble", async () => {
    const counts = new Map<string, number>();
    const far = await sink({
      onMailFrom: (_address, session, done) => {
        const count = (counts.get(session.id) ?? 0) + 1;
        counts.set(session.id, count);
        done(count > 3 ? Object.assign(new Error("4.7.0 enough for this session"), { responseCode: 421 }) : null);
      },
    });
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(numbered(40, "a.example.net")));
    expect(far.messages).toHaveLength(40);
    const retried = await database.db("deliveries").where("attempts", ">", 1);
    expect(retried).toEqual([]);
  });

  test("a sender domain that was taken away leaves the mail unsigned, not unsent", async () => {
    const far = await sink();
    await database.db("instance_domains").delete();
    run(makeWorker(routes({ "a.example.net": far.port })));
    await untilSent(await accept(["one@a.example.net"]));
    expect(far.messages[0]?.octets.includes("DKIM-Signature")).toBe(false);
  });
});

describe("replies", () => {
  test("some recipients of a server are refused, the others get it", async () => {
    const far = await sink({
      onRcptTo: ({ address }, _session, done) =>
        done(/^r\d*[05]@/.test(address) ? Object.assign(new Error("5.1.1 no such user"), { responseCode: 550 }) : null),
    });
    run(makeWorker(routes({ "a.example.net": far.port })));
    const batch = await untilSent(await accept(numbered(50, "a.example.net")));
    expect(batch?.refused).toBe(10);
    expect(far.messages).toHaveLength(40);
    const events = await database.db("events").where({ kind: 4 }).select("detail");
    expect(events).toHaveLength(10);
    expect(events[0].detail).toMatchObject({ reason: "userunknown" });
  });

  test("a domain that does not exist bounces at once", async () => {
    run(makeWorker(routes({})));
    expect((await untilSent(await accept(numbered(5, "gone.example.net"))))?.refused).toBe(5);
  });

  test("a server without TLS that works, and one whose handshake fails, both get the mail", async () => {
    const clear = await sink();
    const broken = await sink({
      disabledCommands: ["AUTH"],
      minVersion: "TLSv1.3",
      ciphers: "TLS_AES_128_GCM_SHA256",
      sigalgs: "ed25519",
    });
    run(makeWorker(routes({ "a.example.net": clear.port, "b.example.net": broken.port })));
    await untilSent(await accept(["one@a.example.net", "one@b.example.net"]));
    expect(clear.messages).toHaveLength(1);
    expect(broken.messages).toHaveLength(1);
    expect(broken.sessions()).toBe(2);
  });
});

async function muteServer(): Promise<{ port: number; close(): Promise<void> }> {
  const server: Server = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.close();
    },
  };
}

describe("8-bit octets", () => {
  const client = { hostname: "localhost", timeouts: TIMEOUTS };
  const envelope = { mailFrom: `a@${DOMAIN}`, rcptTo: ["b@example.net"], needsSmtputf8: false };
  const eightBit = Buffer.from("Subject: x\r\n\r\nñ\r\n");
  const sevenBit = Buffer.from("Subject: x\r\n\r\nn\r\n");

  async function open(options: Parameters<typeof startSmtpSink>[0]) {
    const { port } = await sink(options);
    const session = await openSmtpSession({ host: "127.0.0.1", port, name: "localhost", tls: "never" }, client);
    if (!session.ok) throw new Error("no session");
    stops.push(() => session.value.close());
    return session.value;
  }

  test("are announced to a server that offers 8BITMIME, and only they", async () => {
    const announced: unknown[] = [];
    const session = await open({
      onMailFrom: ({ args }, _session, done) => {
        announced.push(args ? args.BODY : undefined);
        done();
      },
    });
    expect((await session.send(envelope, eightBit)).ok).toBe(true);
    expect((await session.send(envelope, sevenBit)).ok).toBe(true);
    expect(announced).toEqual(["8BITMIME", undefined]);
  });

  test("are kept from a server that does not, which still gets the rest", async () => {
    const session = await open({ hide8BITMIME: true });
    expect(await session.send(envelope, eightBit)).toMatchObject({
      ok: false,
      error: { kind: "unsuited", reply: { code: 550, enhancedStatus: "5.6.3" } },
    });
    expect((await session.send(envelope, sevenBit)).ok).toBe(true);
  });
});

describe("a far side that misbehaves", () => {
  const queued = async (eeid: string) =>
    database
      .db("deliveries")
      .join("partitions", "partitions.id", "deliveries.partition_id")
      .where({ eeid, "deliveries.state": "queued" })
      .select("deliveries.attempts", "deliveries.reply", "deliveries.bounce");

  test("that answers 421 for ever is asked seldom, keeps its mail, and delays nobody", async () => {
    let asked = 0;
    const busy = await sink({
      onConnect: (_session, done) => {
        asked += 1;
        done(Object.assign(new Error("4.3.2 too busy, come back later"), { responseCode: 421 }));
      },
    });
    const good = await sink();
    const busyEeid = await accept(numbered(300, "busy.example.net"));
    const goodEeid = await accept(numbered(50, "good.example.net"));
    run(makeWorker(routes({ "busy.example.net": busy.port, "good.example.net": good.port }), {}, [2]));
    await untilSent(goodEeid);
    await eventually(
      () => queued(busyEeid),
      (rows) => rows.every(({ attempts }) => attempts >= 2),
    );
    const rows = await queued(busyEeid);
    expect(rows).toHaveLength(300);
    expect(rows.every(({ bounce, reply }) => bounce === null && reply.includes("421"))).toBe(true);
    // A session for each partition and round, not one for each recipient.
    expect(asked).toBeLessThan(60);
    expect(failures).toEqual([]);
  });

  /** Composing it takes 40,000 octets and some. */
  const LARGE = `<p>${"x".repeat(10_000)}</p>`;

  /** Takes connections and says nothing. */
  async function silentServer() {
    const connections = new Set<Socket>();
    const server = createServer((socket) => connections.add(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const end = () => {
      server.close();
      for (const socket of connections) socket.destroy();
    };
    return { port: (server.address() as AddressInfo).port, connections, end };
  }

  test("that never answers takes no lane from others, and no memory for its messages", async () => {
    const dead = await Promise.all(Array.from({ length: 12 }, silentServer));
    const good = await sink();
    const ports = Object.fromEntries(dead.map(({ port }, index) => [`dead${index}.example.net`, port]));
    const findRoute = routes({ ...ports, "good.example.net": good.port });
    const worker = makeWorker(findRoute, { lanes: 4, composingOctets: 100_000 });
    await accept(
      Object.keys(ports).map((name) => `one@${name}`),
      LARGE,
    );
    run(worker);
    for (const { end } of dead) stops.push(end);
    await eventually(
      async () => dead.every(({ connections }) => connections.size > 0),
      (areReached) => areReached,
    );
    await untilSent(await accept(numbered(20, "good.example.net"), LARGE));
  });

  test("that never answers gets no more sessions for that, however many destinations are behind it", async () => {
    const { port, connections, end } = await silentServer();
    const names = Array.from({ length: 40 }, (_, index) => `dead${index}.example.net`);
    const worker = makeWorker(routes(Object.fromEntries(names.map((name) => [name, port]))), { lanes: 4 });
    await accept(names.map((name) => `one@${name}`));
    run(worker);
    stops.push(end);
    await eventually(
      async () => connections.size,
      (count) => count >= 6,
    );
    await sleep(4_000);
    expect(connections.size).toBe(6);
  });

  test("that answers again after a stall lets new mail through before all that had waited", async () => {
    const far = await sink();
    let isStalled = true;
    const findRoute: FindRoute = async (destination) => {
      while (isStalled) await sleep(50);
      const peer = { host: "127.0.0.1", port: far.port, name: "localhost", tls: "never" } as const;
      return ok({ key: destination, peers: [peer] });
    };
    const names = Array.from({ length: 30 }, (_, index) => `d${index}.example.net`);
    const waited = await accept(names.flatMap((name) => numbered(40, name)));
    run(makeWorker(findRoute, { lanes: 4 }));
    await eventually(
      () => database.db("partitions").where({ state: "leased" }),
      (leased) => leased.length === names.length,
    );
    isStalled = false;
    await untilSent(await accept(["one@a.example.net"]));
    expect(far.messages.length).toBeLessThan(names.length * 40);
    await untilSent(waited);
    expect(far.messages).toHaveLength(names.length * 40 + 1);
  });

  test("that stalls with all the memory for large messages does not hold up small ones", async () => {
    const { far: stalled, answers } = await answeringOnDemand();
    const good = await sink();
    const names = Array.from({ length: 20 }, (_, index) => `stalled${index}.example.net`);
    const ports = { ...Object.fromEntries(names.map((name) => [name, stalled.port])), "good.example.net": good.port };
    const worker = makeWorker(routes(ports), { lanes: 8, waitingLanes: 0, composingOctets: 100_000 });
    const large = await accept(
      names.map((name) => `one@${name}`),
      LARGE,
      true,
    );
    run(worker);
    stops.push(() => answers.forEach((done) => void done()));
    await eventually(
      async () => answers.length,
      (count) => count === 2,
    );
    await untilSent(await accept(numbered(20, "good.example.net")));
    const answering = setInterval(() => answers.splice(0).forEach((done) => void done()), 50);
    stops.push(() => clearInterval(answering));
    await untilSent(large);
  });

  test("that ends sessions over which nothing came for a while gets what waited for memory over another one", async () => {
    const { far: stalled, answers } = await answeringOnDemand();
    const opened = new Map<string, number>();
    let ended = 0;
    const impatient = await sink({
      onConnect: ({ id }, done) => {
        opened.set(id, performance.now());
        done();
      },
      onMailFrom: (_address, { id }, done) => {
        if (performance.now() - opened.get(id)! < 1_500) return done();
        ended += 1;
        done(Object.assign(new Error("4.4.2 idle for too long"), { responseCode: 421 }));
      },
    });
    const ports = { "stalled.example.net": stalled.port, "impatient.example.net": impatient.port };
    const held = await accept(["one@stalled.example.net"], LARGE);
    run(makeWorker(routes(ports), { composingOctets: 40_000 }));
    await untilOnTheWire(answers);
    const eeid = await accept(["one@impatient.example.net"], LARGE);
    await eventually(
      async () => opened.size,
      (count) => count === 1,
    );
    await sleep(2_000);
    answers[0]!();
    await Promise.all([held, eeid].map(untilSent));
    expect(ended).toBe(1);
    expect(await database.db("deliveries").pluck("attempts")).toEqual([1, 1]);
  });

  test("that takes the message and never answers is tried again, and holds up nobody else", async () => {
    let stall = true;
    const slow = await sink({
      onData: (stream, _session, done) => {
        stream.resume();
        stream.on("end", () => {
          if (!stall) done();
        });
      },
    });
    const good = await sink();
    const slowEeid = await accept(["one@slow.example.net"]);
    const timeouts = { ...TIMEOUTS, commandMs: 5_000 };
    run(makeWorker(routes({ "slow.example.net": slow.port, "good.example.net": good.port }), {}, [1], { timeouts }));
    const goodEeid = await accept(numbered(50, "good.example.net"));
    await untilSent(goodEeid);
    await eventually(
      () => queued(slowEeid),
      ([row]) => (row?.attempts ?? 0) >= 1,
    );
    stall = false;
    await untilSent(slowEeid);
  });
});

test("a clock that jumps by days loses nothing and gives nothing up", async () => {
  const DAY_MS = 86_400_000;
  let calls = 0;
  const clock = { nowMs: () => Date.now() + [0, 10, -10][calls++ % 3]! * DAY_MS };
  const refusals = new Set<string>();
  const greylisting = await sink({
    onRcptTo: ({ address }, _session, done) => {
      if (refusals.has(address)) return done();
      refusals.add(address);
      done(Object.assign(new Error("4.7.1 come back later"), { responseCode: 451 }));
    },
  });
  const eeid = await accept(numbered(60, "grey.example.net"));
  run(makeWorker(routes({ "grey.example.net": greylisting.port }), {}, [1], { clock }));
  await untilSent(eeid);
  expect(new Set(recipientsOf(greylisting)).size).toBe(60);
  expect(recipientsOf(greylisting)).toHaveLength(60);
});

test("time for which mail was paused or its destination held is no time in the queue", async () => {
  const { db } = database;
  const refused = new Set<string>();
  const greylisting = await sink({
    onRcptTo: ({ address }, _session, done) => {
      if (refused.has(address)) return done();
      refused.add(address);
      done(Object.assign(new Error("4.7.1 come back later"), { responseCode: 451 }));
    },
  });
  const paused = await accept(["one@paused.example.net"]);
  const forgotten = await accept(["one@forgotten.example.net"]);
  const held = await accept(["one@held.example.net"]);
  const untried = await accept(["one@untried.example.net"]);
  const both = await accept(["one@both.example.net"]);
  await holdBatch(db, paused);
  await holdBatch(db, both);
  await holdDestination(db, "held.example.net", "operator");
  // Age goes by the database's clock: as if it had been 100 hours ago, an hour before the pause.
  await db.raw("update messages set created_at = created_at - interval '100 hours' where eeid = any(?)", [
    [paused, forgotten, held, untried, both],
  ]);
  await db.raw("update partitions set taken_at = now() - interval '100 hours' where eeid = any(?)", [
    [paused, forgotten, held, both],
  ]);
  await db.raw("update destination_holds set held_at = held_at - interval '99 hours'");
  await releaseDestination(db, "held.example.net");
  await db.raw("update batches set held_at = held_at - interval '99 hours' where held_at is not null");
  // The one after the other: 99 hours more pass, for which the destination is held.
  await holdDestination(db, "both.example.net", "operator");
  await resumeBatch(db, both);
  await db.raw("update messages set created_at = created_at - interval '99 hours' where eeid = ?", [both]);
  await db.raw("update partitions set taken_at = taken_at - interval '99 hours' where eeid = ?", [both]);
  await db.raw("update destination_holds set held_at = held_at - interval '99 hours'");
  await releaseDestination(db, "both.example.net");
  await resumeBatch(db, paused);
  const names = ["paused", "forgotten", "held", "untried", "both"].map((name) => `${name}.example.net`);
  run(makeWorker(routes(Object.fromEntries(names.map((name) => [name, greylisting.port])))));
  const batches = [paused, forgotten, held, untried, both];
  await Promise.all(batches.map(untilSent));
  expect(recipientsOf(greylisting).sort()).toEqual([
    "one@both.example.net",
    "one@held.example.net",
    "one@paused.example.net",
    "one@untried.example.net",
  ]);
  const refusals = await Promise.all(batches.map(async (eeid) => (await findBatch(db, instanceId, eeid))!.refused));
  expect(refusals).toEqual([0, 1, 0, 0, 0]);
});

test("no more leaves without a note of it than a crash may repeat", async () => {
  const { db } = database;
  const far = await sink();
  const bounds = { lanes: 4, flushOutcomes: 5 };
  await accept(numbered(300, "unnoted.example.net"));
  const worker = makeWorker(routes({ "unnoted.example.net": far.port }), bounds);
  await db.transaction(async (transaction) => {
    // Nothing can be noted meanwhile, and everything be read.
    await transaction.raw("lock table deliveries in share mode");
    run(worker);
    await eventually(
      async () => far.messages.length,
      (count) => count >= 2 * bounds.flushOutcomes,
    );
    await sleep(300);
    expect(far.messages.length).toBeLessThanOrEqual(mostUnnoted(bounds, bounds.lanes));
  });
  await eventually(
    async () => far.messages.length,
    (count) => count === 300,
  );
});

test("mail leaves from the addresses of its instance's pool, within the pool's limits", async () => {
  const from = new Map<string, number>();
  let open = 0;
  let most = 0;
  const far = await sink({
    onConnect: ({ remoteAddress }, done) => {
      from.set(remoteAddress, (from.get(remoteAddress) ?? 0) + 1);
      most = Math.max(most, ++open);
      done();
    },
    onClose: () => {
      open -= 1;
    },
  });
  const eeid = await accept(numbered(900, "pooled.example.net"));
  const addresses = ["127.0.0.9", "127.0.0.10"].map((address) => ({ address, weight: 1 }));
  const unlimited = { addresses: [], connections: null, messagesPerMinute: null };
  run(
    makeWorker(routes({ "pooled.example.net": far.port }), {
      pools: { default: unlimited, bulk: { addresses, connections: 3, messagesPerMinute: null } },
      poolOf: [{ instance: "test", pool: "bulk" }],
    }),
  );
  await untilSent(eeid);
  expect([...from.keys()].filter((address) => !["127.0.0.9", "127.0.0.10"].includes(address))).toEqual([]);
  expect(most).toBeLessThanOrEqual(3);
  expect(recipientsOf(far)).toHaveLength(900);
});

describe("a provider's messages a minute", () => {
  const PROVIDER = { id: 1, name: "big", domains: ["dead.example.net", "alive.example.net"], mxDomains: [] };
  const UNLIMITED = { connections: 9, messagesPerConnection: 100, messagesPerMinute: null };
  const RATE = 4;
  const groups = { default: UNLIMITED, big: { ...UNLIMITED, messagesPerMinute: RATE } };
  /** Within the minute: nothing comes back. */
  const frozen = { clock: { nowMs: () => 0 }, providers: [PROVIDER] };

  async function expectAllOfTheRate(far: SmtpSink): Promise<void> {
    await accept(numbered(RATE + 2, "alive.example.net"));
    await eventually(
      async () => far.messages.length,
      (count) => count === RATE,
    );
    await sleep(1_500);
    expect(far.messages).toHaveLength(RATE);
  }

  test("are not used up by a destination of it that is dead", async () => {
    const far = await sink();
    run(makeWorker(routes({ "dead.example.net": 1, "alive.example.net": far.port }), { groups }, [1], frozen));
    const eeid = await accept(numbered(3 * RATE, "dead.example.net"));
    await eventually(
      () => database.db("deliveries").min("attempts as least").first(),
      (found) => found!.least > 0,
    );
    await holdBatch(database.db, eeid);
    await expectAllOfTheRate(far);
  });

  test("are not used up by what its source's limit puts off", async () => {
    const far = await sink();
    const unlimited = { addresses: [], connections: null, messagesPerMinute: null };
    const worker = makeWorker(
      routes({ "alive.example.net": far.port }),
      {
        groups,
        pools: { default: unlimited, slow: { ...unlimited, messagesPerMinute: 1 } },
        poolOf: [{ instance: "test", campaign: 2, pool: "slow" }],
      },
      [1],
      frozen,
    );
    run(worker);
    for (let message = 0; message < RATE + 2; message += 1) {
      await accept(["slow@alive.example.net"], "<p>Hi</p>", false, [], 2);
    }
    await eventually(
      async () => far.messages.length,
      (count) => count === 1,
    );
    await sleep(2_500); // each is put off and taken again
    await expectAllOfTheRate(far);
  });
});
