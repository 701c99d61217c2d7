import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { Agent, request } from "undici";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isReachable } from "../../platform/address-blocks.ts";
import type { Config } from "../../platform/config.ts";
import type { Resolver } from "../../platform/resolver.ts";

/** What a webhook may reach, and through whom names are resolved. */
export interface PostSurroundings {
  readonly config: Pick<Config, "fetchAllow" | "resolver">;
  readonly resolver: Resolver;
}

const DEADLINE_MS = 10_000;

/**
 * Posts JSON to a customer's server. The host is resolved here, and the connection goes to the very address that was
 * judged: private ones are out of reach unless the operator allows them. Redirects are not followed.
 * @returns the status, or why there is none
 */
export async function postJson(
  url: string,
  { body, headers }: { readonly body: string; readonly headers: Readonly<Record<string, string>> },
  surroundings: PostSurroundings,
): Promise<Result<number, string>> {
  const target = new URL(url);
  const address = await findAddress(target.hostname.replace(/^\[|\]$/g, ""), surroundings);
  if (!address.ok) return address;
  const pinned = { address: address.value, family: isIP(address.value) };
  const agent = new Agent({
    connect: {
      timeout: DEADLINE_MS,
      // Only names come here: undici connects to literals as they stand, and those were judged above.
      lookup: (_name, options, done) => {
        if (options.all) done(null, [pinned]);
        else done(null, pinned.address, pinned.family);
      },
    },
  });
  const signal = AbortSignal.timeout(DEADLINE_MS);
  try {
    const answer = await request(target, {
      method: "POST",
      dispatcher: agent,
      signal,
      body,
      headers: { "content-type": "application/json", "user-agent": "Palomar", ...headers },
    });
    answer.body.on("error", () => {}).destroy();
    return ok(answer.statusCode);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return refuse(signal.aborted ? "timeout" : (code ?? message));
  } finally {
    await agent.destroy();
  }
}

async function findAddress(host: string, { config, resolver }: PostSurroundings): Promise<Result<string, string>> {
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
