import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { Agent } from "undici";
import { ok, type Result, refuse } from "../core/result.ts";
import { isReachable } from "./address-blocks.ts";
import type { Config } from "./config.ts";
import type { Resolver } from "./resolver.ts";

/** What requests to other people's URLs may reach, and through whom names are resolved. */
export interface FetchSurroundings {
  readonly config: Pick<Config, "fetchAllow" | "resolver">;
  readonly resolver: Resolver;
}

/**
 * Makes an agent for one request to somebody else's URL. The host is resolved here, and the connection goes to the very
 * address that was judged, so that no name, literal or later answer of the DNS leads to a private one, unless the
 * operator allows it.
 * @returns an agent for the caller to destroy, or why the host cannot be reached
 */
export async function openPinnedAgent(
  target: URL,
  surroundings: FetchSurroundings,
  timeoutMs: number,
): Promise<Result<Agent, string>> {
  const found = await findAddress(target.hostname.replace(/^\[|\]$/g, ""), surroundings);
  if (!found.ok) return found;
  const pinned = { address: found.value, family: isIP(found.value) };
  return ok(
    new Agent({
      connect: {
        timeout: timeoutMs,
        // Only names come here: undici connects to literals as they stand, and those were judged above.
        lookup: (_name, options, done) => {
          if (options.all) done(null, [pinned]);
          else done(null, pinned.address, pinned.family);
        },
      },
    }),
  );
}

async function findAddress(host: string, { config, resolver }: FetchSurroundings): Promise<Result<string, string>> {
  const addresses = isIP(host) ? [host] : await resolveHost(host, config.resolver === null ? undefined : resolver);
  if (addresses.length === 0) return refuse("host not found");
  const reachable = addresses.find((address) => isReachable(address, config.fetchAllow));
  return reachable === undefined ? refuse("address not allowed") : ok(reachable);
}

/** Without a configured resolver the system's look-up decides, its hosts file included. */
async function resolveHost(host: string, resolver: Resolver | undefined): Promise<string[]> {
  if (resolver === undefined) {
    const found = await lookup(host, { all: true }).catch(() => []);
    return found.map(({ address }) => address);
  }
  const answers = await Promise.all([resolver.resolveA(host), resolver.resolveAaaa(host)]);
  return answers.flatMap((answer) => (answer.kind === "found" ? answer.records : []));
}
