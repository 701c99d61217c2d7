import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import * as dnsPacket from "dns-packet";
import type { ApiAnswer } from "../../support/api-client.ts";
import { exchangeDatagram } from "../../support/datagrams.ts";
import { startSmtpSink } from "../../support/smtp-sink.ts";

type Api = (method: string, path: string, body?: unknown) => Promise<ApiAnswer>;

/** How long something took, each time, in milliseconds; what never came counts as the whole patience. */
export interface Times {
  readonly ms: readonly number[];
  /** Of that, until the API answered. */
  readonly answerMs: readonly number[];
  /** What was refused, with its answer. */
  readonly refused: readonly string[];
}

const PATIENCE_MS = 30_000;
const CHANGE_INTERVAL_MS = 500;
const SEND_INTERVAL_MS = 1_000;
const WIRE_POLL_MS = 10;
const ARRIVAL_POLL_MS = 5;

/** The neighbour's changes: from the call until the name server gives the record. */
export function changeZone(api: Api, zone: string, dns: string, isOver: () => boolean): Promise<Times> {
  return measureEvenly(CHANGE_INTERVAL_MS, isOver, async (begun, answered) => {
    const name = `n-${randomUUID()}`;
    const made = await api("POST", `/rr/${zone}`, { name, type: "A", value: "192.0.2.7" });
    if (made.status !== 200) throw new Error(JSON.stringify(made.body));
    answered();
    await untilOnTheWire(dns, `${name}.${zone}`, begun);
    return performance.now();
  });
}

/** The neighbour's sends: from the call until the message is at its recipient's host. */
export function sendMail(api: Api, campaign: number, { arrivals }: MailHost, isOver: () => boolean): Promise<Times> {
  return measureEvenly(SEND_INTERVAL_MS, isOver, async (begun, answered) => {
    const email = `${randomUUID()}@readers.test`;
    const message = { campana_id: campaign, email: true, contacto: { email }, html: "<p>Hello</p>" };
    const sent = await api("POST", "/envio/send_one_inline/", message);
    if (sent.body?.sent !== 1) throw new Error(JSON.stringify(sent.body));
    answered();
    while (!arrivals.has(email) && performance.now() - begun < PATIENCE_MS) await sleep(ARRIVAL_POLL_MS);
    return arrivals.get(email) ?? begun + PATIENCE_MS;
  });
}

/** Begins one after another at an even pace, whatever becomes of those before. @param step gives the moment of its end */
async function measureEvenly(
  intervalMs: number,
  isOver: () => boolean,
  step: (begun: number, answered: () => void) => Promise<number>,
): Promise<Times> {
  const ms: number[] = [];
  const answerMs: number[] = [];
  const refused: string[] = [];
  const running: Promise<void>[] = [];
  while (!isOver()) {
    const begun = performance.now();
    const done = step(begun, () => void answerMs.push(performance.now() - begun)).then(
      (end) => {
        ms.push(end - begun);
      },
      (error: Error) => {
        refused.push(error.message);
      },
    );
    running.push(done);
    await sleep(intervalMs);
  }
  await Promise.all(running);
  return { ms, answerMs, refused };
}

async function untilOnTheWire(dns: string, name: string, begun: number): Promise<void> {
  const [host, port] = dns.split(":") as [string, string];
  const query = dnsPacket.encode({ type: "query", id: 1, questions: [{ name, type: "A" }] });
  while (performance.now() - begun < PATIENCE_MS) {
    const answer = await exchangeDatagram(query, { host, port: Number(port) }, { sendings: 50, everyMs: 100 });
    if ((dnsPacket.decode(answer).answers ?? []).length > 0) return;
    await sleep(WIRE_POLL_MS);
  }
}

export type MailHost = Awaited<ReturnType<typeof startMailHost>>;

/** Where mail goes: a host that takes most of it, and says no to some at once. */
export async function startMailHost() {
  const arrivals = new Map<string, number>();
  const sink = await startSmtpSink({
    onRcptTo: ({ address }, _session, done) => {
      if (address.startsWith("defer+")) return done(Object.assign(new Error("later"), { responseCode: 451 }));
      if (address.startsWith("reject+")) return done(Object.assign(new Error("nobody"), { responseCode: 550 }));
      done();
    },
    onData: (stream, session, done) => {
      stream.resume();
      stream.on("end", () => {
        for (const { address } of session.envelope.rcptTo) arrivals.set(address, performance.now());
        done(null, "2.0.0 taken");
      });
    },
  });
  return { arrivals, address: sink.address, close: () => sink.close() };
}
