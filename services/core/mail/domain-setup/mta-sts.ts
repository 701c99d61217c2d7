/** The policy that a domain publishes for mail to it (RFC 8461), as this deployment serves it. */
import { createHash } from "node:crypto";

export type StsMode = "testing" | "enforce";

export interface ServedStsPolicy {
  /** `none`: the policy of before is being withdrawn. */
  readonly mode: StsMode | "none";
  /** Exchangers of the domain, lower case; none of mode `none`. */
  readonly exchangers: readonly string[];
}

/** While a policy is tried out or withdrawn, senders are to ask again soon. */
const MAX_AGE_SECONDS: Readonly<Record<ServedStsPolicy["mode"], number>> = {
  none: 86_400,
  testing: 86_400,
  enforce: 604_800,
};

/** For so long senders may go by a policy that was served. */
const LONGEST_AGE_MS = Math.max(...Object.values(MAX_AGE_SECONDS)) * 1000;

/**
 * RFC 8461 §8.3: the policy that ends another one has a new id, and is served until that is in no cache any more; only
 * then its records may go.
 */
export const STS_WITHDRAWN: ServedStsPolicy = { mode: "none", exchangers: [] };

/** @returns when the records of a policy may go that is withdrawn now */
export function stsEnd(now: Date): Date {
  return new Date(now.getTime() + LONGEST_AGE_MS);
}

/** RFC 8461 §3.2: lines end with CRLF. */
export function stsPolicyText({ mode, exchangers }: ServedStsPolicy): string {
  const lines = ["version: STSv1", `mode: ${mode}`, ...exchangers.map((name) => `mx: ${name}`)];
  return [...lines, `max_age: ${MAX_AGE_SECONDS[mode]}`, ""].join("\r\n");
}

/** Another policy has another id (RFC 8461 §3.1: up to 32 letters and digits). */
export function stsPolicyId(policy: ServedStsPolicy): string {
  return createHash("sha256").update(stsPolicyText(policy)).digest("hex").slice(0, 20);
}
