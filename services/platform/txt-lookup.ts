import { lookup, Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import type { HostPort } from "./config-values.ts";

/** Texts of a name's TXT records, each joined; none when there are none, or when nobody says so in time. */
export type LookUpTexts = (name: string) => Promise<readonly string[]>;

const TIMEOUT_MS = 2_000;
const TRIES = 2;

/** @param server resolver to ask; null: the system's */
export async function makeTxtLookup(server: HostPort | null): Promise<LookUpTexts> {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (server !== null) {
    const address = isIP(server.host) ? server.host : (await lookup(server.host)).address;
    resolver.setServers([address.includes(":") ? `[${address}]:${server.port}` : `${address}:${server.port}`]);
  }
  return async (name) => {
    try {
      return (await resolver.resolveTxt(name)).map((strings) => strings.join(""));
    } catch {
      return []; // RFC 8461 §5.1: no record that can be had is no record
    }
  };
}
