/** The policy that a domain publishes for mail to it (RFC 8461), as this deployment serves it. */
import { createHash } from "node:crypto";

export type StsMode = "testing" | "enforce";

export interface StsPolicy {
  readonly mode: StsMode;
  /** Exchangers of the domain, lower case. */
  readonly exchangers: readonly string[];
}

/** While a policy is tried out, senders are to ask again soon. */
const MAX_AGE_SECONDS: Readonly<Record<StsMode, number>> = { testing: 86_400, enforce: 604_800 };

/** RFC 8461 §3.2: lines end with CRLF. */
export function stsPolicyText({ mode, exchangers }: StsPolicy): string {
  const lines = ["version: STSv1", `mode: ${mode}`, ...exchangers.map((name) => `mx: ${name}`)];
  return [...lines, `max_age: ${MAX_AGE_SECONDS[mode]}`, ""].join("\r\n");
}

/** Another policy has another id (RFC 8461 §3.1: up to 32 letters and digits). */
export function stsPolicyId(policy: StsPolicy): string {
  return createHash("sha256").update(stsPolicyText(policy)).digest("hex").slice(0, 20);
}
