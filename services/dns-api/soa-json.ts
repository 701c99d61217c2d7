import { z } from "zod";
import { type DomainName, formatDomainName } from "../core/dns/name.ts";
import type { Zone } from "../store/dns/zones.ts";
import { warnings } from "./schemas.ts";

/** The SOA of a zone as the API shows it. */
export const soaReply = z.object({
  domain: z.string(),
  crm_id: z.string(),
  mname: z.string(),
  rname: z.string(),
  serial: z.int(),
  serial_type: z.enum(["numeric", "calendar"]),
  refresh: z.int(),
  retry: z.int(),
  expire: z.int(),
  minimum: z.int(),
  ttl: z.int(),
  suspended: z.boolean(),
  warnings,
});

export function showSoa({ name, crmId, soa, serialType, ttl, suspended }: Zone): z.input<typeof soaReply> {
  const { mname, rname, serial, refresh, retry, expire, minimum } = soa;
  return {
    domain: name,
    crm_id: crmId,
    mname: withoutDot(mname),
    rname: withoutDot(rname),
    serial,
    serial_type: serialType,
    refresh,
    retry,
    expire,
    minimum,
    ttl,
    suspended,
  };
}

/** Names of the SOA are absolute by definition, so they are shown as a domain is: without the final dot. */
function withoutDot(name: DomainName): string {
  const text = formatDomainName(name);
  return text === "." ? text : text.slice(0, -1);
}
