import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TsigKey } from "../../services/core/dns/tsig.ts";
import { programFile } from "../../services/platform/package-folder.ts";
import type { RunningService, StartService } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, dnsServerContext, eventually, nameOf, putZone, SCOPE } from "../support/dns-server.ts";
import { operatorOf } from "../support/operator.ts";
import { askOverUdp, serialOf } from "../support/transfer-client.ts";

/** The compiled service: worker threads on Node 20 run nothing else. `npm test` builds it first. */
const COMPILED = programFile("dns-server/main");
const obstacle = process.platform !== "linux" ? "not Linux" : existsSync(COMPILED) ? undefined : "not built";
const title = `the batching UDP workers leave to the main thread${obstacle ? ` (skipped: ${obstacle})` : ""}`;

describe.skipIf(obstacle !== undefined)(title, () => {
  let database: TestDatabase;
  let service: RunningService;
  let server: string;
  let key: TsigKey;

  beforeAll(async () => {
    const { start } = (await import(pathToFileURL(COMPILED).href)) as { start: StartService };
    database = await createTestDatabase();
    await addZoneOwner(database);
    await putZone(database, "example.org", ["@ NS ns", "ns A 192.0.2.53", "www A 192.0.2.1"]);
    // Bound to all addresses, so that answers must leave from the one that was asked.
    const context = dnsServerContext(database, {
      env: { PALOMAR_DNS_WORKERS: "2", PALOMAR_DNS_LISTEN: "0.0.0.0:0,[::1]:0" },
    });
    const palomar = operatorOf(context);
    await palomar("reseller", "licence", SCOPE.resellerId, "--rpz", "on");
    await palomar("rpz", "feed", "add", "policy.example.net");
    await palomar("rpz", "activate", "policy.example.net", SCOPE.resellerId);
    const { json } = await palomar("acl", "add", SCOPE.resellerId, "keyed", "--tsig", "key.example");
    const { tsig } = json as { tsig: { secret: string } };
    key = { name: nameOf("key.example"), algorithm: "hmac-sha256", secret: Buffer.from(tsig.secret, "base64") };
    service = await start(context);
    server = service.addresses.dns as string;
    const question = { name: "example.org", type: "SOA", key } as const;
    // A slow database says late who may ask.
    await eventually(async () => (await askOverUdp(addresses()[0]!, question)).rcode === "NOERROR", 60_000);
  });

  afterAll(async () => {
    await service?.stop();
    await database?.drop();
  });

  const addresses = () => {
    const [v4, v6] = server.split(",") as [string, string];
    return [v4.replace("0.0.0.0", "127.0.0.1"), v4.replace("0.0.0.0", "127.0.0.2"), v6];
  };

  it("signed queries, which are answered from the address that was asked", async () => {
    for (const address of addresses()) {
      const answer = await askOverUdp(address, { name: "example.org", type: "SOA", key });
      expect(answer).toMatchObject({ rcode: "NOERROR", authentic: true });
    }
    const wrong = { ...key, secret: Buffer.from("wrong") };
    expect((await askOverUdp(addresses()[0]!, { name: "example.org", type: "SOA", key: wrong })).rcode).toBe("NOTAUTH");
  });

  it("incremental transfers", async () => {
    const [address] = addresses() as [string];
    expect((await askOverUdp(address, { name: "example.org", type: "IXFR", serial: 1 })).rcode).toBe("REFUSED");
    const answer = await askOverUdp(address, { name: "example.org", type: "IXFR", serial: 1, key });
    expect(answer.records.map(serialOf)).toEqual([1]);
  });

  it("zones that only some may ask", async () => {
    const [address] = addresses() as [string];
    const ask = (signed: boolean) =>
      askOverUdp(address, { name: "policy.example.net", type: "SOA", ...(signed && { key }) });
    expect((await ask(false)).rcode).toBe("REFUSED");
    await eventually(async () => (await ask(true)).rcode === "NOERROR", 60_000);
  });

  it("as many as come, one after another", async () => {
    const [address] = addresses() as [string];
    const asked = Array.from({ length: 300 }, () => askOverUdp(address, { name: "example.org", type: "SOA", key }));
    expect((await Promise.all(asked)).every(({ authentic }) => authentic === true)).toBe(true);
  });
});
