/**
 * The benchmark of zone transfers: `npm run bench:transfer [-- --records 1000000 --rounds 5]`.
 *
 * One zone is transferred (AXFR) from our server and from Knot, NSD and BIND where they are installed, in turn and by
 * the same reader on another core: absolute figures are this machine's, the ratios are what counts. The last line is
 * JSON, for a history.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import * as dnsPacket from "dns-packet";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { openDb } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import { type BenchZone, benchZone, RECORDS_PER_ZONE } from "./dns-data.ts";
import { fillDatabase } from "./dns-database.ts";
import type { Contender } from "./dns-load.ts";
import { startPalomar } from "./dns-palomar.ts";
import { FILE_PEERS } from "./dns-peers.ts";
import { print } from "./dns-report.ts";

const SERVER_CORE = "0";
const KEY_RING = KeyRing.ofSecret("the benchmark's secret");
const TIMEOUT_MS = 60_000;

interface Transfer {
  readonly ms: number;
  readonly messages: number;
  readonly octets: number;
}

const { values } = parseArgs({
  options: { records: { type: "string", default: "1000000" }, rounds: { type: "string", default: "5" } },
});
const records = Number(values.records);
const rounds = Number(values.rounds);
await main();

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
  const zone = benchZone(0, records - RECORDS_PER_ZONE);
  const results: Record<string, Transfer> = {};
  try {
    results.Palomar = await measurePalomar(folder, zone);
    for (const { name, program, start } of FILE_PEERS) {
      if (!isInstalled(program)) {
        print(`${name}: not installed`);
        continue;
      }
      const options = { folder: join(folder, name), zones: [zone], port: await freePort(), cores: SERVER_CORE };
      results[name] = await measure(await start(options), zone);
    }
    print(JSON.stringify({ records, results }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measurePalomar(folder: string, zone: BenchZone): Promise<Transfer> {
  const postgres = await openEmbeddedPostgres({
    dataDir: join(folder, "postgres"),
    logger: makeLogger("bench", "warn"),
  });
  const db = openDb(postgres.url, { connections: 2, name: "bench set-up" });
  try {
    await migrate(db);
    await fillDatabase(db, [zone]);
    const blocks = ["127.0.0.1/32"];
    await addAcl(db, KEY_RING, { resellerId: "bench", name: "bench", blocks, tsig: null, zones: null, notify: [] });
    const own = join(folder, "palomar");
    mkdirSync(own);
    const options = { folder: own, databaseUrl: postgres.url, port: await freePort(), cores: SERVER_CORE };
    return await measure(await startPalomar({ ...options, lastZone: zone.name }), zone);
  } finally {
    await db.destroy();
    await postgres.release();
  }
}

/** The fastest of some rounds, after one to warm up: what the server can do, whatever else the machine does. */
async function measure(contender: Contender, zone: BenchZone): Promise<Transfer> {
  try {
    await transfer(contender.port, zone.name);
    const transfers: Transfer[] = [];
    for (let round = 0; round < rounds; round += 1) transfers.push(await transfer(contender.port, zone.name));
    const best = transfers.reduce((a, b) => (b.ms < a.ms ? b : a));
    const all = transfers.map(({ ms }) => ms.toFixed(0)).join(", ");
    const size = `${best.messages} messages, ${(best.octets / 1e6).toFixed(1)} MB`;
    print(`${contender.name}: ${best.ms.toFixed(0)} ms at best (${all}), ${size}`);
    return best;
  } finally {
    await contender.stop();
  }
}

/** Asks for the zone and reads until all of its records have come: those of its file, and the SOA once more. */
function transfer(port: number, name: string): Promise<Transfer> {
  const question = dnsPacket.streamEncode({ type: "query", id: 1, questions: [{ type: "AXFR", name }] });
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    const socket = connect(port, "127.0.0.1", () => socket.write(question));
    let [messages, octets, answers] = [0, 0, 0];
    let rest: Buffer = Buffer.alloc(0);
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error("the transfer stands still")));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`the transfer ended after ${answers} records`)));
    socket.on("data", (chunk: Buffer) => {
      octets += chunk.length;
      const data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let position = 0;
      while (position + 2 <= data.length && position + 2 + data.readUInt16BE(position) <= data.length) {
        if ((data[position + 5]! & 0x0f) !== 0)
          socket.destroy(new Error(`refused: rcode ${data[position + 5]! & 0x0f}`));
        messages += 1;
        answers += data.readUInt16BE(position + 2 + 6);
        position += 2 + data.readUInt16BE(position);
      }
      rest = data.subarray(position);
      if (answers <= records) return;
      resolve({ ms: performance.now() - startedAt, messages, octets });
      socket.destroy();
    });
  });
}
