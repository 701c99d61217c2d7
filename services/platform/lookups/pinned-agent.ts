import { isIP } from "node:net";
import type { Agent } from "undici";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Config } from "../config/config.ts";
import { unlessAborted, withTime } from "../deadline.ts";
import { isReachable } from "./address-blocks.ts";
import { findHostAddresses, type HostSurroundings } from "./host-addresses.ts";

/** What requests to other people's URLs may reach, and through whom names are resolved. */
export interface FetchSurroundings extends HostSurroundings {
  readonly config: Pick<Config, "fetchAllow" | "resolver">;
  /** Ends a request before its time is over: whoever wants it is to stop. */
  readonly signal?: AbortSignal;
}

/**
 * Makes an agent for one request to somebody else's URL. The host is resolved here, and the connection goes to the very
 * address that was judged, so that no name, literal or later answer of the DNS leads to a private one, unless the
 * operator allows it.
 * @param timeoutMs for the look-up, and for the connection as well
 * @returns an agent for the caller to destroy, or why the host cannot be reached
 */
export async function openPinnedAgent(
  target: URL,
  surroundings: FetchSurroundings,
  timeoutMs: number,
): Promise<Result<Agent, Sentence>> {
  const host = target.hostname.replace(/^\[|\]$/g, "");
  // A resolver may take longer than there is time, and nothing stops it.
  const found = await withTime({ limitMs: timeoutMs, stop: surroundings.signal }, (time) =>
    unlessAborted(findAddress(host, surroundings), time, () => refuse(sentence("timeout"))),
  );
  if (!found.ok) return found;
  const pinned = { address: found.value, family: isIP(found.value) };
  const undici = await import("undici");
  return ok(
    new undici.Agent({
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

async function findAddress(host: string, surroundings: FetchSurroundings): Promise<Result<string, Sentence>> {
  const addresses = await findHostAddresses(host, surroundings);
  if (addresses.length === 0) return refuse(sentence("host-not-found"));
  const reachable = addresses.find((address) => isReachable(address, surroundings.config.fetchAllow));
  return reachable === undefined ? refuse(sentence("address-not-allowed")) : ok(reachable);
}
