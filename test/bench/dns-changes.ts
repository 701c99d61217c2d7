import { createSocket, type Socket } from "node:dgram";
import { setTimeout as sleep } from "node:timers/promises";
import * as dnsPacket from "dns-packet";
import { type DomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { ZoneAnnouncer } from "../../services/dns-api/zone-announcer.ts";
import type { Db } from "../../services/platform/db.ts";
import { changeRecords } from "../../services/store/zone-records.ts";
import { benchZoneName } from "./dns-data.ts";

export interface ChangeOptions {
  readonly db: Db;
  readonly port: number;
  readonly zones: number;
  readonly seconds: number;
  /** Begins the names that this run makes. */
  readonly label: string;
  /** Changes to make each second beside those that are measured; as many as the database takes, at most. */
  readonly changesPerSecond: number;
}

export interface ChangeResult {
  readonly changesPerSecond: number;
  /** From a change's commit to its answer, milliseconds. */
  readonly wireP50Ms: number;
  readonly wireP99Ms: number;
  /** Answer times of queries sent evenly meanwhile, milliseconds. */
  readonly answerP999Ms: number;
  readonly unanswered: number;
}

/** Changes under way at once: the API has as many database connections. */
const CONCURRENT_CHANGES = 8;
const PROBE_INTERVAL_MS = 20;
const QUERY_INTERVAL_MS = 1;
const GIVE_UP_MS = 2_000;

/** Changes records as the API does, and watches on the wire how soon they are there and whether answers falter. */
export async function measureChanges(options: ChangeOptions): Promise<ChangeResult> {
  const { db, seconds } = options;
  const announcer = new ZoneAnnouncer(db, () => {});
  const change = (zone: number, owner: string) => addAddress(db, announcer, benchZoneName(zone), owner);
  const until = performance.now() + seconds * 1000;
  let changes = 0;
  const writers = Array.from({ length: CONCURRENT_CHANGES }, async (_, writer) => {
    const interval = (CONCURRENT_CHANGES * 1000) / options.changesPerSecond;
    for (let next = performance.now(); next < until; next += interval) {
      await sleep(Math.max(0, next - performance.now()));
      await change((changes * 7 + writer) % (options.zones - 1), `${options.label}-${writer}-${changes}`);
      changes += 1;
    }
  });
  const [latencies, answers] = await Promise.all([
    probe(options, until, change),
    sendEvenly(options.port, until),
    ...writers,
  ]);
  await announcer.drained();
  return {
    changesPerSecond: changes / seconds,
    wireP50Ms: percentile(latencies, 50),
    wireP99Ms: percentile(latencies, 99),
    ...answers,
  };
}

/** Makes one change after another in a zone of their own, and asks for each until it is answered. */
async function probe(
  { port, zones, label }: ChangeOptions,
  until: number,
  change: (zone: number, owner: string) => Promise<void>,
): Promise<number[]> {
  const asker = new Asker(port);
  const latencies: number[] = [];
  for (let index = 0; performance.now() < until; index += 1) {
    const owner = `${label}-probe-${index}`;
    await change(zones - 1, owner);
    const committed = performance.now();
    while (!(await asker.isThere(`${owner}.${benchZoneName(zones - 1)}`))) {
      if (performance.now() - committed > GIVE_UP_MS) throw new Error(`${owner} did not come within ${GIVE_UP_MS} ms`);
    }
    latencies.push(performance.now() - committed);
    await sleep(PROBE_INTERVAL_MS);
  }
  asker.close();
  return latencies;
}

async function addAddress(db: Db, announcer: ZoneAnnouncer, zone: string, owner: string): Promise<void> {
  const apex = nameOf(`${zone}.`);
  const creation = {
    owner: nameOf(`${owner}.${zone}.`),
    type: TYPE.A,
    ttl: undefined,
    rdata: Uint8Array.of(192, 0, 2, 1),
  };
  const edits = { creations: [creation], modifications: [], deletionIds: [] };
  const target = { scope: {}, apex, domain: zone, actor: "bench" };
  const changed = await changeRecords(db, target, edits, new Date());
  if (!changed.ok) throw new Error(JSON.stringify(changed.error));
  announcer.announce([changed.value.zone.id]);
}

/** Queries for existing names at an even pace, and how long each answer takes. */
async function sendEvenly(port: number, until: number): Promise<Pick<ChangeResult, "answerP999Ms" | "unanswered">> {
  const socket = createSocket("udp4");
  const sent = new Map<number, number>();
  const times: number[] = [];
  socket.on("message", (octets) => {
    const id = octets.readUInt16BE(0);
    times.push(performance.now() - (sent.get(id) ?? 0));
    sent.delete(id);
  });
  const query = encodeQuery(`host-01.${benchZoneName(1)}`);
  for (let id = 0; performance.now() < until; id = (id + 1) & 0xffff) {
    query.writeUInt16BE(id, 0);
    sent.set(id, performance.now());
    socket.send(Buffer.from(query), port, "127.0.0.1");
    await sleep(QUERY_INTERVAL_MS);
  }
  await sleep(500);
  socket.close();
  return { answerP999Ms: percentile(times, 99.9), unanswered: sent.size };
}

/** Asks one question at a time. */
class Asker {
  readonly #socket: Socket = createSocket("udp4");
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  isThere(name: string): Promise<boolean> {
    return new Promise((resolve) => {
      const late = setTimeout(() => finish(false), 100);
      const finish = (there: boolean) => {
        clearTimeout(late);
        this.#socket.removeAllListeners("message");
        resolve(there);
      };
      this.#socket.on("message", (octets) => finish(octets.readUInt16BE(6) > 0));
      this.#socket.send(encodeQuery(name), this.#port, "127.0.0.1");
    });
  }

  close(): void {
    this.#socket.close();
  }
}

function encodeQuery(name: string): Buffer {
  return dnsPacket.encode({ type: "query", id: 1, questions: [{ name, type: "A" }] });
}

function nameOf(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}

export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? Number.NaN;
}
