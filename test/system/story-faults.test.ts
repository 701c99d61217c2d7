import { once } from "node:events";
import { createServer, get, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DETECTORS } from "../../services/core/mail/guard/behaviour.ts";
import { callApi } from "../support/api-client.ts";
import { addCampaign } from "../support/deployment.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import {
  eventually,
  killService,
  makeDataDir,
  removeDataDir,
  type StartedStack,
  startUsedStack,
} from "../support/stack.ts";

// Whatever is killed with `kill -9` while messages leave: what is told of them, to senders, by webhook and as a stream, is whole.
const MESSAGES = 40;
const RECIPIENTS = 15;
const PATIENCE_MS = 240_000;
const SENDER = "news@demo.example";
const KINDS = ["envio", "diferido", "entregado", "rebote_hard"];

interface Told {
  readonly id: number;
  readonly evento: string;
  readonly email: string;
}

const dataDir = makeDataDir();
/** The codes that the far side answered with, of each recipient in their order. */
const answers = new Map<string, number[]>();
/** Events as the webhook's server took them, request by request. */
const hooked: Told[][] = [];
const streamed: Told[] = [];
let stack: StartedStack;
let sink: SmtpSink;
let hook: Server;
let isOver = false;
let lastId: string | undefined;
let connections = 0;
let reading: Promise<void>;
let recipients: string[];

beforeAll(async () => {
  sink = await startSmtpSink({
    onRcptTo: ({ address }, _session, done) => {
      const code = codeFor(address);
      if (code !== 250) note(address, code);
      done(code === 250 ? null : Object.assign(new Error("5.1.1 not now, or never"), { responseCode: code }));
    },
  });
  hook = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    hooked.push(JSON.parse(Buffer.concat(chunks).toString()).eventos);
    // It has them, and its answer reaches nobody.
    if (hooked.length === 2) await killService(stack.process, "tracking");
    else response.end();
  }).listen(0, "127.0.0.1");
  await once(hook, "listening");
  const environment = {
    PALOMAR_DELIVERY: `smtp://${sink.address}`,
    PALOMAR_RETRY_SECONDS: "1",
    PALOMAR_SENDER_DOMAIN_CHECK: "false",
    PALOMAR_FETCH_ALLOW: "127.0.0.0/8",
  };
  stack = await startUsedStack(dataDir, environment, ["console", "mail-api", "submission", "delivery", "tracking"]);
  const url = `http://127.0.0.1:${(hook.address() as AddressInfo).port}/events`;
  const made = await admin("POST", "/webhooks", { url, kinds: KINDS, full: true });
  expect(made.status).toBe(200);
  // One in three is unknown: no guard is to hold the rest.
  const detectors = Object.fromEntries(DETECTORS.map((detector) => [detector, "off"]));
  expect((await admin("PATCH", "/guard", { detectors })).status).toBe(200);
}, 400_000);
afterAll(async () => {
  isOver = true;
  await stack?.stop();
  await reading;
  await sink?.close();
  hook?.close();
  removeDataDir(dataDir);
});

/** One in three is refused, and one in three is taken the second time. */
function codeFor(address: string): number {
  if (address.startsWith("refused")) return 550;
  return address.startsWith("later") && !answers.has(address) ? 450 : 250;
}

function note(address: string, code: number): void {
  answers.set(address, [...(answers.get(address) ?? []), code]);
}

/** What was taken, by recipient, beside what was refused. */
function answersOf(address: string): number[] {
  const taken = sink.messages.filter(({ rcptTo }) => rcptTo.includes(address)).map(() => 250);
  return [...(answers.get(address) ?? []), ...taken];
}

function admin(method: string, path: string, body?: unknown) {
  const { operator, instance } = stack.credentials;
  const Authorization = `Basic ${Buffer.from(`${operator.login}:${operator.password}`).toString("base64")}`;
  const url = `${stack.addresses.console}/admin/v1/instances/${instance.name}${path}`;
  return callApi(method, url, { Authorization }, body);
}

/** Reads events until the test is over, and goes on from the last one that it had whenever it is cut off. */
async function readStream(): Promise<void> {
  const { addresses, credentials } = stack;
  while (!isOver) {
    connections += 1;
    const headers = { Authorization: credentials.instance.key, ...(lastId && { "Last-Event-ID": lastId }) };
    await new Promise<void>((resolve) => {
      const request = get(`${addresses.mail_api}/v1/eventos/stream?eventos=${KINDS}`, { headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => {
          const frames = (text + chunk).split("\n\n");
          text = frames.pop()!;
          for (const frame of frames) {
            lastId = /^id: (\d+)$/m.exec(frame)?.[1] ?? lastId;
            const data = /^data: (.*)$/m.exec(frame)?.[1];
            if (data !== undefined) streamed.push(JSON.parse(data));
          }
          if (isOver) request.destroy();
        });
        response.on("error", () => {});
      });
      request.on("error", () => {}).on("close", () => setTimeout(resolve, 50));
    });
  }
}

async function submitAll(): Promise<string[]> {
  const mailApi = (method: string, path: string, body?: unknown) =>
    callApi(method, `${stack.addresses.mail_api}/v1${path}`, { Authorization: stack.credentials.instance.key }, body);
  const numid = await addCampaign(mailApi, SENDER);
  const { body } = await mailApi("GET", `/campania_apikey?numid=${numid}`);
  const [host, port] = stack.addresses.submissions.split(":") as [string, string];
  const transport = createTransport({
    ...{ host, port: Number(port), secure: true, tls: { rejectUnauthorized: false }, pool: true },
    auth: { user: `${stack.credentials.instance.name}-${numid}`, pass: body.camp_apikey },
  });
  const all: string[] = [];
  for (let message = 0; message < MESSAGES; message++) {
    const kinds = ["taken", "refused", "later"];
    const to = Array.from({ length: RECIPIENTS }, (_, n) => `${kinds[n % 3]}${n}@d${message}.example.net`);
    await transport.sendMail({
      ...{ from: SENDER, subject: "Hi", text: "Hi", envelope: { from: SENDER, to } },
      dsn: { notify: "failure,delay", return: "headers" },
    } as object);
    all.push(...to);
  }
  transport.close();
  return all;
}

const answered = (count: number) =>
  eventually(
    async () => [...answers.values()].flat().length + sink.messages.length,
    (answers) => answers >= count,
    PATIENCE_MS,
  );

/** All of a search, page by page. */
async function findAll(): Promise<{ id: number; recipient: string; state: string }[]> {
  const found = [];
  for (let next = ""; ; ) {
    const { status, body } = await admin("GET", `/messages?limit=500${next && `&after=${encodeURIComponent(next)}`}`);
    expect(status).toBe(200);
    found.push(...body.messages);
    if (body.next === null) return found;
    next = body.next;
  }
}

async function attemptsOf(id: number): Promise<{ outcome: string; code: number | null }[]> {
  return (await admin("GET", `/messages/${id}`)).body.attempt_list;
}

/** How an attempt is told as an event. */
const EVENTS: Readonly<Record<string, string>> = {
  delivered: "entregado",
  deferred: "diferido",
  bounced: "rebote_hard",
};
/** What is to be told of each recipient, in its order. */
const expected = new Map<string, string[]>();

test("the worker is killed, twice: no outcome is lost, attempts are those of the far side's log, and senders are told", async () => {
  reading = readStream();
  await eventually(
    async () => lastId,
    (id) => id !== undefined,
  );
  const sending = submitAll();
  const cutting = eventually(
    async () => streamed.length,
    (events) => events >= 100,
    PATIENCE_MS,
  ).then(() => killService(stack.process, "mail-api"));
  await answered(60);
  await killService(stack.process, "delivery");
  await answered(300);
  await killService(stack.process, "delivery");
  recipients = await sending;
  await cutting;
  // One in three is asked twice: before that nobody needs to look, and a look reads all of them.
  await answered((recipients.length * 4) / 3);
  const found = await eventually(
    findAll,
    (messages) => messages.length === recipients.length && messages.every(({ state }) => /^(deliv|bounc)/.test(state)),
    PATIENCE_MS,
  );
  // A report to the sender is nobody's message.
  expect(found.map(({ recipient }) => recipient).toSorted()).toEqual(recipients.toSorted());
  let repeated = 0;
  for (const { id, recipient, state } of found) {
    const attempts = await attemptsOf(id);
    const codes = attempts.map(({ code }) => code);
    const log = answersOf(recipient);
    expect(state).toBe(recipient.startsWith("refused") ? "bounced" : "delivered");
    expect(codes.at(-1)).toBe(log.at(-1));
    // What the worker was told and had not stored when it died was asked for again.
    const noted = log.filter((code) => codes.includes(code));
    expect([...new Set(noted)]).toEqual(codes);
    repeated += log.length - codes.length;
    expected.set(recipient, ["envio", ...attempts.map(({ outcome }) => EVENTS[outcome]!)]);
  }
  process.stdout.write(`${recipients.length} recipients, ${repeated} answers of the far side were asked for again\n`);
  const refused = recipients.filter((recipient) => recipient.startsWith("refused"));
  await eventually(
    async () => {
      const reports = sink.messages.filter(({ rcptTo, mailFrom }) => rcptTo.includes(SENDER) && mailFrom === "");
      const text = reports.map(({ octets }) => octets.toString("latin1")).join("\r\n");
      return refused.filter((one) => !text.includes(`Final-Recipient: rfc822; ${one}\r\nAction: failed`));
    },
    (untold) => untold.length === 0,
    PATIENCE_MS,
  );
}, 600_000);

test("the API that streams was killed as well: a reader goes on from the last that it had, without a gap", async () => {
  await toldAll(() => streamed);
  expect(connections).toBeGreaterThan(1);
  const ids = streamed.map(({ id }) => id);
  expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b));
}, 600_000);

test("so was who tells a webhook, in the midst of it: every event comes at least once, in order for each recipient", async () => {
  await toldAll(() => hooked.flat());
  expect(hooked.length).toBeGreaterThan(2);
  // The one whose answer reached nobody came again as it was.
  expect(hooked.filter((events) => JSON.stringify(events) === JSON.stringify(hooked[1]))).toHaveLength(2);
}, 600_000);

/** Until each recipient's events are there, the first time that each came in their order. */
async function toldAll(read: () => Told[]): Promise<void> {
  const first = () => new Map(read().map((event) => [event.id, event]));
  const count = [...expected.values()].flat().length;
  await eventually(
    async () => first().size,
    (told) => told >= count,
    PATIENCE_MS,
  );
  const told = new Map<string, string[]>();
  for (const { email, evento } of first().values()) told.set(email, [...(told.get(email) ?? []), evento]);
  expect(told).toEqual(expected);
}
