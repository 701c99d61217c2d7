import { pathOf } from "../http.ts";

/** Addresses of the DNS pages. A domain is never the last segment: with its dots it would look like a file. */
export const dnsPages = {
  zones: (reseller: string) => `/dns${pathOf(reseller)}/zones`,
  zone: (reseller: string, domain: string, tab = "records") => `/dns${pathOf(reseller, "zones", domain, tab)}`,
  companies: (reseller: string) => `/dns${pathOf(reseller)}/companies`,
  company: (reseller: string, crmId: string) => `/dns${pathOf(reseller, "companies", crmId)}`,
  acls: (reseller: string) => `/dns${pathOf(reseller)}/transfers`,
  tokens: (reseller: string) => `/dns${pathOf(reseller)}/tokens`,
  blocks: (reseller: string) => `/dns${pathOf(reseller)}/resolver-blocks`,
  feeds: (reseller: string) => `/dns${pathOf(reseller)}/feeds`,
  catalogs: (reseller: string) => `/dns${pathOf(reseller)}/catalogs`,
  quotas: (reseller: string) => `/dns${pathOf(reseller)}/quotas`,
  lookup: (reseller: string) => `/dns${pathOf(reseller)}/lookup`,
};

/** Paths of the DNS API, in the name of a reseller. */
export function dnsApi(reseller: string, ...segments: readonly (string | number)[]): string {
  return pathOf("dns", reseller, ...segments);
}

/** Paths of the console's own management of a reseller. */
export function resellerApi(reseller: string, ...segments: readonly (string | number)[]): string {
  return pathOf("resellers", reseller, ...segments);
}
