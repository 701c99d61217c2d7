import { type DomainName, parseDomainName } from "../core/dns/name.ts";
import { invalidField, type Refusal } from "../core/refusal.ts";
import { type Result, refuse } from "../core/result.ts";

/** A domain name that a request gives; refused as the field's when it is none. */
export function readDomainName(field: string, text: string): Result<DomainName, Refusal> {
  const name = parseDomainName(text);
  return name.ok ? name : refuse(invalidField(field, name.error));
}
