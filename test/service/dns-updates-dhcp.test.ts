import { createSocket } from "node:dgram";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../support/dns-server.ts";
import { startUpdateStack, type UpdateStack } from "../support/dns-updates.ts";
import { freePort, isInstalled, type Peer, startPeer } from "../support/peers-processes.ts";

const absence = isInstalled("kea-dhcp-ddns") ? "" : " (skipped: kea-dhcp-ddns-server is not installed)";
/** Two clients, as RFC 4701 tells them apart. */
const [LAPTOP, PRINTER] = ["00010201", "00010202"];

describe.skipIf(absence !== "")(`Kea's updates for DHCP clients${absence}`, () => {
  let stack: UpdateStack;
  let kea: Peer;
  let zone: string;

  beforeAll(async () => {
    stack = await startUpdateStack();
    zone = await stack.makeZone();
    const key = await stack.makeKey({ zones: [zone], names: [`*.dyn.${zone}`], types: ["A", "DHCID"] });
    kea = await startPeer("kea", await freePort(), (folder, port) => ({
      files: {
        "kea.json": JSON.stringify({
          DhcpDdns: {
            ...{ "ip-address": "127.0.0.1", port, "dns-server-timeout": 5_000 },
            "tsig-keys": [{ name: key.name, algorithm: "HMAC-SHA256", secret: key.secret }],
            "forward-ddns": {
              "ddns-domains": [
                {
                  ...{ name: `${zone}.`, "key-name": key.name },
                  "dns-servers": [{ "ip-address": stack.host, port: stack.port }],
                },
              ],
            },
            "reverse-ddns": { "ddns-domains": [] },
            loggers: [{ name: "kea-dhcp-ddns", output_options: [{ output: "stdout" }], severity: "INFO" }],
          },
        }),
      },
      command: [
        ...["env", `KEA_PIDFILE_DIR=${folder}`, `KEA_LOCKFILE_DIR=${folder}`],
        ...["kea-dhcp-ddns", "-c", join(folder, "kea.json")],
      ],
    }));
    await eventually(async () => kea.log().includes("DHCP_DDNS_STARTED"), 60_000);
  });
  afterAll(async () => {
    await kea?.stop();
    await stack?.stop();
  });

  it("keep an address, and one client from taking another's name", async () => {
    // Told again, as the key may not be in force yet.
    await eventually(async () => {
      await lease(0, LAPTOP!, "192.0.2.7");
      await sleep(500);
      return (await addresses()).includes("192.0.2.7");
    }, 60_000);
    await lease(0, LAPTOP!, "192.0.2.8");
    await eventually(async () => (await addresses()).join() === "192.0.2.8", 60_000);
    await lease(0, PRINTER!, "192.0.2.9");
    await eventually(async () => /DHCP_DDNS_(ADD|FORWARD_REPLACE)\w*(FAILED|REJECTED)/.test(kea.log()), 60_000);
    expect(await addresses()).toEqual(["192.0.2.8"]);
    await lease(1, LAPTOP!, "192.0.2.8");
    await eventually(async () => (await addresses()).length === 0, 60_000);
  });

  /** Tells Kea of a lease, as its DHCP servers do. @param changeType 0 for a new one, 1 for one that ended */
  async function lease(changeType: number, dhcid: string, address: string): Promise<void> {
    const change = {
      ...{ "change-type": changeType, "forward-change": true, "reverse-change": false, fqdn: `host.dyn.${zone}.` },
      ...{ "ip-address": address, dhcid, "lease-expires-on": "20990101000000", "lease-length": 1_300 },
      "use-conflict-resolution": true,
    };
    const text = Buffer.from(JSON.stringify(change));
    const socket = createSocket("udp4");
    const framed = Buffer.concat([Buffer.from([text.length >> 8, text.length & 0xff]), text]);
    await new Promise((resolve) => socket.send(framed, kea.port, "127.0.0.1", resolve));
    socket.close();
  }

  async function addresses(): Promise<string[]> {
    const { body } = await stack.api.call("GET", `/api/v1/rr/${zone}`);
    return body.rr
      .filter(({ name, type }: Record<string, string>) => name === "host.dyn" && type === "A")
      .map(({ value }: Record<string, string>) => value);
  }
});
