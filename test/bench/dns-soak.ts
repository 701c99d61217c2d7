/**
 * Ten million hostile packets through the answering pipeline: `npm run soak:dns [-- --packets N]`.
 * Fails when one brings an exception, an answer that is too long or an answer to an answer, or when memory grows.
 */
import { randomFillSync } from "node:crypto";
import { parseArgs } from "node:util";
import * as dnsPacket from "dns-packet";
import { UDP_PAYLOAD_OCTETS } from "../../services/core/dns/message.ts";
import { Client } from "../../services/dns-server/message/client.ts";
import { DEFER, DROP } from "../../services/dns-server/pipeline.ts";
import { settledMemory } from "../support/settled-memory.ts";
import { pipelineOn, zoneDatabaseOf } from "../unit/dns-server/test-zone-database.ts";
import { benchQueries, benchZone } from "./dns-data.ts";

const ZONES = 100;
const SEEDS = 5_000;
const MAX_PACKET_OCTETS = 600;
/** A tenth of an octet for each packet would be more. */
const MAX_HEAP_GROWTH_OCTETS = 1024 * 1024;
/** What the heap keeps for its next garbage comes and goes by as much; four octets lost for each packet would be more. */
const MAX_RESIDENT_GROWTH_OCTETS = 32 * 1024 * 1024;

const { values } = parseArgs({ options: { packets: { type: "string", default: "10000000" } } });
const packets = Number(values.packets);

const zones = Array.from({ length: ZONES }, (_, index) => benchZone(index));
const pipeline = pipelineOn(zoneDatabaseOf(...zones.map(({ name, text }) => ({ origin: `${name}.`, text }))));
const seeds = benchQueries(SEEDS, ZONES).map(([name, type]) =>
  dnsPacket.encode({
    type: "query",
    id: 1,
    questions: [{ name, type: type as dnsPacket.RecordType }],
    additionals: [
      { type: "OPT", name: ".", udpPayloadSize: 4096, flags: 0, options: [] } as unknown as dnsPacket.Answer,
    ],
  }),
);
const client = new Client();
client.setAddress("192.0.2.1");
const random = new Uint32Array(4096);
let drawn = random.length;
const packet = new Uint8Array(MAX_PACKET_OCTETS);
const answer = new Uint8Array(UDP_PAYLOAD_OCTETS);

send(packets);
const before = settledMemory();
const answered = send(packets);
const after = settledMemory();
const heapGrowth = after.heapUsed - before.heapUsed;
const residentGrowth = after.rss - before.rss;
process.stdout.write(
  `${packets} packets, ${answered} answered; heap ${inMegabytes(heapGrowth)}, resident ${inMegabytes(residentGrowth)} MB more than before\n`,
);
if (heapGrowth > MAX_HEAP_GROWTH_OCTETS || residentGrowth > MAX_RESIDENT_GROWTH_OCTETS) throw new Error("memory grew");

function inMegabytes(octets: number): string {
  return (octets / 1e6).toFixed(1);
}

/** Sends random packets: half of them noise, half of them queries with a few octets put otherwise. */
function send(count: number): number {
  let answered = 0;
  for (let index = 0; index < count; index += 1) {
    const length = draw() % 2 === 0 ? fillWithNoise() : fillWithMutation();
    const octets = pipeline.respond(packet, length, answer, client, 1_700_000_000);
    if (octets === DROP || octets === DEFER) continue;
    answered += 1;
    if (octets > UDP_PAYLOAD_OCTETS) throw new Error(`an answer of ${octets} octets`);
    if (length < 12 || packet[2]! >= 0x80) throw new Error("an answer to what is no query");
  }
  return answered;
}

function fillWithNoise(): number {
  const length = draw() % MAX_PACKET_OCTETS;
  for (let index = 0; index < Math.min(length, 64); index += 1) packet[index] = draw();
  return length;
}

function fillWithMutation(): number {
  const seed = seeds[draw() % seeds.length]!;
  packet.set(seed);
  for (let changes = draw() % 5; changes > 0; changes -= 1) packet[draw() % seed.length] = draw();
  return draw() % 8 === 0 ? draw() % seed.length : seed.length;
}

function draw(): number {
  if (drawn === random.length) {
    randomFillSync(random);
    drawn = 0;
  }
  return random[drawn++]!;
}
