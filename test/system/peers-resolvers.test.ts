import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { addZoneOwner, dnsServerContext, eventually, putZone, SCOPE } from "../support/dns-server.ts";
import { operatorOf, printed } from "../support/operator.ts";
import { freePort, isInstalled, type Peer } from "../support/peers-processes.ts";
import {
  askResolver,
  type PolicyResolver,
  RESOLVER_PEERS,
  RESOLVERS,
  startResolver,
} from "../support/peers-resolvers.ts";

const FEED = "policy.example.net";
/** Applied as well, by those that transfer. */
const OTHER_FEED = "other-policy.example.net";
/** The zone that the resolvers resolve, on the same server. */
const ZONE = "victims.test";
const PATIENCE_MS = 60_000;

let database: TestDatabase;
let context: ServiceContext;
let palomar: ReturnType<typeof operatorOf>;
let service: RunningService | undefined;
let peer: Peer | undefined;
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "palomar-feed-"));
  database = await createTestDatabase();
  await addZoneOwner(database);
  const names = ["early", "late", "kept", "walled", "other"].map((name) => `${name} A 192.0.2.1`);
  await putZone(database, ZONE, ["@ NS ns", "ns A 127.0.0.1", ...names, "addressed A 192.0.2.200"]);
  context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } });
  palomar = operatorOf(context);
  await printed(palomar("reseller", "licence", SCOPE.resellerId, "--rpz", "on"));
  for (const feed of [FEED, OTHER_FEED]) {
    await printed(palomar("rpz", "feed", "add", feed));
    await printed(palomar("rpz", "activate", feed, SCOPE.resellerId));
  }
  await printed(palomar("rpz", "rule", "add", FEED, `qname:early.${ZONE}`, "nxdomain"));
});

afterEach(async () => {
  await peer?.stop();
  await service?.stop();
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
  peer = undefined;
  service = undefined;
});

describe.each(RESOLVERS)("%s with a feed", (resolver) => {
  const { program, keepsKeys } = RESOLVER_PEERS[resolver];
  const missing = isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;

  it.skipIf(missing !== "")(
    `loads it, blocks a name added a moment ago, and lets it through again${missing}`,
    async () => {
      const permission = keepsKeys ? ["--tsig", "feeds.example"] : ["--block", "127.0.0.0/8"];
      await startWith(resolver, permission);
      /** Of its answer, which may be lost on its way; SERVFAIL says that our server's was. */
      const rcode = async (name: string) => {
        for (;;) {
          await sleep(50);
          const answer = await askResolver(peer as Peer, `${name}.${ZONE}`);
          if (answer && rcodeOf(answer) !== "SERVFAIL") return rcodeOf(answer);
        }
      };
      try {
        await eventually(async () => (await rcode("early")) === "NXDOMAIN", PATIENCE_MS);
        expect(await rcode("late")).toBe("NOERROR");
        await ruled(resolver, "add", `qname:late.${ZONE}`, "nxdomain");
        const added = performance.now();
        await eventually(async () => (await rcode("late")) === "NXDOMAIN", PATIENCE_MS);
        const blockedAfterMs = performance.now() - added;
        await ruled(resolver, "remove", `qname:late.${ZONE}`);
        const removed = performance.now();
        await eventually(async () => (await rcode("late")) === "NOERROR", PATIENCE_MS);
        const releasedAfterMs = performance.now() - removed;
        process.stdout.write(
          `${resolver}: blocked after ${seconds(blockedAfterMs)}, released after ${seconds(releasedAfterMs)}\n`,
        );
        // Knot Resolver reads one file.
        if (resolver !== "kresd") {
          expect(await rcode("other")).toBe("NOERROR");
          await printed(palomar("rpz", "rule", "add", OTHER_FEED, `qname:other.${ZONE}`, "nxdomain"));
          await eventually(async () => (await rcode("other")) === "NXDOMAIN", PATIENCE_MS);
        }
        await ruled(resolver, "add", `qname:walled.${ZONE}`, "A 192.0.2.80");
        await ruled(resolver, "add", "ip:192.0.2.200/32", "nxdomain");
        await eventually(async () => {
          const answer = await askResolver(peer as Peer, `walled.${ZONE}`);
          return answer !== undefined && String(dataOf(answer)) === "192.0.2.80";
        }, PATIENCE_MS);
        // Knot Resolver applies rules for names only.
        if (resolver !== "kresd") await eventually(async () => (await rcode("addressed")) === "NXDOMAIN", PATIENCE_MS);
        expect(await rcode("kept")).toBe("NOERROR");
      } catch (error) {
        throw new Error(`${(error as Error).message}\n${(peer as Peer).log().slice(-6_000)}`);
      }
    },
    10 * PATIENCE_MS,
  );
});

it.skipIf(!isInstalled("unbound"))(
  "Unbound, which knows no TSIG, hears of changes at once also by an ACL with a key",
  async () => {
    await startWith("unbound", ["--tsig", "feeds.example", "--block", "127.0.0.0/8"]);
    const rcode = async (name: string) => {
      const answer = await askResolver(peer as Peer, `${name}.${ZONE}`);
      return answer && rcodeOf(answer);
    };
    await eventually(async () => (await rcode("early")) === "NXDOMAIN", PATIENCE_MS);
    await ruled("unbound", "add", `qname:late.${ZONE}`, "nxdomain");
    // A feed's refresh is 60 s.
    await eventually(async () => (await rcode("late")) === "NXDOMAIN", 20_000);
  },
  3 * PATIENCE_MS,
);

async function startWith(resolver: PolicyResolver, permission: readonly string[]): Promise<void> {
  const port = await freePort();
  await printed(palomar("acl", "add", SCOPE.resellerId, "resolver", "--notify", `127.0.0.1:${port}`, ...permission));
  service = await start(context);
  const server = service.addresses.dns as string;
  await eventually(async () => rcodeOf(await askDns(server, ZONE, "SOA")) === "NOERROR", 60_000);
  const show = ["acl", "show", SCOPE.resellerId, "resolver", "--primary", server, "--rpz", FEED, "--rpz", OTHER_FEED];
  const stanza = resolver === "kresd" ? await exportFeed() : await printed(palomar(...show, "--for", resolver));
  peer = await startResolver(resolver, port, { stanza, upstream: server, upstreamZone: ZONE });
}

async function ruled(resolver: PolicyResolver, ...args: readonly string[]): Promise<void> {
  const [verb, ...rest] = args as [string, ...string[]];
  await printed(palomar("rpz", "rule", verb, FEED, ...rest));
  if (resolver !== "kresd") return;
  // It reads the file when it starts.
  const stanza = await exportFeed();
  const { port } = peer as Peer;
  await peer?.stop();
  peer = await startResolver(resolver, port, {
    stanza,
    upstream: service?.addresses.dns as string,
    upstreamZone: ZONE,
  });
}

/** Puts the exported feed in the place of the one before, as whoever reads files has to. */
async function exportFeed(): Promise<string> {
  const path = join(folder, "feed.zone");
  writeFileSync(`${path}.new`, await printed(palomar("zone", "export", FEED)));
  renameSync(`${path}.new`, path);
  return path;
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(2)} s`;
}
