/**
 * `npm run soak -- [--minutes n]`: a whole stack under mixed load, 30 minutes unless said: zones are changed and asked
 * for, mail goes out by API and by SMTP, bounces, opens and clicks come back. Memory is taken after a warm-up of a fifth
 * of the time and at the end; it must be flat, no answer may be wrong, and nothing that was acknowledged lost. The exit
 * status is 1 otherwise.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { simpleParser } from "mailparser";
import { createTransport } from "nodemailer";
import { callApi } from "../support/api-client.ts";
import { dnsApiOf, mailApiOf, sendTo, zoneBody } from "../support/deployment.ts";
import { askDns, askDnsTimes, dataOf } from "../support/dns-client.ts";
import { residentMemory } from "../support/resident-memory.ts";
import { eventually, makeDataDir, removeDataDir, startStack } from "../support/stack.ts";

const { values } = parseArgs({ options: { minutes: { type: "string", default: "30" } } });
const MINUTES = Number(values.minutes);
if (!(MINUTES > 0)) {
  process.stderr.write("soak: --minutes takes a number above 0\n");
  process.exit(2);
}
/** Of the resident memory of all processes together, over the second part of the run. */
const MOST_GROWTH = 0.1;
/** Who opens what is submitted. */
const SUBMITTED_TO = "reader@example.net";

const dataDir = makeDataDir();
const stack = await startStack(dataDir, { PALOMAR_API_REQUESTS_PER_SECOND: "100000" });
const { credentials, addresses } = stack;
const accounts = {
  reseller: { reseller_id: credentials.reseller.id, key: credentials.reseller.key },
  instance: { name: credentials.instance.name, key: credentials.instance.key },
};
const dnsApi = dnsApiOf(addresses.dns_api, accounts);
const mailApi = mailApiOf(addresses.mail_api, accounts);
const { login, password } = credentials.operator;
const operator = { Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}` };
const counts = { changes: 0, queries: 0, messages: 0, submissions: 0, touches: 0, requests: 0 };
const wrong: string[] = [];
let stopped = false;

try {
  await makeZones();
  const campaign = await makeCampaign();
  await sendTo(mailApi, campaign.numid, ["p1@example.net"]);
  const work = [
    changeZones(),
    ...[0, 1, 2, 3].map(askZones),
    sendMail(campaign.numid),
    submitMail(campaign),
    touchMail(),
    readApis(),
  ];
  await sleep((MINUTES * 60_000) / 5);
  const before = memoryNow();
  for (let left = MINUTES * 0.8; left > 0; left -= 1) {
    await sleep(Math.min(left, 1) * 60_000);
    process.stdout.write(`${JSON.stringify({ residentMb: memoryNow(), ...counts })}\n`);
  }
  stopped = true;
  await Promise.all(work);
  const after = memoryNow();
  const queue = await drained();
  const growth = total(after) / total(before) - 1;
  process.stdout.write(
    `${JSON.stringify({ minutes: MINUTES, ...counts, before, after, growth, queue, wrong: wrong.slice(0, 20) })}\n`,
  );
  if (growth > MOST_GROWTH || wrong.length > 0 || queue > 0) process.exitCode = 1;
} finally {
  await stack.stop();
  removeDataDir(dataDir);
}

async function makeZones(): Promise<void> {
  for (let zone = 0; zone < 50; zone += 1) {
    await dnsApi("POST", `/master_zone/z${zone}.test`, { ...zoneBody(`z${zone}.test`), crm_id: "demo" });
    await dnsApi("POST", `/rr/z${zone}.test`, { name: "stable", type: "A", value: "192.0.2.1" });
  }
  await eventually(
    () => askDns(addresses.dns, "stable.z49.test", "A"),
    (answer) => dataOf(answer)[0] === "192.0.2.1",
  );
}

async function makeCampaign(): Promise<{ readonly numid: number; readonly camp_apikey: string }> {
  const made = await mailApi("POST", "/campania/", {
    ...{ tipo: "api", nombre: "soak", remitente: "news@demo.example", remitente_nombre: "News", asunto: "Hello" },
    ...{ url: "http://www.demo.example/", charset: "utf8", desusc: "si" },
  });
  return made.body;
}

/** Records come and go, so that what is stored does not grow. */
async function changeZones(): Promise<void> {
  for (let turn = 0; !stopped; turn += 1) {
    const zone = `z${turn % 50}.test`;
    const added = await dnsApi("POST", `/rr/${zone}`, { name: `h${turn}`, type: "A", value: "192.0.2.2" });
    if (added.status !== 200) wrong.push(`rr: ${added.status}`);
    else await dnsApi("DELETE", `/rr/${zone}/${added.body.rr_id}`);
    counts.changes += 2;
    await sleep(10);
  }
}

async function askZones(): Promise<void> {
  for (let turn = 0; !stopped; turn += 1) {
    const name = `stable.z${turn % 50}.test`;
    const asked = turn % 20 === 0 ? askDns(addresses.dns, name, "A", "tcp") : askDnsTimes(1, addresses.dns, name, "A");
    const answer = await asked.catch((error: Error) => error);
    if (answer instanceof Error || dataOf(answer)[0] !== "192.0.2.1") wrong.push(`dns: ${String(answer)}`);
    counts.queries += 1;
    await sleep(2);
  }
}

/** The same people again and again: contacts do not grow, events do, which the database keeps. */
async function sendMail(numid: number): Promise<void> {
  while (!stopped) {
    const emails = Array.from({ length: 20 }, (_, index) => `${index === 0 ? "full+" : ""}p${index}@example.net`);
    const sent = await sendTo(mailApi, numid, emails);
    if (sent.body.sent !== 20) wrong.push(`send: ${JSON.stringify(sent.body)}`);
    counts.messages += 20;
    await sleep(250);
  }
}

/** A session for each message, as programs that send now and then do it. */
async function submitMail({ numid, camp_apikey }: { numid: number; camp_apikey: string }): Promise<void> {
  const [host, port] = addresses.submission.split(":") as [string, string];
  const transport = createTransport({
    host,
    port: Number(port),
    requireTLS: true,
    tls: { rejectUnauthorized: false },
    auth: { user: `${accounts.instance.name}-${numid}`, pass: camp_apikey },
  });
  const html = '<p>Hello, <a href="http://www.demo.example/offer">look</a></p>';
  for (let turn = 0; !stopped; turn += 1) {
    const to = turn % 5 === 0 ? "full+smtp@example.net" : SUBMITTED_TO;
    await transport
      .sendMail({ from: "news@demo.example", to, subject: `Turn ${turn}`, html })
      .catch((error: Error) => wrong.push(`submission: ${error.message}`));
    counts.submissions += 1;
    await sleep(250);
  }
}

/** Whoever gets submitted mail opens it and follows its link, every time. */
async function touchMail(): Promise<void> {
  let read = 0;
  while (!stopped) {
    const { body } = await callApi("GET", `${addresses.console}/admin/v1/sandbox/messages`, operator);
    const newest = body.messages.find(({ id, to }: { id: number; to: string }) => id > read && to === SUBMITTED_TO);
    if (newest !== undefined) {
      read = newest.id;
      const raw = await callApi("GET", `${addresses.console}/admin/v1/sandbox/messages/${read}`, operator);
      const { html } = await simpleParser(raw.body);
      for (const [, url] of String(html).matchAll(/(?:href|src)="(http[^"]+)"/g)) await touch(url!);
    }
    await sleep(100);
  }
}

async function touch(url: string): Promise<void> {
  const { status } = await fetch(url, { redirect: "manual", headers: { "User-Agent": "Mozilla/5.0 (X11; Linux)" } });
  if (status !== 302 && status !== 200) wrong.push(`touch: ${status} for ${url}`);
  counts.touches += 1;
}

async function readApis(): Promise<void> {
  while (!stopped) {
    for (const answer of await Promise.all([
      dnsApi("GET", "/domain_list"),
      mailApi("GET", "/contacto/p1%40example.net"),
      callApi("GET", `${addresses.metrics}/metrics`, {}),
    ])) {
      if (answer.status !== 200) wrong.push(`api: ${answer.status}`);
      counts.requests += 1;
    }
    await sleep(500);
  }
}

/** What still waits, once it has had its time. */
async function drained(): Promise<number> {
  const read = async () => {
    const { body } = await callApi("GET", `${addresses.metrics}/metrics`, {});
    return Number(/^palomar_queue_recipients (\d+)/m.exec(body)?.[1] ?? Number.NaN);
  };
  return eventually(read, (recipients) => recipients === 0, 120_000).catch(read);
}

/** In megabytes. */
function memoryNow(): Record<string, number> {
  const octets = Object.entries(residentMemory(stack.process.pid!));
  return Object.fromEntries(octets.map(([name, resident]) => [name, Math.round(resident / 1e6)]));
}

function total(memory: Readonly<Record<string, number>>): number {
  return Object.values(memory).reduce((sum, megabytes) => sum + megabytes, 0);
}
