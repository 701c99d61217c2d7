import type { HostPort } from "../config/config-values.ts";
import { makeDnsResolver } from "./resolver-server.ts";

export interface MxRecord {
  readonly preference: number;
  /** Name of the mail exchanger; empty for a null MX (RFC 7505). */
  readonly exchange: string;
}

/** What a question to the DNS came to. */
export type Lookup<T> =
  | { readonly kind: "found"; readonly records: readonly T[] }
  /** The name does not exist at all. */
  | { readonly kind: "nxdomain" }
  /** The name exists, but not with this type. */
  | { readonly kind: "nodata" }
  /** The servers answered that they could not, or would not, say. */
  | { readonly kind: "server-failure" }
  /** Nobody answered in time. */
  | { readonly kind: "timeout" };

/** The look-ups that mail needs; tests put their own in its place. */
export interface Resolver {
  /** In the order of the answer. */
  resolveMx(domain: string): Promise<Lookup<MxRecord>>;
  /** IPv4 addresses. */
  resolveA(host: string): Promise<Lookup<string>>;
  /** IPv6 addresses. */
  resolveAaaa(host: string): Promise<Lookup<string>>;
}

/** @param server resolver to ask; null: the system's */
export async function makeResolver(server: HostPort | null): Promise<Resolver> {
  const resolver = await makeDnsResolver(server);
  return {
    resolveMx: (domain) =>
      ask(async () =>
        (await resolver.resolveMx(domain)).map(({ priority, exchange }) => ({ preference: priority, exchange })),
      ),
    resolveA: (host) => ask(() => resolver.resolve4(host)),
    resolveAaaa: (host) => ask(() => resolver.resolve6(host)),
  };
}

/**
 * Whether mail to a domain could go anywhere: it has an MX, or else an address. Only an answer of the resolver says no, and one that
 * it could not find out (SERVFAIL, REFUSED) is one, as of a domain whose name servers are all silent; where the resolver itself
 * does not answer in time the domain counts as existing.
 * @param asciiDomain as A-labels
 */
export async function domainExists(resolver: Resolver, asciiDomain: string): Promise<boolean> {
  const lookups = [
    () => resolver.resolveMx(asciiDomain),
    () => resolver.resolveA(asciiDomain),
    () => resolver.resolveAaaa(asciiDomain),
  ];
  for (const look of lookups) {
    const { kind } = await look();
    if (kind === "found" || kind === "timeout") return true;
  }
  return false;
}

async function ask<T>(question: () => Promise<T[]>): Promise<Lookup<T>> {
  try {
    const records = await question();
    return records.length > 0 ? { kind: "found", records } : { kind: "nodata" };
  } catch (error) {
    return { kind: kindOf(error) };
  }
}

/** The error codes of c-ares that stand for an answer; a name that it will not even ask for does not exist. */
function kindOf(error: unknown): Exclude<Lookup<never>["kind"], "found"> {
  switch ((error as NodeJS.ErrnoException).code) {
    case "ENOTFOUND":
    case "EBADNAME":
      return "nxdomain";
    case "ENODATA":
      return "nodata";
    case "ESERVFAIL":
    case "EREFUSED":
    case "ENOTIMP":
    case "EFORMERR":
    case "EBADRESP":
      return "server-failure";
    case "ETIMEOUT":
    case "ECONNREFUSED":
    case "ECANCELLED":
    case "EDESTRUCTION":
      return "timeout";
    default:
      throw error;
  }
}
