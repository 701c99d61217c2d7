import { createSocket } from "node:dgram";
import { setTimeout as sleep } from "node:timers/promises";
import * as dnsPacket from "dns-packet";
import { percentile } from "./percentile.ts";

/**
 * `dns-prober.js SECONDS NAME PORT…`: asks servers for a name at an even pace, all at the same moments, and prints of each
 * how long its answers took. Nothing is counted while this process itself is still warming up.
 */
const INTERVAL_MS = 1;
const WARM_UP_MS = 1_500;
const PATIENCE_MS = 500;

const [seconds, name, ...ports] = process.argv.slice(2) as [string, string, ...string[]];
const query = dnsPacket.encode({ type: "query", id: 0, questions: [{ name, type: "A" }] });
const servers = ports.map((port) => startAsking(Number(port)));
const startedAt = performance.now();
const until = startedAt + Number(seconds) * 1000;
for (let id = 0; performance.now() < until; id = (id + 1) & 0xffff) {
  query.writeUInt16BE(id, 0);
  for (const server of servers) server.ask(id);
  await sleep(INTERVAL_MS);
}
await sleep(PATIENCE_MS);
process.stdout.write(JSON.stringify(servers.map((server) => server.finish())));

function startAsking(port: number) {
  const socket = createSocket("udp4");
  const sent = new Map<number, number>();
  const times: number[] = [];
  socket.on("message", (octets) => {
    const id = octets.readUInt16BE(0);
    const sentAt = sent.get(id) ?? 0;
    sent.delete(id);
    if (sentAt > startedAt + WARM_UP_MS) times.push(performance.now() - sentAt);
  });
  return {
    ask(id: number): void {
      sent.set(id, performance.now());
      socket.send(Buffer.from(query), port, "127.0.0.1");
    },
    finish() {
      socket.close();
      return { answerP999Ms: percentile(times, 99.9), unanswered: sent.size };
    },
  };
}
