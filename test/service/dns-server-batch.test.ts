import { createSocket } from "node:dgram";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import * as dnsPacket from "dns-packet";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { programFile } from "../../services/platform/package-folder.ts";
import type { RunningService, StartService } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { exchangeDatagram } from "../support/datagrams.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, dnsServerContext, eventually, putZone, throwOctetsAt } from "../support/dns-server.ts";

/** The compiled service: worker threads on Node 20 run nothing else. `npm test` builds it first. */
const COMPILED = programFile("dns-server/main");
const obstacle = obstacleToWorkers();

describe.skipIf(obstacle !== undefined)(`the batching UDP workers${obstacle ? ` (skipped: ${obstacle})` : ""}`, () => {
  let database: TestDatabase;
  let start: StartService;
  let server: RunningService;
  const observations: Observation[] = [];

  beforeAll(async () => {
    ({ start } = (await import(pathToFileURL(COMPILED).href)) as { start: StartService });
    database = await createTestDatabase();
    await addZoneOwner(database);
    await putZone(database, "example.org", ["@ NS ns1", "ns1 A 192.0.2.53", "www A 192.0.2.1"]);
    server = await start(
      dnsServerContext(database, {
        env: { PALOMAR_DNS_WORKERS: "2", PALOMAR_DNS_LISTEN: "127.0.0.1:0" },
        observe: (observation) => observations.push(observation),
      }),
    );
    await untilLoaded();
  });

  afterAll(async () => {
    await server?.stop();
    await database?.drop();
  });

  /** A server starts without zones that do not come in time. */
  const untilLoaded = () =>
    eventually(async () => {
      const [address] = server.addresses.dns!.replace("0.0.0.0", "127.0.0.1").split(",") as [string];
      return rcodeOf(await askDns(address, "www.example.org", "A")) === "NOERROR";
    }, 60_000);

  it("answer on the port that TCP has", async () => {
    expect(observations.map(({ kind }) => kind)).not.toContain("dns-udp-portable");
    for (const transport of ["udp", "tcp"] as const) {
      const answer = await askDns(server.addresses.dns!, "www.example.org", "A", transport);
      expect(dataOf(answer)).toEqual(["192.0.2.1"]);
    }
  });

  it("answer every query of many clients, each with its own", async () => {
    const names = Array.from({ length: 400 }, (_, index) => `n${index}.example.org`);
    const answers = await Promise.all(names.map((name) => askDns(server.addresses.dns!, name, "A")));
    expect(answers.map((answer) => answer.questions?.[0]?.name)).toEqual(names);
  });

  it("outlive random octets", async () => {
    await throwOctetsAt(server.addresses.dns!, 20_000, 10);
    expect(dataOf(await askDns(server.addresses.dns!, "www.example.org", "A"))).toEqual(["192.0.2.1"]);
  });

  it("never show a name between two states while it changes under load", async () => {
    const stop = new AbortController();
    const seen = new Set<string>();
    const load = flood(server.addresses.dns!, "www.example.org", stop.signal, (answer) => {
      seen.add(JSON.stringify(dataOf(answer)));
    });
    for (let round = 2; round < 40; round += 1) {
      const addresses = [`www A 192.0.2.${round}`, `www A 198.51.100.${round}`];
      await putZone(database, "example.org", ["@ NS ns1", "ns1 A 192.0.2.53", ...addresses]);
    }
    const last = async () => dataOf(await askDns(server.addresses.dns!, "www.example.org", "A")).includes("192.0.2.39");
    await eventually(last, 60_000);
    stop.abort();
    expect(await load).toBeGreaterThan(100);
    for (const data of seen) {
      const [first, second] = JSON.parse(data) as string[];
      if (second === undefined) expect(first).toBe("192.0.2.1");
      else expect(second.split(".")[3]).toBe(first!.split(".")[3]);
    }
  });

  it("stop without waiting for anything", async () => {
    const own = await start(dnsServerContext(database, { env: { PALOMAR_DNS_WORKERS: "1" } })).catch(String);
    // The metrics of one process are one server's: a second one in it is refused, and must leave nothing behind.
    expect(own).toContain("already been registered");
    await server.stop();
  });

  it("listen on several addresses of both families", async () => {
    const env = { PALOMAR_DNS_WORKERS: "1", PALOMAR_DNS_LISTEN: "127.0.0.1:0,127.0.0.2:0,[::1]:0" };
    server = await start(dnsServerContext(database, { env }));
    await untilLoaded();
    const [first, second, third] = server.addresses.dns!.split(",") as [string, string, string];
    expect(third).toMatch(/^\[::1\]:\d+$/);
    for (const address of [first, second]) {
      expect(dataOf(await askDns(address, "ns1.example.org", "A"))).toEqual(["192.0.2.53"]);
    }
    expect(await askOverIpv6(Number(third.split("]:")[1]), "ns1.example.org")).toEqual(["192.0.2.53"]);
    await server.stop();
  });

  it("answer from the address that was asked when they listen on all", async () => {
    server = await start(
      dnsServerContext(database, { env: { PALOMAR_DNS_WORKERS: "1", PALOMAR_DNS_LISTEN: "0.0.0.0:0" } }),
    );
    await untilLoaded();
    const port = server.addresses.dns!.split(":")[1];
    // A connected socket takes answers from the address that it asked only.
    expect(await askConnected("127.0.0.3", Number(port), "ns1.example.org")).toEqual(["192.0.2.53"]);
  });
});

function obstacleToWorkers(): string | undefined {
  if (process.platform !== "linux") return "needs Linux";
  if (!existsSync(COMPILED)) return "needs dist/, which npm run build makes";
  return undefined;
}

/** Asks the same again and again until told to stop. @returns how many answers came */
async function flood(
  server: string,
  name: string,
  signal: AbortSignal,
  onAnswer: (answer: dnsPacket.DecodedPacket) => void,
): Promise<number> {
  const [host, port] = server.split(":") as [string, string];
  const socket = createSocket("udp4");
  let answers = 0;
  socket.on("message", (octets) => {
    answers += 1;
    onAnswer(dnsPacket.decode(octets));
  });
  const query = queryFor(name);
  while (!signal.aborted) {
    for (let index = 0; index < 20; index += 1) socket.send(query, Number(port), host);
    await sleep(2);
  }
  socket.close();
  return answers;
}

const askOverIpv6 = (port: number, name: string) => askConnected("::1", port, name);

async function askConnected(host: string, port: number, name: string): Promise<unknown[]> {
  return dataOf(dnsPacket.decode(await exchangeDatagram(queryFor(name), { host, port }, { connected: true })));
}

function queryFor(name: string): Buffer {
  return dnsPacket.encode({ type: "query", id: 1, questions: [{ name, type: "A" }] });
}
