import { type DomainName, formatDomainName } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { HostPort } from "../config/config-values.ts";
import { inTime } from "../deadline.ts";
import { makeSecureLookup, systemResolver } from "./secure-lookup.ts";

/** The DS records of a name as its parent has them. */
export interface ParentDs {
  /** RDATA of each. */
  readonly records: readonly Uint8Array[];
  readonly ttlSeconds: number;
  /** Whether this is certain: validated by the resolver (AD), or read from a parent that we serve ourselves. */
  readonly authenticated: boolean;
}

/** What a name's parent has as DS; undefined when nobody says. */
export type LookUpDs = (name: DomainName) => Promise<ParentDs | undefined>;

/** Whoever asks has better to do than to wait longer. */
const TIMEOUT_MS = 3_000;

/** @param server resolver to ask; null: the first of the system's */
export async function makeDsLookup(server: HostPort | null): Promise<LookUpDs> {
  const resolver = server ?? systemResolver();
  if (!resolver) return async () => undefined;
  const lookUp = await makeSecureLookup(resolver);
  return async (name) => {
    const answer = await inTime(lookUp(formatDomainName(name), TYPE.DS), TIMEOUT_MS, () => undefined);
    if (answer === undefined || answer.kind === "failure") return undefined;
    return { records: answer.records, ttlSeconds: answer.ttlSeconds, authenticated: answer.secure };
  };
}
