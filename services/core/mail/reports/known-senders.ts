import { createRequire } from "node:module";
import { isDomainWithin } from "./domain-within.ts";

/** A service that sends in the name of many. */
interface KnownSender {
  readonly name: string;
  /** Its own domains: those of its return paths, of the signatures that it adds, of the names of its machines. */
  readonly domains: readonly string[];
  /** What a domain that sends with it includes in its SPF policy. */
  readonly include?: string;
}

const KNOWN: readonly KnownSender[] = createRequire(import.meta.url)("#config/known-senders.json");

/**
 * The service behind a source, told by what it signed with, by its return path, or by the name of its address.
 * @param names as A-labels in lower case, the most telling first; empty ones say nothing
 */
export function findKnownSender(names: readonly string[]): KnownSender | undefined {
  for (const name of names.filter((one) => one !== "")) {
    const known = KNOWN.find(({ domains }) => domains.some((domain) => isDomainWithin(name, domain)));
    if (known !== undefined) return known;
  }
  return undefined;
}
