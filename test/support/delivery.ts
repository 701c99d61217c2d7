import { afterEach, beforeEach, vi } from "vitest";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import type { Attachment } from "../../services/core/mail/mime.ts";
import { ok, refuse } from "../../services/core/result.ts";
import type { DeliveryPolicy } from "../../services/delivery/policy.ts";
import type { FindRoute } from "../../services/delivery/routing/route.ts";
import type { DeliveryWorker } from "../../services/delivery/worker.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import type { Clock } from "../../services/platform/clock.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { continueBatch, endHold, markHeld, stopHeld } from "../../services/store/mail/queue/queue-stops.ts";
import { findBatch } from "../../services/store/mail/sends/batches.ts";
import { accepted } from "./accepted.ts";
import { assembleWorker } from "./assemble-worker.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { addTestInstance } from "./instances.ts";
import { type SmtpSink, startSmtpSink } from "./smtp-sink.ts";
import { listWaiting } from "./spread-tables.ts";
import { eventually as eventuallyWithin } from "./stack.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
export const DOMAIN = "sender.example.org";
/** What is waited for comes, however busy the machine. */
const PATIENCE_MS = 240_000;
/** No busy machine is taken for a far side that does not answer. */
export const TIMEOUTS = { connectMs: PATIENCE_MS, greetingMs: PATIENCE_MS, commandMs: PATIENCE_MS };

export let database: TestDatabase;
export let instanceId: number;
/** What ends what a test has started, run last-in first-out. */
export let stops: (() => Promise<unknown> | unknown)[];
export const failures: Observation[] = [];

/** Gives each test of a file a database of its own, with one instance, and stops after it what it has started. */
export function setUpDelivery(): void {
  vi.setConfig({ testTimeout: 2 * PATIENCE_MS });
  beforeEach(async () => {
    stops = [];
    failures.length = 0;
    database = await createTestDatabase(20);
    instanceId = await addSender("test", DOMAIN);
  });
  afterEach(async () => {
    for (const stop of stops.reverse()) await stop();
    await database.drop();
  });
}

/** @param domain of this instance alone @returns its id */
export async function addSender(name: string, domain: string): Promise<number> {
  const host = name === "test" ? "mail.test" : `${name}.mail.test`;
  await addTestInstance(database.db, KEY_RING, {
    name,
    host,
    key: `key-of-${name}`,
    archive: false,
    domains: [domain],
  });
  return (await findInstanceByName(database.db, name))!.id;
}

/** From now on mail is that of another instance, which is made. */
export async function beInstance(name: string): Promise<void> {
  instanceId = await addSender(name, DOMAIN);
}

export const eventually = <T>(ask: () => Promise<T>, pleases: (answer: T) => boolean) =>
  eventuallyWithin(ask, pleases, PATIENCE_MS);

export async function sink(options: Parameters<typeof startSmtpSink>[0] = {}): Promise<SmtpSink> {
  const started = await startSmtpSink({ closeTimeout: 200, ...options });
  stops.push(() => started.close());
  return started;
}

/** Routes by destination: a sink's port, a port where nobody listens, or a refusal. */
export const routes =
  (ports: Readonly<Record<string, number>>): FindRoute =>
  async (destination) => {
    const port = ports[destination];
    if (port === undefined) return refuse({ code: 550, enhancedStatus: "5.1.2", lines: ["no such domain"] });
    return ok({ key: `port ${port}`, peers: [{ host: "127.0.0.1", port, name: "localhost", tls: "opportunistic" }] });
  };

interface WorkerSurroundings {
  readonly clock?: Clock;
  readonly giveUpHours?: number;
  readonly timeouts?: typeof TIMEOUTS;
  /** The worker's way to the database; the tests' own unless given. */
  readonly db?: Db;
  /** As config/domain-groups.json has them. */
  readonly providers?: readonly object[];
  readonly countsTls?: boolean;
  /** Whether the pace is kept for all workers together, and learnt. */
  readonly paced?: boolean;
}

export function makeWorker(
  findRoute: FindRoute,
  changes: Partial<DeliveryPolicy> = {},
  waitSeconds = [1],
  { timeouts = TIMEOUTS, db = database.db, ...surroundings }: WorkerSurroundings = {},
): DeliveryWorker {
  const observe = (observation: Observation) => {
    if (observation.level === "error") failures.push(observation);
  };
  return assembleWorker(findRoute, { db, keyRing: KEY_RING, timeouts, changes, waitSeconds, observe, ...surroundings });
}

export function run(worker: DeliveryWorker): DeliveryWorker {
  worker.start();
  stops.push(() => worker.stop());
  return worker;
}

/** Stops the taking of a batch's partitions, for no reason that is stored. */
export async function holdBatch(eeid: string): Promise<void> {
  await markHeld(database.db, { instanceId, eeid });
  await stopHeld(database.db, { instanceId, eeid });
}

export async function resumeBatch(eeid: string): Promise<void> {
  await database.db.transaction((transaction) => endHold(transaction, { instanceId, eeid }));
  await continueBatch(database.db, { instanceId, eeid });
}

export async function accept(
  emails: readonly string[],
  html = "<p>Hi</p>",
  archive = false,
  attachments: Attachment[] = [],
  campaignNumid = 1,
  of = instanceId,
): Promise<string> {
  const recipients = emails.map((email) => {
    const address = validateAddress(email, { allowSmtputf8: true });
    if (!address.ok) throw new Error(address.error.message);
    return { address: address.value };
  });
  const outcome = await database.db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId: of,
      campaignNumid,
      creator: "api",
      senderDomain: DOMAIN,
      sender: `info@${DOMAIN}`,
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
  return accepted(outcome).eeid;
}

/** Has the monotonic clock jump ahead when it is told to. To be asked for before a worker runs, which must not see it jump back. */
export function jumpingTime(): (ms: number) => void {
  const now = performance.now.bind(performance);
  let jumpedMs = 0;
  const jumping = vi.spyOn(performance, "now").mockImplementation(() => now() + jumpedMs);
  stops.push(() => jumping.mockRestore());
  return (ms) => {
    jumpedMs = ms;
  };
}

/** A server that takes messages, and says so when it is told to. */
export async function answeringOnDemand(): Promise<{ far: SmtpSink; answers: (() => void)[] }> {
  const answers: (() => void)[] = [];
  const far = await sink({
    onData: (stream, _session, done) => {
      stream.resume();
      answers.push(() => done(null));
    },
  });
  return { far, answers };
}

export const untilOnTheWire = (answers: readonly unknown[]) =>
  eventually(
    async () => answers.length,
    (count) => count > 0,
  );

/** Some statement waits for what another transaction has locked. */
export const untilLocked = () =>
  eventually(
    () => listWaiting(database.db),
    (waiting) => waiting.length > 0,
  );

export const numbered = (count: number, domain: string) => Array.from({ length: count }, (_, i) => `r${i}@${domain}`);
export const untilSentBy = (id: number, eeid: string) =>
  eventually(
    () => findBatch(database.db, id, eeid),
    (batch) => batch?.state === "sent",
  );
export const untilSent = (eeid: string) => untilSentBy(instanceId, eeid);
export const recipientsOf = (...sinks: SmtpSink[]) =>
  sinks.flatMap(({ messages }) => messages.flatMap(({ rcptTo }) => rcptTo));
