import type { HostPort } from "../config/config-values.ts";
import { makeDnsResolver } from "./resolver-server.ts";

/** For all names together. */
const DEADLINE_MS = 2_000;

/**
 * Finds the names of addresses. A name counts when it leads back to the address: whoever has an address may give it any
 * name (RFC 1912 §2.1). What is not answered in time has no name.
 * @param server resolver to ask; null: the system's
 */
export async function makeNameLookup(
  server: HostPort | null,
): Promise<(addresses: readonly string[]) => Promise<ReadonlyMap<string, string>>> {
  const resolver = await makeDnsResolver(server);
  const confirmed = async (address: string): Promise<string | undefined> => {
    const [name] = await resolver.reverse(address);
    if (name === undefined) return undefined;
    const back = await (address.includes(":") ? resolver.resolve6(name) : resolver.resolve4(name));
    return back.includes(address) ? name.toLowerCase().replace(/\.$/, "") : undefined;
  };
  return async (addresses) => {
    const names = new Map<string, string>();
    const late = new Promise<void>((resolve) => setTimeout(resolve, DEADLINE_MS).unref());
    const looking = addresses.map(async (address) => {
      const name = await confirmed(address).catch(() => undefined);
      if (name !== undefined) names.set(address, name);
    });
    await Promise.race([Promise.all(looking), late]);
    return new Map(names);
  };
}
