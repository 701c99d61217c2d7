import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../../services/platform/postgres/db.ts";
import { SubmissionClient, type SubmissionServer } from "./mail-client.ts";

/** Whose mail is sent. */
export interface Sender {
  /** Name of the instance. */
  readonly instance: string;
  readonly campaign: { readonly numid: number; readonly apikey: string };
  /** Key of the instance. */
  readonly key: string;
  readonly domain: string;
}

/** What the API and delivery made of a batch. */
export interface BatchResult {
  /** The slowest call with CONTACTS_PER_CALL contacts. */
  readonly callMs: number;
  readonly deliveredPerSecond: number;
}

export interface SubmissionWay {
  readonly connections: number;
  readonly tls: boolean;
}

/** What became of messages that came so, messages a second. */
export interface SubmissionResult extends SubmissionWay {
  /** Until the last one was accepted and durable. */
  readonly acceptedPerSecond: number;
  /** Until the sink had the last one. */
  readonly deliveredPerSecond: number;
}

/** What a server is given, Palomar and Postfix alike. */
export interface SubmissionLoad extends SubmissionWay {
  readonly messages: number;
  /** Of the sender. */
  readonly domain: string;
}

const CONTACTS_PER_CALL = 10_000;
const LARGEST_CALLS = { contacts: 50_000, clients: 2 };

/** About 10 KB, personalised, with a link on each line. */
export const BATCH_HTML = `<html><body><p>Dear XYZNOMBREXYZ</p>${"<p>Lorem ipsum dolor sit amet, <a href='http://example.org/x'>consectetur</a>.</p>\n".repeat(125)}</body></html>`;

/**
 * From the first call of `send_many_inline` to the last message that the sink took.
 * @param from number of the first recipient: none of them is a contact yet
 */
export async function measureBatch(
  db: Db,
  api: string,
  sender: Sender,
  { from, recipients }: { readonly from: number; readonly recipients: number },
): Promise<BatchResult> {
  const startedAt = performance.now();
  let callMs = 0;
  for (let first = 0; first < recipients; first += CONTACTS_PER_CALL) {
    const count = Math.min(CONTACTS_PER_CALL, recipients - first);
    callMs = Math.max(callMs, await sendMany(api, sender, { first: from + first, count }));
  }
  await untilDelivered(db);
  const deliveredPerSecond = report("API call to the last message accepted by the sink", recipients, startedAt);
  return { callMs, deliveredPerSecond };
}

export async function untilDelivered(db: Db): Promise<void> {
  const left = async () => Number((await db("deliveries").where({ state: "queued" }).count())[0]?.count);
  for (let queued = await left(); queued > 0; queued = await left()) await sleep(queued > 2_000 ? 500 : 50);
}

/**
 * Submission, from the first message to the last one that the sink took.
 * @param untilDelivered resolves when the server has delivered all
 */
export async function measureSubmission(
  server: SubmissionServer,
  load: SubmissionLoad,
  untilDelivered: () => Promise<void>,
): Promise<SubmissionResult> {
  const startedAt = performance.now();
  const acceptedPerSecond = await submit(server, load);
  await untilDelivered();
  const { connections, tls } = load;
  const deliveredPerSecond = report(`submission by ${describeWay(load)}, delivered`, load.messages, startedAt);
  return { connections, tls, acceptedPerSecond, deliveredPerSecond };
}

/** Calls of 50,000 contacts by two clients, until the last is answered: what was accepted is durable then. @returns seconds */
export async function measureCalls(api: string, sender: Sender, recipients: number): Promise<number> {
  const { contacts, clients } = LARGEST_CALLS;
  let next = 0;
  const client = async () => {
    while (next < recipients) {
      const first = next;
      next += contacts;
      await sendMany(api, sender, { first, count: Math.min(contacts, recipients - first) });
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: clients }, client));
  const seconds = (performance.now() - startedAt) / 1000;
  print(`${recipients} contacts in calls of ${contacts} by ${clients} clients: ${seconds.toFixed(1)} s`);
  return seconds;
}

/** One call of `send_many_inline`. @returns how long it took, in ms */
async function sendMany(
  api: string,
  sender: Sender,
  { first, count }: { readonly first: number; readonly count: number },
): Promise<number> {
  const contactos = Array.from({ length: count }, (_, i) => ({
    email: `r${first + i}@d${i % 20}.example.net`,
    nombre: `Name ${i}`,
  }));
  const body = JSON.stringify({ campana_id: sender.campaign.numid, email: true, contactos, html: BATCH_HTML });
  const callAt = performance.now();
  const response = await fetch(`${api}/v1/envio/send_many_inline`, {
    method: "POST",
    headers: { Authorization: sender.key, "Content-Type": "application/json" },
    body,
  });
  const { sent } = (await response.json()) as { sent: number };
  if (sent !== count) throw new Error(`of ${count} contacts ${sent} were accepted: ${response.status}`);
  const answeredMs = Math.round(performance.now() - callAt);
  print(`send_many_inline: ${sent} contacts accepted in ${answeredMs} ms`);
  return answeredMs;
}

/** @example "20 connections in TLS" */
export function describeWay({ connections, tls }: SubmissionWay): string {
  return `${connections} connections in ${tls ? "TLS" : "plain text"}`;
}

/** @returns messages accepted a second */
export async function submit(
  server: SubmissionServer,
  { messages, connections, tls, domain }: SubmissionLoad,
): Promise<number> {
  const body = "Lorem ipsum dolor sit amet, consectetur adipiscing.\r\n".repeat(190);
  const from = `info@${domain}`;
  let next = 0;
  const startedAt = performance.now();
  const client = async () => {
    const connection = await SubmissionClient.open(server, tls);
    while (next < messages) {
      const to = `s${next++}@d${next % 20}.example.net`;
      const header = `From: ${from}\r\nTo: ${to}\r\nSubject: bench\r\nMessage-ID: <${next}@${domain}>\r\n\r\n`;
      await connection.send({ from, to }, header + body);
    }
    await connection.quit();
  };
  await Promise.all(Array.from({ length: connections }, client));
  return report(`submission by ${describeWay({ connections, tls })}, accepted and durable`, messages, startedAt);
}

/** @returns how many a second */
function report(what: string, count: number, startedAt: number): number {
  const seconds = (performance.now() - startedAt) / 1000;
  print(`${what}: ${count} messages in ${seconds.toFixed(1)} s, ${Math.round(count / seconds)} a second`);
  return count / seconds;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
