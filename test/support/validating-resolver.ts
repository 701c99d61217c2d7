import { RCODE } from "../../services/core/dns/rr-types.ts";
import { eventually } from "./dns-server.ts";
import { askSections } from "./dnssec-questions.ts";
import { freePort, type Peer, startPeer } from "./peers-processes.ts";

const PATIENCE_MS = 60_000;

/**
 * Starts Unbound without a memory: it validates each answer anew.
 * @param anchors trust anchors, each a DS record as text
 * @param zones names that it asks `server` for
 * @param server address and port of the authoritative server
 */
export async function startValidator(
  anchors: readonly string[],
  zones: readonly string[],
  server: string,
): Promise<Peer> {
  const stubs = zones.map((zone) => `stub-zone:\n  name: "${zone}"\n  stub-addr: ${server.replace(":", "@")}\n`);
  const peer = await startPeer("unbound", await freePort(), (folder, port) => ({
    files: {
      "unbound.conf": `server:\n  interface: 127.0.0.1\n  port: ${port}\n  chroot: ""\n  username: ""\n  directory: "${folder}"
  pidfile: ""\n  do-daemonize: no\n  use-syslog: no\n  logfile: ""\n  val-log-level: 2\n  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no\n  module-config: "validator iterator"\n  aggressive-nsec: no
${anchors.map((anchor) => `  trust-anchor: "${anchor}"\n`).join("")}  cache-max-ttl: 0\n  cache-max-negative-ttl: 0
remote-control:\n  control-enable: no\n${stubs.join("")}`,
    },
    command: ["unbound", "-d", "-c", `${folder}/unbound.conf`],
  }));
  await eventually(async () => {
    const question = { name: zones[0]!, type: "SOA", transport: "tcp" } as const;
    return (await askSections(peer.address, question).catch(() => undefined))?.rcode === RCODE.NOERROR;
  }, PATIENCE_MS);
  return peer;
}
