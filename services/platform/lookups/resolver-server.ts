import { lookup, Resolver } from "node:dns/promises";
import { isIP } from "node:net";
import type { HostPort } from "../config/config-values.ts";

const TIMEOUT_MS = 2_000;
const TRIES = 2;

/** What asks a resolver, without holding threads. @param server null: the system's */
export async function makeDnsResolver(server: HostPort | null): Promise<Resolver> {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
  if (server !== null) {
    const address = await findResolverAddress(server.host);
    resolver.setServers([address.includes(":") ? `[${address}]:${server.port}` : `${address}:${server.port}`]);
  }
  return resolver;
}

const addresses = new Map<string, Promise<string>>();

/**
 * The address of the configured resolver. For one that is given by name only the system can be asked: once, since its
 * look-ups hold a thread each, and again only where that failed.
 */
export function findResolverAddress(host: string): Promise<string> {
  if (isIP(host)) return Promise.resolve(host);
  const known = addresses.get(host);
  if (known !== undefined) return known;
  const found = lookup(host).then(({ address }) => address);
  addresses.set(host, found);
  found.catch(() => addresses.delete(host));
  return found;
}
