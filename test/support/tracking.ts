import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type EmailAddress, validateAddress } from "../../services/core/mail/address.ts";
import type { EventKind } from "../../services/core/mail/event-kind.ts";
import { trackHtml } from "../../services/core/mail/tracking-html.ts";
import { makeClickToken, makeDeliveryToken } from "../../services/core/mail/tracking-tokens.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { type Config, loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { type Db, openDb } from "../../services/platform/postgres/db.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { type AddedCampaign, addCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { eventKindOf } from "../../services/store/mail/events/event-kinds.ts";
import { findInstanceByName, type Instance } from "../../services/store/mail/instances/instances.ts";
import { saveTrackedLinks } from "../../services/store/mail/tracking/tracking.ts";
import { start } from "../../services/tracking/main.ts";
import { accepted } from "./accepted.ts";
import { createTestDatabase } from "./database.ts";
import { addTestInstance } from "./instances.ts";
import { queuedDeliveries } from "./spread-tables.ts";
import { eventually } from "./stack.ts";
import { openTcpGate, type TcpGate } from "./tcp-gate.ts";

export const BROWSER = "Mozilla/5.0 (X11; Linux x64; rv:140.0) Gecko/20100101 Firefox/140.0";
const KEY_RING = KeyRing.ofSecret("a secret for tests only");
/** What the service asks its database with each look for links. */
const LOOK_FOR_LINKS = "octet_length(l.target)";

export interface TrackingAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
}

/** One copy of a message that arrived a minute ago. */
export interface TestDelivery {
  readonly id: number;
  readonly messageId: number;
  readonly contactId: number | null;
  readonly eeid: string;
  /** Paths under the tracking listener. */
  readonly open: string;
  readonly unsubscribe: string;
  readonly conversion: string;
  /** By target. */
  readonly clicks: Readonly<Record<string, string>>;
}

export interface StoredEvent {
  readonly kind: EventKind;
  readonly machine: boolean;
  readonly detail: Readonly<Record<string, unknown>> | null;
  readonly campaign_numid: number;
  readonly delivery_id: number;
}

export interface TestTracking {
  /** Of the listener; another one after `restart`. */
  readonly url: string;
  readonly db: Db;
  readonly instance: Instance;
  readonly campaign: AddedCampaign;
  /** What stands between the service and its database. */
  readonly gate: TcpGate;
  readonly failures: readonly Observation[];
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<TrackingAnswer>;
  head(path: string): Promise<TrackingAnswer>;
  call(method: string, path: string, options?: CallOptions): Promise<TrackingAnswer>;
  deliver(email: string, html: string, options?: DeliverOptions): Promise<TestDelivery>;
  addCampaign(name: string): Promise<AddedCampaign>;
  /** Events of a contact, oldest first, without `sent`. */
  eventsOf(delivery: TestDelivery): Promise<StoredEvent[]>;
  /** Waits until the service knows the links that are stored by now. */
  linksLearnt(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface DeliverOptions {
  readonly deliveredSecondsAgo?: number;
  readonly campaignNumid?: number;
}

/** The real service over HTTP, on a database of its own that can be taken away. */
export async function startTestTracking(environment: Readonly<Record<string, string>> = {}): Promise<TestTracking> {
  const { db, url, drop } = await createTestDatabase();
  const dataDir = mkdtempSync(join(tmpdir(), "palomar-tracking-"));
  const { hostname, port } = new URL(url);
  const gate = await openTcpGate({ host: hostname, port: Number(port) }, LOOK_FOR_LINKS);
  const gatedUrl = new URL(url);
  gatedUrl.host = `127.0.0.1:${gate.port}`;

  await addTestInstance(db, KEY_RING, {
    name: "north",
    host: "north.test",
    key: "key-of-north",
    archive: false,
    domains: [],
  });
  const instance = (await findInstanceByName(db, "north"))!;
  const newCampaign = (name: string) => addCampaign(db, KEY_RING, { ...CAMPAIGN, instanceId: instance.id, name });
  const campaign = await newCampaign("Spring & <sale>");

  const failures: Observation[] = [];
  const run = async () => {
    const serviceDb = openDb(gatedUrl.href, { connections: 5, name: "test tracking" });
    const service = await start(
      makeContext(serviceDb, readConfig({ ...environment, PALOMAR_DATA_DIR: dataDir }), failures),
    );
    return { service, serviceDb };
  };
  let running: { readonly service: RunningService; readonly serviceDb: Db } = await run();
  const halt = async () => {
    await running.service.stop();
    await running.serviceDb.destroy();
  };

  const call: TestTracking["call"] = (method, path, options = {}) =>
    callTracking(running.service.addresses.tracking + path, method, options);
  return {
    get url() {
      return running.service.addresses.tracking!;
    },
    db,
    instance,
    campaign,
    gate,
    failures,
    call,
    get: (path, headers = {}) => call("GET", path, { headers }),
    head: (path) => call("HEAD", path, {}),
    addCampaign: newCampaign,
    deliver: (email, html, options = {}) =>
      deliver(db, { instanceId: instance.id, campaignNumid: campaign.numid, email, html, ...options }),
    eventsOf: (delivery) => eventsOf(db, delivery),
    linksLearnt: () => linksLearnt(gate),
    restart: async () => {
      await halt();
      running = await run();
    },
    stop: async () => {
      await halt();
      await gate.shut();
      await drop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

const CAMPAIGN = {
  type: "api",
  sender: "info@north.test",
  senderName: "",
  subject: "Hello",
  subjectUri: "",
  replyTo: "",
  url: "",
  charset: "utf8",
  unsubscribe: true,
} as const;

async function deliver(
  db: Db,
  given: { instanceId: number; campaignNumid: number; email: string; html: string } & DeliverOptions,
): Promise<TestDelivery> {
  const outcome = await db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId: given.instanceId,
      campaignNumid: given.campaignNumid,
      creator: "api",
      senderDomain: "north.test",
      sender: "info@north.test",
      content: { kind: "template", attachments: [], template: templateOf(given.html) },
      recipients: [{ address: toAddress(given.email), firstName: "Ana María" }],
      copies: [],
      archive: false,
    }),
  );
  const { eeid } = accepted(outcome);
  const row = await queuedDeliveries(db).where({ eeid }).first("deliveries.id", "message_id", "contact_id");
  await db("deliveries")
    .where({ id: row.id })
    .update({ state: "delivered", finished_at: new Date(Date.now() - (given.deliveredSecondsAgo ?? 60) * 1000) });
  const tracked = trackHtml(given.html);
  await saveTrackedLinks(db, { id: row.message_id, instanceId: given.instanceId }, tracked);
  const ids = { deliveryId: row.id, messageId: row.message_id };
  return {
    id: row.id,
    messageId: row.message_id,
    contactId: row.contact_id,
    eeid,
    open: `/o/${makeDeliveryToken(KEY_RING, "open", row.id)}`,
    unsubscribe: `/u/${makeDeliveryToken(KEY_RING, "unsubscribe", row.id)}`,
    conversion: `/v/${makeDeliveryToken(KEY_RING, "conversion", row.id)}`,
    clicks: Object.fromEntries(
      [...tracked.links].map(([link, target]) => [target, `/c/${makeClickToken(KEY_RING, { ...ids, link })}`]),
    ),
  };
}

function templateOf(html: string) {
  return { from: { name: "", address: "info@north.test" }, subject: "Hello", html, unsubscribe: true };
}

async function eventsOf(db: Db, { contactId }: TestDelivery): Promise<StoredEvent[]> {
  const rows = await db("events")
    .where({ contact_id: contactId })
    .orderBy(["at", "id"])
    .select("kind", "machine", "detail", "campaign_numid", "delivery_id");
  return rows.map((row) => ({ ...row, kind: eventKindOf(row.kind) })).filter(({ kind }) => kind !== "sent");
}

/** The service looks again when it has learnt what it found: so its second look from now on tells that it knows all. */
async function linksLearnt(gate: TcpGate): Promise<void> {
  const { times } = gate;
  await eventually(
    async () => gate.times,
    (looks) => looks >= times + 2,
  );
}

function toAddress(text: string): EmailAddress {
  const address = validateAddress(text, { allowSmtputf8: true });
  if (!address.ok) throw new Error(text);
  return address.value;
}

function readConfig(environment: Readonly<Record<string, string>>): Config {
  const config = loadConfig({ PALOMAR_TRACKING_LISTEN: "127.0.0.1:0", ...environment });
  if (!config.ok) throw new Error(config.error.join("\n"));
  return config.value;
}

function makeContext(db: Db, config: Config, failures: Observation[]): ServiceContext {
  return {
    config,
    keyRing: KEY_RING,
    db,
    clock: { nowMs: () => Date.now() },
    logger: makeLogger("test", "silent"),
    observe: (observation) => {
      if (observation.level === "error") failures.push(observation);
    },
    openListenConnection: () => Promise.reject(new Error("not needed")),
    addressOf: (name) => Promise.reject(new Error(`no ${name} here`)),
  };
}

function callTracking(url: string, method: string, { headers = {}, body }: CallOptions): Promise<TrackingAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers: { "User-Agent": BROWSER, ...headers } }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers as TrackingAnswer["headers"],
          body: Buffer.concat(chunks),
        }),
      );
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
