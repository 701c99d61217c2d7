import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { mostUnnoted, readDeliveryPolicy } from "../../services/delivery/policy.ts";
import { callApi } from "../support/api-client.ts";
import { addCampaign } from "../support/deployment.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import {
  eventually,
  killService,
  killStack,
  makeDataDir,
  removeDataDir,
  type StartedStack,
  startStack,
  startUsedStack,
} from "../support/stack.ts";

// Whatever is killed with `kill -9` in the midst of a large send: who was acknowledged gets the message.
const RECIPIENTS = 1_200;
const PER_CALL = 120;
const SERVICES = ["mail-api", "delivery", "console"] as const;
const PATIENCE_MS = 240_000;
/** What one worker that dies has sent and not yet noted, at most. */
const MOST_REPEATED = mostRepeated();

const dataDir = makeDataDir();
let stack: StartedStack;
let sink: SmtpSink;
let environment: Record<string, string>;
let campaign: number;

beforeAll(async () => {
  sink = await startSmtpSink();
  environment = {
    PALOMAR_DELIVERY: `smtp://${sink.address}`,
    PALOMAR_RETRY_SECONDS: "1,2,4",
    PALOMAR_SENDER_DOMAIN_CHECK: "false",
    PALOMAR_TRACKING_URL: "http://touch.test",
  };
  stack = await startUsedStack(dataDir, environment, SERVICES);
  campaign = await addCampaign(mailApi, "news@demo.example");
}, 400_000);
afterAll(async () => {
  await stack?.stop();
  await sink?.close();
  removeDataDir(dataDir);
});

function mailApi(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
  const { addresses, credentials } = stack;
  const all = { Authorization: credentials.instance.key, ...headers };
  return callApi(method, `${addresses.mail_api}/v1${path}`, all, body);
}

function admin(method: string, path: string, body?: unknown) {
  const { login, password } = stack.credentials.operator;
  const basic = Buffer.from(`${login}:${password}`).toString("base64");
  return callApi(method, `${stack.addresses.console}/admin/v1${path}`, { Authorization: `Basic ${basic}` }, body);
}

/**
 * Sends to all of a domain's family, call by call; a call without an answer is repeated under its key.
 * @param eeids of the calls that were acknowledged
 */
async function sendToAll(name: string, eeids: string[] = []): Promise<string[]> {
  for (let first = 0; first < RECIPIENTS; first += PER_CALL) {
    const contactos = Array.from({ length: PER_CALL }, (_, n) => ({ email: addressOf(name, first + n) }));
    const fields = { campana_id: campaign, email: true, contactos, html: "<p>Hello XYZEMAILXYZ</p>" };
    const answer = await eventually(
      () =>
        mailApi("POST", "/envio/send_many_inline/", fields, { "Idempotency-Key": `${name} ${first}` }).catch(() => ({
          status: 0,
          body: undefined,
        })),
      ({ status }) => status === 200,
      PATIENCE_MS,
    );
    expect(answer.body.sent).toBe(PER_CALL);
    eeids.push(answer.body.eeid);
  }
  return eeids;
}

const addressOf = (name: string, number: number) => `r${number}@d${number % 25}.${name}.example.net`;
const arrived = (name: string) =>
  sink.messages.flatMap(({ rcptTo }) => rcptTo.filter((to) => to.endsWith(`.${name}.example.net`)));

/** @param deaths of workers, while that was being sent */
async function untilEverybodyHasIt(name: string, deaths = 1): Promise<void> {
  await eventually(
    async () => new Set(arrived(name)).size,
    (count) => count === RECIPIENTS,
    PATIENCE_MS,
  );
  const doubled = arrived(name).length - RECIPIENTS;
  const bound = deaths * MOST_REPEATED;
  process.stdout.write(`${name}: ${RECIPIENTS} recipients have it, ${doubled} messages came twice (bound: ${bound})\n`);
  expect(doubled).toBeLessThanOrEqual(bound);
}

function mostRepeated(): number {
  const policy = readDeliveryPolicy(JSON.parse(readFileSync(join("config", "delivery.json"), "utf8")));
  if (!policy.ok) throw new Error(policy.error);
  // No far side of these tests lets a lane wait.
  return mostUnnoted(policy.value, policy.value.lanes);
}

async function untilSent(eeids: readonly string[]): Promise<void> {
  for (const eeid of eeids) {
    const { body } = await eventually(
      () => admin("GET", `/instances/${stack.credentials.instance.name}/batches/${eeid}`),
      ({ body }) => body?.estado === "enviado",
      PATIENCE_MS,
    );
    expect(body).toMatchObject({ entregados: PER_CALL, en_cola: 0, salidas_con_error: 0 });
  }
}

const someArrived = (name: string, count: number) =>
  eventually(
    async () => arrived(name).length,
    (arrivals) => arrivals >= count,
    PATIENCE_MS,
  );

test("the worker is killed, twice", async () => {
  const sending = sendToAll("worker");
  await someArrived("worker", 120);
  await killService(stack.process, "delivery");
  await someArrived("worker", 600);
  await killService(stack.process, "delivery");
  const eeids = await sending;
  await untilEverybodyHasIt("worker", 2);
  await untilSent(eeids);
}, 600_000);

test("the API is killed while it accepts", async () => {
  const eeids: string[] = [];
  const sending = sendToAll("api", eeids);
  // Each time the next call is already under way.
  for (const acknowledged of [2, 4, 7]) {
    await eventually(
      async () => eeids.length,
      (calls) => calls >= acknowledged,
      PATIENCE_MS,
    );
    await killService(stack.process, "mail-api");
  }
  await sending;
  expect(new Set(eeids).size).toBe(RECIPIENTS / PER_CALL);
  await untilEverybodyHasIt("api");
  await untilSent(eeids);
}, 600_000);

test("PostgreSQL is killed", async () => {
  const sending = sendToAll("postgres");
  await someArrived("postgres", 120);
  const postmaster = Number(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
  process.kill(postmaster, "SIGKILL");
  const eeids = await sending;
  await untilEverybodyHasIt("postgres");
  await untilSent(eeids);
}, 600_000);

test("everything is killed while a campaign gathers its recipients: nobody is lost, nobody noted twice", async () => {
  const instance = `/instances/${stack.credentials.instance.name}`;
  const csv = Array.from({ length: RECIPIENTS }, (_, n) => `${addressOf("campaign", n)},everybody`).join("\n");
  const { job } = (await importContacts(`email,grupos\n${csv}\n`)).body;
  await eventually(
    () => admin("GET", `/jobs/${job}`),
    ({ body }) => body.state === "done",
    PATIENCE_MS,
  );
  const { numid } = (await mailApi("POST", "/campania/", { tipo: "normal", nombre: "killed" })).body;
  const message = { remitente: "news@demo.example", asunto: "Hi", html: "<p>Hi</p>", grupos: ["everybody"] };
  await admin("PUT", `${instance}/campaigns/${numid}/message`, message);
  await admin("POST", `${instance}/campaigns/${numid}/start`);
  await eventually(
    () => admin("GET", `${instance}/campaigns/${numid}`),
    ({ body }) => body.estado !== "programado",
    PATIENCE_MS,
  );
  await killStack(stack.process);
  stack = await startStack(dataDir, environment, SERVICES);
  const { body } = await eventually(
    () => admin("GET", `${instance}/campaigns/${numid}`),
    ({ body }) => body.estado === "enviado",
    PATIENCE_MS,
  );
  const batch = await admin("GET", `${instance}/batches/${body.eeid}`);
  expect(batch.body).toMatchObject({ destinatarios: RECIPIENTS, entregados: RECIPIENTS });
  await untilEverybodyHasIt("campaign");

  function importContacts(text: string) {
    const { login, password } = stack.credentials.operator;
    return callApi(
      "POST",
      `${stack.addresses.console}/admin/v1${instance}/contacts/import`,
      {
        Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`,
        "Content-Type": "text/csv",
      },
      text,
    );
  }
}, 600_000);
