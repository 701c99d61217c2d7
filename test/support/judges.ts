import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import { createTestDatabase } from "./database.ts";
import { askDns } from "./dns-client.ts";
import { addZoneOwner, dnsServerContext, putZone } from "./dns-server.ts";
import { freePort, startPeer } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

/**
 * Where mail comes from, in the zones of {@link startJudgedWorld}: of the block for measurements (RFC 2544), as SpamAssassin
 * takes addresses for documents for forged.
 */
export const SENDING_ADDRESS = "198.18.0.25";
export const BOUNCE_DOMAIN = "bounces.example.net";

/** Zones that a name server of ours has, as judges see them: through Unbound, which asks nobody else. */
export interface JudgedWorld {
  /** The resolver. */
  readonly resolver: { readonly host: string; readonly port: number };
  /** A folder for judges. */
  readonly folder: string;
  stop(): Promise<void>;
}

/** What a world has beside, or in place of, what most tests want. */
export interface WorldChanges {
  readonly bounceDomain?: string;
  /** Where reports about the domain are wanted. */
  readonly rua?: string;
  /** More of what may send for the bounce domain, in the words of SPF. */
  readonly senders?: string;
  /** An address where the resolver is asked at the port that programs know, as well. */
  readonly wellKnownAddress?: string;
}

/** The zones of a sender domain that is set up as it should be, and of the bounce domain. */
export async function startJudgedWorld(
  domain: string,
  dkim: { readonly selector: string; readonly record: string },
  { bounceDomain = BOUNCE_DOMAIN, rua, senders = "", wellKnownAddress }: WorldChanges = {},
): Promise<JudgedWorld> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-judges-"));
  const database = await createTestDatabase();
  await addZoneOwner(database);
  const strings = dkim.record.match(/.{1,250}/g)!.map((piece) => `"${piece}"`);
  await putZone(database, domain, [
    "@ NS ns1",
    "ns1 A 127.0.0.1",
    "@ MX 10 mx",
    "@ A 192.0.2.80",
    "www A 192.0.2.80",
    "mx A 192.0.2.81",
    `@ TXT "v=spf1 include:${bounceDomain} -all"`,
    `${dkim.selector}._domainkey TXT ${strings.join(" ")}`,
    `_dmarc TXT "v=DMARC1; p=reject${rua ? `; rua=${rua}` : ""}"`,
  ]);
  await putZone(database, bounceDomain, [
    "@ NS ns1",
    "ns1 A 127.0.0.1",
    `@ A ${SENDING_ADDRESS}`,
    "@ MX 10 mx",
    `mx A ${SENDING_ADDRESS}`,
    `@ TXT "v=spf1 a:mx.${bounceDomain} ${senders} -all"`,
    `mx TXT "v=spf1 a -all"`,
    // Whose reports may come here (RFC 7489 §7.1).
    `${domain}._report._dmarc TXT "v=DMARC1"`,
  ]);
  const server = await startDnsServer(dnsServerContext(database));
  const address = server.addresses.dns!;
  await eventually(
    () => askDns(address, domain, "SOA").catch(() => undefined),
    (answer) => answer !== undefined,
  );
  const zones = [domain, bounceDomain];
  const unbound = await startPeer("unbound", await freePort(), (place, port) => ({
    files: {
      "unbound.conf": `server:\n  interface: 127.0.0.1\n  port: ${port}\n${wellKnownAddress ? `  interface: ${wellKnownAddress}@53\n` : ""}  chroot: ""\n  username: ""\n  directory: "${place}"
  pidfile: ""\n  do-daemonize: no\n  use-syslog: no\n  logfile: ""\n  access-control: 127.0.0.0/8 allow\n  do-not-query-localhost: no
  module-config: "iterator"\n  local-zone: "." static\n${zones.map((zone) => `  local-zone: "${zone}." transparent\n`).join("")}
remote-control:\n  control-enable: no\n${zones
        .map((zone) => `stub-zone:\n  name: "${zone}"\n  stub-addr: ${address.replace(":", "@")}\n`)
        .join("")}`,
    },
    command: ["unbound", "-d", "-c", `${place}/unbound.conf`],
  }));
  await eventually(
    () => askDns(unbound.address, domain, "SOA").catch(() => undefined),
    (answer) => answer !== undefined,
  );
  return {
    resolver: { host: "127.0.0.1", port: unbound.port },
    folder,
    stop: async () => {
      await unbound.stop();
      await server.stop();
      await database.drop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
