import ipaddr from "ipaddr.js";

/**
 * An address block in CIDR form; a bare address is a block of one.
 * @returns its canonical form, or undefined when it is none, or has host bits set
 */
export function canonicalBlock(text: string): string | undefined {
  if (ipaddr.isValidCIDR(text)) {
    const [address, prefixLength] = ipaddr.parseCIDR(text);
    const family = address.kind() === "ipv4" ? ipaddr.IPv4 : ipaddr.IPv6;
    const network = family.networkAddressFromCIDR(text).toString();
    return network === address.toString() ? `${network}/${prefixLength}` : undefined;
  }
  if (!isWholeAddress(text)) return undefined;
  const address = ipaddr.parse(text);
  return `${address.toString()}/${address.kind() === "ipv4" ? 32 : 128}`;
}

/** Whether the text is an IPv4 address of four numbers, or an IPv6 address without a zone identifier. */
export function isWholeAddress(text: string): boolean {
  return ipaddr.IPv4.isValidFourPartDecimal(text) || (ipaddr.IPv6.isValid(text) && !text.includes("%"));
}
