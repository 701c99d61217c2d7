import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import type { RunningService, ServiceContext } from "../../services/platform/service.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import {
  addZoneOwner,
  deleteZone,
  dnsServerContext,
  eventually,
  putZone,
  SCOPE,
  suspendZone,
} from "../support/dns-server.ts";
import { operatorOf, printed } from "../support/operator.ts";
import { freePort, isInstalled, type Peer } from "../support/peers-processes.ts";
import { SECONDARY_PEERS, startSecondary } from "../support/peers-secondaries.ts";
import { askOverUdp, serialOf } from "../support/transfer-client.ts";

const CATALOG = "catalog.example.net";
const PATIENCE_MS = 60_000;

let database: TestDatabase;
let context: ServiceContext;
let service: RunningService | undefined;
let peer: Peer | undefined;

beforeEach(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } });
});

afterEach(async () => {
  await peer?.stop();
  await service?.stop();
  await database.drop();
  peer = undefined;
  service = undefined;
});

// NSD knows catalogs from 4.9 on, Unbound not at all; PowerDNS's consumers keep members that are gone for a while.
describe.each(["bind", "knot"] as const)("%s with a catalog, by the printed stanza", (secondary) => {
  const { program } = SECONDARY_PEERS[secondary];
  const missing = isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;

  it.skipIf(missing !== "")(
    `zones appear by themselves, follow changes, and go when they are suspended or deleted${missing}`,
    async () => {
      const palomar = operatorOf(context);
      const port = await freePort();
      const acl = ["acl", "add", SCOPE.resellerId, "all", "--tsig", "all.example", "--notify", `127.0.0.1:${port}`];
      await printed(palomar(...acl));
      await printed(palomar("catalog", "add", SCOPE.resellerId, CATALOG));
      service = await start(context);
      const primary = service.addresses.dns as string;
      const stanza = await printed(
        palomar("acl", "show", SCOPE.resellerId, "all", "--for", secondary, "--primary", primary),
      );
      peer = await startSecondary(secondary, port, stanza);
      try {
        for (const name of ["first.example", "second.example"]) await putZone(database, name, ["@ NS ns.example.net."]);
        for (const name of ["first.example", "second.example"]) await serves(name, 1);
        await putZone(database, "first.example", ["@ NS ns.example.net.", "www A 192.0.2.1"]);
        await serves("first.example", 2);
        await suspendZone(database, "first.example", true);
        await servesNot("first.example");
        await suspendZone(database, "first.example", false);
        await serves("first.example", 2);
        const gone = await deleteZone(database, "second.example");
        await notifyZones(database.db, gone);
        await servesNot("second.example");
      } catch (error) {
        throw new Error(`${(error as Error).message}\n${stanza}\n${peer.log().slice(-6_000)}`);
      }
      expect(await serialAt("first.example")).toBe(2);
    },
    10 * PATIENCE_MS,
  );
});

describe("PowerDNS with a catalog, by the printed stanza", () => {
  const missing = isInstalled("pdns_server") ? "" : " (skipped: pdns_server is not installed)";

  it.skipIf(missing !== "")(
    `gets members that have the key by name, or all with an ACL that has its address${missing}`,
    async () => {
      await putZone(database, "first.example", ["@ NS ns.example.net."]);
      const palomar = operatorOf(context);
      const port = await freePort();
      const acl = ["acl", "add", SCOPE.resellerId, "all", "--tsig", "all.example", "--notify", `127.0.0.1:${port}`];
      await printed(palomar(...acl));
      await printed(palomar("catalog", "add", SCOPE.resellerId, CATALOG));
      service = await start(context);
      const primary = service.addresses.dns as string;
      const stanza = await printed(
        palomar("acl", "show", SCOPE.resellerId, "all", "--for", "pdns", "--primary", primary),
      );
      peer = await startSecondary("pdns", port, stanza);
      await eventually(async () => /'first\.example'.*Query Refused/.test(peer!.log()), PATIENCE_MS);
      const folder = /sh -e (.*)\/commands\.sh/.exec(peer.log())![1]!;
      const command = /^# (pdnsutil .*)$/m.exec(stanza)![1]!.replace("MEMBER", "first.example");
      execFileSync("sh", ["-c", command.replace("pdnsutil", `pdnsutil --config-dir=${folder}`)]);
      await serves("first.example", 1);
      // The catalog itself is followed as well.
      await putZone(database, "second.example", ["@ NS ns.example.net."]);
      await eventually(async () => /'second\.example'.*Query Refused/.test(peer!.log()), PATIENCE_MS);
      await printed(palomar("acl", "add", SCOPE.resellerId, "address", "--block", "127.0.0.1"));
      await serves("second.example", 1);
    },
    10 * PATIENCE_MS,
  );
});

/** @param least the serial that it must have reached */
async function serves(name: string, least: number): Promise<void> {
  await eventually(async () => (await serialAt(name)) >= least, PATIENCE_MS);
}

async function servesNot(name: string): Promise<void> {
  await eventually(async () => (await serialAt(name)) === 0, PATIENCE_MS);
}

/** The serial that the peer answers with; 0 when it has no such zone. */
async function serialAt(name: string): Promise<number> {
  await sleep(50);
  try {
    return serialOf((await askOverUdp((peer as Peer).address, { name, type: "SOA" })).records[0]);
  } catch {
    return 0;
  }
}
