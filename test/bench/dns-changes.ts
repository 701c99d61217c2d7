import { execFile, spawnSync } from "node:child_process";
import { createSocket, type Socket } from "node:dgram";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import * as dnsPacket from "dns-packet";
import { type DomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { ZoneAnnouncer } from "../../services/dns-api/zone-announcer.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { benchZoneName } from "./dns-data.ts";
import { percentile } from "./percentile.ts";

export interface ChangeOptions {
  readonly db: Db;
  readonly port: number;
  /** Where Knot serves the same zones: how evenly it answers beside the same changes is the measure for us. */
  readonly knotPort: number | undefined;
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
  readonly knotAnswerP999Ms: number | undefined;
}

/** Changes under way at once: the API has as many database connections. */
const CONCURRENT_CHANGES = 8;
const PROBE_INTERVAL_MS = 20;
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
  const ports = [options.port, ...(options.knotPort === undefined ? [] : [options.knotPort])];
  const [latencies, [answers, knotAnswers]] = await Promise.all([
    probe(options, until, change),
    askEvenly(ports, seconds),
    ...writers,
  ]);
  await announcer.drained();
  return {
    changesPerSecond: changes / seconds,
    wireP50Ms: percentile(latencies, 50),
    wireP99Ms: percentile(latencies, 99),
    ...answers!,
    knotAnswerP999Ms: knotAnswers?.answerP999Ms,
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

type Answers = Pick<ChangeResult, "answerP999Ms" | "unanswered">;

/**
 * Asks servers for an existing name at an even pace, from a process of its own, as this one has the changes to make. Where
 * that is allowed it runs before all others, so that what is measured is how long the servers take.
 */
async function askEvenly(ports: readonly number[], seconds: number): Promise<Answers[]> {
  const name = `host-01.${benchZoneName(1)}`;
  const command = [process.execPath, PROBER_FILE, String(seconds), name, ...ports.map(String)];
  const mayComeFirst = spawnSync("chrt", ["-f", "10", "true"]).status === 0;
  const [program, ...args] = mayComeFirst ? ["chrt", "-f", "10", ...command] : command;
  const { stdout } = await promisify(execFile)(program!, args);
  return JSON.parse(stdout);
}

const PROBER_FILE = fileURLToPath(new URL("./dns-prober.js", import.meta.url));

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
