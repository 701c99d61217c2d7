import { domainToASCII } from "node:url";

/** A domain as a report writes it: A-labels in lower case, without the final dot; undefined where it is none. */
export function readReportedDomain(text: string | undefined): string | undefined {
  const ascii = domainToASCII((text ?? "").trim())
    .toLowerCase()
    .replace(/\.$/, "");
  return /^(?=.{1,253}$)([a-z0-9_-]{1,63})(\.[a-z0-9_-]{1,63})+$/.test(ascii) ? ascii : undefined;
}

/** Whether a name is a domain or lies below it; both as A-labels in lower case. */
export function isDomainWithin(name: string, domain: string): boolean {
  return name === domain || name.endsWith(`.${domain}`);
}
