import { setTimeout as sleep } from "node:timers/promises";
import { KeyRing } from "../../services/core/key-ring.ts";
import { readBounceToken } from "../../services/core/mail/tokens.ts";
import { start as startDelivery } from "../../services/delivery/main.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { type Config, loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { AddressName, RunningService, ServiceContext, StartService } from "../../services/platform/service.ts";
import { start as startSandbox } from "../../services/sandbox/main.ts";
import { listSandboxMessages, readSandboxMessage } from "../../services/store/mail/inbound/sandbox-messages.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { type ApiAnswer, callApi } from "./api-client.ts";
import { createTestDatabase } from "./database.ts";
import { addTestInstance } from "./instances.ts";
import { queuedDeliveries } from "./spread-tables.ts";

/** The services of the mail side that a test starts, each the real one. */
export const MAIL_SERVICES = { api: startMailApi, delivery: startDelivery, sandbox: startSandbox } as const;

export interface SandboxedMessage {
  readonly subject: string;
  readonly outcome: string;
  readonly octets: Buffer;
}

export interface MailStack {
  readonly context: ServiceContext;
  readonly instanceId: number;
  /** Errors that were logged. */
  readonly failures: readonly Observation[];
  /** Calls the API as the instance. */
  call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ApiAnswer>;
  /** Creates an `api` campaign. @param headers of another instance @returns its numid */
  addCampaign(changes?: Readonly<Record<string, unknown>>, headers?: Readonly<Record<string, string>>): Promise<number>;
  /** Starts one more service. */
  run(start: StartService): Promise<RunningService>;
  /** Where a service that the stack does not run listens. */
  setAddress(name: AddressName, address: string): void;
  /** What the sandbox holds for an address, oldest first. */
  inbox(rcptTo: string): Promise<SandboxedMessage[]>;
  /** The newest message that an address got from one batch: other batches' mail may arrive meanwhile. */
  newestOf(eeid: string, rcptTo: string): Promise<SandboxedMessage>;
  stop(): Promise<void>;
}

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
export const TEST_DOMAIN = "sender.example.org";

/** Services of the mail side on a database of their own, talking over real sockets. */
export async function startMailStack(
  services: readonly StartService[] = Object.values(MAIL_SERVICES),
  environment: Readonly<Record<string, string>> = {},
): Promise<MailStack> {
  const { db, url, drop } = await createTestDatabase(20);
  const failures: Observation[] = [];
  const addresses = new Map<AddressName, string>([["tracking", "http://127.0.0.1:9"]]);
  const context: ServiceContext = {
    config: readConfig(environment),
    keyRing: KEY_RING,
    db,
    clock: systemClock,
    logger: makeLogger("test", "silent"),
    observe: (observation) => {
      if (observation.level === "error") failures.push(observation);
    },
    openListenConnection: () => openListenConnection(url, "test"),
    addressOf: async (name) => {
      for (let waitedMs = 0; !addresses.has(name); waitedMs += 20) {
        if (waitedMs > 10_000) throw new Error(`${name} does not listen`);
        await sleep(20);
      }
      return addresses.get(name)!;
    },
  };
  const key = "key-of-the-instance";
  await addTestInstance(db, KEY_RING, { name: "test", host: "mail.test", key, archive: true, domains: [TEST_DOMAIN] });
  const instanceId = (await findInstanceByName(db, "test"))!.id;
  const running: RunningService[] = [];
  const run = async (start: StartService) => {
    const service = await start(context);
    running.push(service);
    for (const [name, address] of Object.entries(service.addresses)) addresses.set(name as AddressName, address!);
    return service;
  };
  for (const start of services) await run(start);

  const call: MailStack["call"] = (method, path, body, headers = {}) =>
    callApi(method, `${addresses.get("mail_api")}/v1${path}`, { Authorization: key, ...headers }, body);
  const inbox: MailStack["inbox"] = async (rcptTo) => {
    const found = (await listSandboxMessages(db, { limit: 10_000 })).filter((message) => message.rcptTo === rcptTo);
    return Promise.all(
      found
        .reverse()
        .map(async ({ id, subject, outcome }) => ({ subject, outcome, octets: (await readSandboxMessage(db, id))! })),
    );
  };
  return {
    context,
    instanceId,
    failures,
    call,
    inbox,
    newestOf: async (eeid, rcptTo) => {
      const deliveries: number[] = await queuedDeliveries(db).where({ eeid }).pluck("deliveries.id");
      const ofBatch = (await inbox(rcptTo)).filter(({ octets }) => deliveries.includes(deliveryOf(octets)));
      const newest = ofBatch.at(-1);
      if (!newest) throw new Error(`no message of ${eeid} came for ${rcptTo}`);
      return newest;
    },
    run,
    setAddress: (name, address) => addresses.set(name, address),
    addCampaign: async (changes = {}, headers = {}) => {
      const answer = await call("POST", "/campania/", { ...CAMPAIGN, ...changes }, headers);
      if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
      return answer.body.numid;
    },
    stop: async () => {
      for (const service of running.reverse()) await service.stop();
      await drop();
    },
  };
}

/** @returns the id of the delivery that a message's token names, or NaN where it has none */
function deliveryOf(octets: Buffer): number {
  const [, token = ""] = /^X-Delivery-Token: (\S+)/m.exec(octets.toString("latin1")) ?? [];
  const read = readBounceToken(KEY_RING, token, new Date());
  return read.ok ? Number(read.value.deliveryId) : Number.NaN;
}

const CAMPAIGN = {
  tipo: "api",
  nombre: "test",
  remitente: `info@${TEST_DOMAIN}`,
  remitente_nombre: "The Sender",
  asunto: "Hello",
  url: "http://example.org/",
  charset: "utf8",
  desusc: "no",
};

function readConfig(environment: Readonly<Record<string, string>>): Config {
  const free = ["MAIL_API", "SANDBOX", "MX", "SUBMISSION", "SUBMISSIONS", "TRACKING"].map((name) => [
    `PALOMAR_${name}_LISTEN`,
    "127.0.0.1:0",
  ]);
  const config = loadConfig({ ...Object.fromEntries(free), PALOMAR_RETRY_SECONDS: "1,1,1", ...environment });
  if (!config.ok) throw new Error(config.error.join("\n"));
  return config.value;
}
