import { readFile } from "node:fs/promises";
import { isIP, type LookupFunction } from "node:net";
import type { Config } from "../config/config.ts";
import type { Resolver } from "./resolver.ts";

/** Through whom the names of hosts are resolved. */
export interface HostSurroundings {
  readonly config: Pick<Config, "resolver">;
  readonly resolver: Resolver;
}

/**
 * The addresses of a host that is connected to; none where it has none, or where nobody says so in time. Without a
 * configured resolver the machine's hosts file comes first, as for its other programs.
 *
 * The system's own look-up (getaddrinfo) is not used: each one holds a thread of the few that the process has for files
 * and look-ups until it ends, so that four names whose servers are silent would stop all of them for everybody.
 * @param host a name or an address
 */
export async function findHostAddresses(host: string, surroundings: HostSurroundings): Promise<readonly string[]> {
  if (isIP(host)) return [host];
  const { config, resolver } = surroundings;
  const local = config.resolver === null ? await findLocalAddresses(host) : [];
  if (local.length > 0) return local;
  const answers = await Promise.all([resolver.resolveA(host), resolver.resolveAaaa(host)]);
  return answers.flatMap((answer) => (answer.kind === "found" ? answer.records : []));
}

/** The same for sockets that connect by name. */
export function makeSocketLookup(surroundings: HostSurroundings): LookupFunction {
  return (host, options, done) => {
    findHostAddresses(host, surroundings).then(
      (addresses) => {
        const found = addresses.map((address) => ({ address, family: isIP(address) }));
        const [first] = found;
        if (first === undefined) done(Object.assign(new Error(`host not found: ${host}`), { code: "ENOTFOUND" }), "");
        else if (options.all) done(null, found);
        else done(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => done(error, ""),
    );
  };
}

const HOSTS_FILE = "/etc/hosts";
const LOOPBACK: readonly string[] = ["127.0.0.1", "::1"];

/** The addresses of a name that no resolver is asked for; none of other names (RFC 6761 §6.3). */
export function localhostAddresses(host: string): readonly string[] {
  return /(?:^|\.)localhost\.?$/i.test(host) ? LOOPBACK : [];
}

/** What the machine knows without asking anybody: hosts(5), and localhost. */
async function findLocalAddresses(host: string): Promise<readonly string[]> {
  const name = host.toLowerCase().replace(/\.$/, "");
  const listed = addressesInHostsFile(await readFile(HOSTS_FILE, "utf8").catch(() => ""), name);
  return listed.length === 0 ? localhostAddresses(name) : listed;
}

/** @param text of hosts(5): an address and its names a line, comments from `#` on @param name in lower case */
export function addressesInHostsFile(text: string, name: string): string[] {
  return text.split("\n").flatMap((line) => {
    const [address = "", ...names] = line.replace(/#.*/, "").toLowerCase().trim().split(/\s+/);
    return isIP(address) && names.includes(name) ? [address] : [];
  });
}
