import { sentence } from "../../sentences.ts";
import { formatIpv4, formatIpv6, parseIpv4, parseIpv6 } from "../ip-address.ts";
import type { Field } from "./field.ts";

/** Address families of APL: octets and longest prefix follow from the family (RFC 3123 §4). */
const FAMILIES = {
  1: { octets: 4, parse: parseIpv4, format: formatIpv4 },
  2: { octets: 16, parse: parseIpv6, format: formatIpv6 },
} as const;

/**
 * A list of address prefixes, `[!]family:address/prefix`, up to the end.
 * @see RFC 3123 §4 (wire), §5 (text)
 */
export const addressPrefixesField: Field = {
  name: "prefixes",
  layout: "rest",
  parse(tokens, out) {
    for (const { text } of tokens.takeRest()) {
      const item = parseItem(text);
      if (item === undefined) return sentence("no-prefix-item", { text });
      out.bytes(item);
    }
    return undefined;
  },
  format(octets) {
    const items: string[] = [];
    for (let offset = 0; offset < octets.length; ) {
      const end = offset + 4 + ((octets[offset + 3] ?? 0) & 0x7f);
      const item = end <= octets.length ? formatItem(octets.subarray(offset, end)) : undefined;
      if (item === undefined) return undefined;
      items.push(item);
      offset = end;
    }
    return items.join(" ");
  },
};

function parseItem(text: string): Uint8Array | undefined {
  const match = /^(!?)([12]):([0-9a-f.:]+)\/(\d{1,3})$/i.exec(text);
  if (match === null) return undefined;
  const family = Number(match[2]) as keyof typeof FAMILIES;
  const address = FAMILIES[family].parse(match[3]!);
  const prefixLength = Number(match[4]);
  if (address === undefined || prefixLength > address.length * 8) return undefined;
  // RFC 3123 §4: trailing zero octets are left out.
  const significant = address.subarray(0, address.findLastIndex((octet) => octet !== 0) + 1);
  const negation = match[1] === "!" ? 0x80 : 0;
  return Uint8Array.of(0, family, prefixLength, negation | significant.length, ...significant);
}

function formatItem(item: Uint8Array): string | undefined {
  const family = FAMILIES[((item[0]! << 8) | item[1]!) as keyof typeof FAMILIES];
  const significant = item.subarray(4);
  if (family === undefined || significant.length > family.octets || item[2]! > family.octets * 8) return undefined;
  if (significant.at(-1) === 0) return undefined;
  const address = new Uint8Array(family.octets);
  address.set(significant);
  return `${item[3]! & 0x80 ? "!" : ""}${item[1]}:${family.format(address)}/${item[2]}`;
}
