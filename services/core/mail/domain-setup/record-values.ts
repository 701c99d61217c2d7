import { domainNameFromWire, formatDomainName } from "../../dns/name.ts";
import { TYPE } from "../../dns/rr-types.ts";

/** The text that a TXT record holds: its strings are joined without anything between them (RFC 6376 §3.6.2.2, RFC 7208 §3.3). */
export function joinedText(rdata: Uint8Array): string {
  const strings: Buffer[] = [];
  for (let at = 0; at < rdata.length; at += 1 + rdata[at]!) {
    strings.push(Buffer.from(rdata.subarray(at + 1, at + 1 + rdata[at]!)));
  }
  return Buffer.concat(strings).toString("latin1");
}

/** A record's data as the set-up of sender domains says it: a text, `preference name`, or a name without the final dot. */
export function setupValue(type: number, rdata: Uint8Array): string {
  if (type === TYPE.TXT) return joinedText(rdata);
  if (type === TYPE.MX) return `${(rdata[0]! << 8) | rdata[1]!} ${nameAt(rdata, 2)}`;
  return nameAt(rdata, 0);
}

function nameAt(rdata: Uint8Array, offset: number): string {
  const name = domainNameFromWire(rdata, offset);
  return name.ok ? formatDomainName(name.value).toLowerCase().replace(/\.$/, "") : "";
}
