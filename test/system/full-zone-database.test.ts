import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, deleteZone, putZone, SECRET } from "../support/dns-server.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { ended, eventually, makeDataDir, removeDataDir, type StartedPalomar, startPalomar } from "../support/stack.ts";

// A name server as operators run it, with more zones than memory for them.
const dataDir = makeDataDir();
let database: TestDatabase;
let palomar: StartedPalomar | undefined;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
});
afterEach(async () => {
  if (palomar === undefined) return;
  palomar.process.kill("SIGINT");
  await ended(palomar.process);
  palomar = undefined;
});
afterAll(async () => {
  await database?.drop();
  removeDataDir(dataDir);
});

async function startServer(url = database.url): Promise<void> {
  palomar = await startPalomar(["dns-server"], {
    ...{
      PALOMAR_DATA_DIR: dataDir,
      DATABASE_URL: url,
      PALOMAR_SECRET: SECRET,
    },
    ...{ PALOMAR_DNS_MEMORY: "8MiB", PALOMAR_DNS_WORKERS: "2" },
  });
}

const hosts = (count: number, text: string) => Array.from({ length: count }, (_, index) => `host-${index} TXT ${text}`);
/** Records that take some 120 octets of memory each: to read so many takes a while. */
const manyHosts = (count: number) => hosts(count, `"${"x".repeat(40)}"`);
/** Records that take some 1,100 octets each. */
const largeHosts = (count: number) => hosts(count, Array.from({ length: 4 }, () => `"${"x".repeat(240)}"`).join(" "));
const put = (name: string, records: readonly string[]) => putZone(database, name, ["@ NS ns1.test.", ...records]);
const remove = async (name: string) => notifyZones(database.db, [...(await deleteZone(database, name))]);
const TOO_MANY = 70_000;
const TOO_MANY_LARGE = 8_500;

async function readiness(): Promise<{
  status: number;
  body: { status: string; problems: string[]; left_out: string[] };
}> {
  const response = await fetch(`${palomar!.addresses.metrics}/readyz`);
  return { status: response.status, body: (await response.json()) as Awaited<ReturnType<typeof readiness>>["body"] };
}
/** Until it is so: what is read before, while zones are loaded, is of the same status for another reason. */
const untilReady = (status: number, body: object) => expect.poll(readiness).toMatchObject({ status, body });

describe("/readyz", () => {
  it("is 503 while no zones are loaded", async () => {
    await startServer("postgres://nobody@127.0.0.1:9/none");
    const { status, body } = await readiness();
    expect([status, body.status]).toEqual([503, "not ready"]);
    expect(body.problems).toContain("dns-server has not loaded its zones");
  });

  it("is 503 where nothing is answered, 200 and degraded without some zones, and 200 and ok with all", async () => {
    await put("too-large.test", largeHosts(TOO_MANY_LARGE));
    await startServer();
    await untilReady(503, {
      status: "not ready",
      problems: ["dns-server answers for none of the zones that it should: 1"],
      served: 0,
      expected: 1,
      left_out: ["too-large.test."],
    });
    await put("small.test", ["www A 192.0.2.1"]);
    await untilReady(200, { status: "degraded", problems: [], served: 1, expected: 2, left_out: ["too-large.test."] });
    await remove("too-large.test");
    await untilReady(200, { status: "ok", problems: [], served: 1, expected: 1, left_out: [] });
  });
});

const whySkipped = isInstalled("dig") ? "" : " (skipped: dig is not installed)";

describe("at a full ceiling", () => {
  it.skipIf(whySkipped !== "")(`dig hears the same of every worker and over TCP${whySkipped}`, async () => {
    await put("outdated.test", largeHosts(125));
    await put("withheld.test", largeHosts(TOO_MANY_LARGE));
    await startServer();
    await eventually(
      () => askDns(palomar!.addresses.dns, "host-1.outdated.test", "TXT"),
      (answer) => rcodeOf(answer) === "NOERROR",
    );
    await put("outdated.test", largeHosts(TOO_MANY_LARGE));
    await eventually(readiness, ({ body }) => body.status === "degraded" && body.left_out.length === 2);
    expect(palomar!.printed()).not.toContain("dns-udp-portable");
    for (const transport of ["+notcp", "+tcp"]) {
      const questions = { "host-1.withheld.test": "SERVFAIL", "host-1.outdated.test": "NOERROR" };
      for (const [name, rcode] of Object.entries({ ...questions, "host-125.outdated.test": "NXDOMAIN" })) {
        // Ports of their own: the kernel spreads them over the workers.
        for (let time = 0; time < 6; time += 1) expect(await dig(transport, name, "TXT")).toContain(`status: ${rcode}`);
      }
    }
    for (const name of ["outdated.test", "withheld.test"]) await remove(name);
  });

  it("neighbours' changes are on the wire while zones that do not fit are tried", async () => {
    await put("small.test", ["www A 192.0.2.1"]);
    await put("large.test", manyHosts(TOO_MANY));
    await startServer();
    const stop = new AbortController();
    let versions = 0;
    // Each new version is tried anew.
    const trying = (async () => {
      for (let count = TOO_MANY; !stop.signal.aborted; count += 1, versions += 1)
        await put("large.test", manyHosts(count));
    })();
    const waitsMs: number[] = [];
    for (let change = 0; change < CHANGES; change += 1) {
      const address = `192.0.2.${change + 2}`;
      await put("small.test", [`www A ${address}`]);
      const madeMs = performance.now();
      await eventually(
        async () => dataOf(await askDns(palomar!.addresses.dns, "www.small.test", "A")),
        (data) => data.includes(address),
      );
      waitsMs.push(performance.now() - madeMs);
    }
    stop.abort();
    await trying;
    waitsMs.sort((a, b) => a - b);
    const [median, worst] = [waitsMs[CHANGES / 2]!, waitsMs.at(-1)!].map(Math.round) as [number, number];
    process.stdout.write(`changes beside ${versions} versions too large: median ${median} ms, longest ${worst} ms\n`);
    expect(versions).toBeGreaterThan(0);
    expect(rcodeOf(await askDns(palomar!.addresses.dns, "host-1.large.test", "TXT"))).toBe("SERVFAIL");
    // A change that waits for the zone that does not fit waits for seconds, and every one does.
    expect(median).toBeLessThan(2_000);
  });
});

const CHANGES = 50;

async function dig(...question: string[]): Promise<string> {
  const [host, port] = palomar!.addresses.dns.split(":") as [string, string];
  const child = spawn("dig", [`@${host}`, "-p", port, "+tries=3", ...question]);
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  await once(child, "close");
  return output;
}
