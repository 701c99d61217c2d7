import { type DomainName, parseDomainName } from "../../../../services/core/dns/name.ts";
import { parseRdata } from "../../../../services/core/dns/rdata/rdata.ts";
import type { ResourceRecord } from "../../../../services/core/dns/record.ts";
import { typeCode } from "../../../../services/core/dns/rr-types.ts";
import type { Result } from "../../../../services/core/result.ts";

/** The value of a result that must have one. */
export function accepted<T>(result: Result<T, unknown>): T {
  if (!result.ok) throw new Error(`refused: ${JSON.stringify(result.error)}`);
  return result.value;
}

/** The name that the text stands for. */
export function nameOf(text: string, origin?: DomainName): DomainName {
  return accepted(parseDomainName(text, origin));
}

/** A record of class IN from its parts in presentation format; relative names are below example.org. */
export function recordOf(owner: string, type: string, text: string, ttl = 3600): ResourceRecord {
  const origin = nameOf("example.org.");
  const code = typeCode(type)!;
  return {
    owner: nameOf(owner, origin),
    type: code,
    ttl,
    rdata: accepted(parseRdata(code, text, origin, "master-file")),
  };
}

/** Octets in hexadecimal. */
export function hex(octets: Uint8Array): string {
  return Buffer.from(octets).toString("hex");
}
