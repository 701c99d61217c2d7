/**
 * `npm run bench:events [events]`: ten million events of one instance over a year, for 200,000 contacts, on a
 * PostgreSQL of its own (fsync on): how fast they are taken in, and how fast the API counts them, pages through them,
 * and shows a contact with 5,000 of them. Asked first with a tenth of the events, then with all: costs must stay flat.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KeyRing } from "../../services/core/key-ring.ts";
import type { EventKind } from "../../services/core/mail/event-kind.ts";
import { start } from "../../services/mail-api/main.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { foldEventCounts } from "../../services/store/mail/events/event-counts.ts";
import { type NewEvent, recordEvents } from "../../services/store/mail/events/events.ts";
import { addInstance, findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { callApi } from "../support/api-client.ts";

const EVENTS = Number(process.argv[2] ?? 10_000_000);
const CONTACTS = 200_000;
const EVENTS_OF_ONE_CONTACT = 5_000;
const EVENTS_PER_BATCH = 10_000;
const REQUESTS = 200;
const WARM_UP_REQUESTS = 10;
const PAGE_LENGTH = 50;
const DEEP_PAGE = 1_000;

const KEY_RING = KeyRing.ofSecret("the secret of the benchmark");
const KEY = "key-of-the-benchmark";
const YEAR_FROM = Date.UTC(2025, 0, 1);
const YEAR_MS = 365 * 86_400_000;
/** What a mailing leaves behind, roughly in these shares. */
const KINDS: readonly EventKind[] = ["sent", "sent", "sent", "sent", "viewed", "viewed", "clicked", "soft-bounce"];

interface Bar {
  readonly name: string;
  readonly limitMs: number;
  ask(index: number): { readonly path: string; readonly body?: unknown };
}

const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
const logger = makeLogger("bench", "warn");
const postgres = await openEmbeddedPostgres({ dataDir: folder, logger });
const db = openDb(postgres.url, { connections: 4, name: "bench" });
let isGood = true;
try {
  await migrate(db);
  const instanceId = await addAccounts(db);
  const { url, stop } = await serve();
  const small = Math.ceil(EVENTS / 10);
  await fill(instanceId, 0, small);
  const before = await measure(url, small);
  const ingestedPerSecond = await fill(instanceId, small, EVENTS);
  const after = await measure(url, EVENTS);
  report(before, after);
  const queries = after.map(({ bar, p50Ms, p95Ms }) => ({ name: bar.name, p50Ms, p95Ms }));
  process.stdout.write(`${JSON.stringify({ events: EVENTS, ingestedPerSecond, queries })}\n`);
  await stop();
} finally {
  await db.destroy();
  await postgres.release();
  rmSync(folder, { recursive: true });
}
process.exit(isGood ? 0 : 1);

async function addAccounts(pool: Db): Promise<number> {
  await addInstance(pool, KEY_RING, { name: "bench", host: "bench.test", key: KEY, archive: false, domains: [] });
  const instance = (await findInstanceByName(pool, "bench"))!;
  await pool.raw(
    `insert into contacts (instance_id, email, email_key)
     select ?, 'c' || n || '@example.org', 'c' || n || '@example.org' from generate_series(1, ?::int) as n`,
    [instance.id, CONTACTS],
  );
  return instance.id;
}

async function serve() {
  const config = loadConfig({ PALOMAR_MAIL_API_LISTEN: "127.0.0.1:0" });
  if (!config.ok) throw new Error(config.error.join("\n"));
  const service = await start({
    config: config.value,
    keyRing: KEY_RING,
    db: openDb(postgres.url, { connections: 4, name: "mail-api" }),
    clock: systemClock,
    logger,
    observe: ({ level, kind, ...detail }) => {
      if (level === "error" || level === "warn") logger.warn(detail, kind);
    },
    openListenConnection: () => openListenConnection(postgres.url, "mail-api"),
    addressOf: () => Promise.reject(new Error("the mail API asks for no sibling")),
  });
  return { url: service.addresses.mail_api!, stop: service.stop };
}

/** Events in the order of time, spread over the year in bursts as mailings make them. @returns events a second */
async function fill(instanceId: number, from: number, until: number): Promise<number> {
  const startedAt = performance.now();
  for (let first = from; first < until; first += EVENTS_PER_BATCH) {
    const count = Math.min(EVENTS_PER_BATCH, until - first);
    await recordEvents(
      db,
      Array.from({ length: count }, (_, n) => makeEvent(instanceId, first + n)),
    );
  }
  const perSecond = Math.round((until - from) / ((performance.now() - startedAt) / 1_000));
  check(
    `ingest, ${until - from} events in batches of ${EVENTS_PER_BATCH}`,
    `${perSecond} a second`,
    perSecond >= 20_000,
  );
  // What autovacuum would have done in the course of the year.
  await foldEventCounts(db);
  await db.raw("vacuum analyze");
  return perSecond;
}

/** Event `index` of all: the first tenth covers the whole year already, the rest is put between. */
function makeEvent(instanceId: number, index: number): NewEvent {
  const small = EVENTS / 10;
  const position = index < small ? index / small : (index - small) / (EVENTS - small);
  const isOfTheOne = index % Math.floor(EVENTS / 10 / EVENTS_OF_ONE_CONTACT) === 0 && index < small;
  return {
    instanceId,
    at: new Date(YEAR_FROM + Math.floor(position * YEAR_MS)),
    kind: KINDS[index % KINDS.length]!,
    contactId: isOfTheOne ? 1 : 2 + ((index * 7919) % (CONTACTS - 1)),
    campaignNumid: 1 + (index % 50),
    machine: index % 97 === 0,
    deliveryId: index,
    eeid: "6f9619ff-8b86-4d01-b42d-00c04fc964ff",
  };
}

async function measure(url: string, events: number): Promise<readonly Measurement[]> {
  const year = { fechahora_desde: "2025-01-01T00:00:00", fechahora_hasta: "2025-12-31T23:59:59" };
  const page = (pagina: number) => ({ path: "/v1/ver_eventos", body: { ...year, pagina, cantidad: PAGE_LENGTH } });
  const bars: readonly Bar[] = [
    { name: "cantidad_eventos, the year", limitMs: 20, ask: () => ({ path: "/v1/cantidad_eventos", body: year }) },
    {
      name: "cantidad_eventos, any period",
      limitMs: 20,
      ask: (index) => ({ path: "/v1/cantidad_eventos", body: somePeriod(index) }),
    },
    { name: "ver_eventos, first page", limitMs: 50, ask: () => page(1) },
    { name: `ver_eventos, page ${DEEP_PAGE}`, limitMs: 50, ask: () => page(DEEP_PAGE) },
    { name: "ver_eventos, last page", limitMs: 50, ask: () => page(Math.ceil(events / PAGE_LENGTH)) },
    {
      name: `contacto with ${EVENTS_OF_ONE_CONTACT} events`,
      limitMs: 50,
      ask: () => ({ path: "/v1/contacto/c1@example.org" }),
    },
  ];
  const measurements: Measurement[] = [];
  for (const bar of bars) measurements.push(await time(url, bar));
  return measurements;
}

interface Measurement {
  readonly bar: Bar;
  readonly p50Ms: number;
  readonly p95Ms: number;
}

async function time(url: string, bar: Bar): Promise<Measurement> {
  const times: number[] = [];
  for (let index = -WARM_UP_REQUESTS; index < REQUESTS; index++) {
    const { path, body } = bar.ask(Math.abs(index));
    const startedAt = performance.now();
    const answer = await callApi("GET", url + path, { Authorization: KEY }, body);
    if (index >= 0) times.push(performance.now() - startedAt);
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }
  times.sort((a, b) => a - b);
  const percentile = (share: number) => times[Math.floor(share * (times.length - 1))]!;
  return { bar, p50Ms: percentile(0.5), p95Ms: percentile(0.95) };
}

/** Periods of every length, with ends that are no whole minute; the same in every run. */
function somePeriod(index: number) {
  const a = (index * 0.618034) % 1;
  const b = (index * 0.754878) % 1;
  const moment = (share: number) => new Date(YEAR_FROM + share * YEAR_MS).toISOString().slice(0, 19);
  return { fechahora_desde: moment(Math.min(a, b)), fechahora_hasta: moment(Math.max(a, b)) };
}

function report(before: readonly Measurement[], after: readonly Measurement[]): void {
  for (const [index, { bar, p50Ms, p95Ms }] of after.entries()) {
    const earlier = before[index]!;
    const figures = `p50 ${p50Ms.toFixed(1)} ms, p95 ${p95Ms.toFixed(1)} ms (with a tenth: p95 ${earlier.p95Ms.toFixed(1)} ms)`;
    check(bar.name, figures, p95Ms <= bar.limitMs);
  }
}

function check(name: string, figures: string, holds: boolean): void {
  isGood &&= holds;
  process.stdout.write(`${holds ? "ok  " : "FAIL"}  ${name}: ${figures}\n`);
}
