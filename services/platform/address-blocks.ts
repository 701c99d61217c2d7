import ipaddr from "ipaddr.js";

/** All that is routed of IPv6 (RFC 4291 §2.4, RFC 3587 §2); not the IPv4-compatible `::127.0.0.1`, which has no range. */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

/**
 * Whether a connection on behalf of somebody else may go to an address: a public one, or one that the operator allows.
 * Mapped IPv4 addresses are judged as what they stand for.
 * @param allowed blocks in CIDR form, or single addresses
 */
export function isReachable(address: string, allowed: readonly string[]): boolean {
  const parsed = ipaddr.process(address);
  if (parsed.range() === "unicast" && (parsed.kind() === "ipv4" || parsed.match(GLOBAL_UNICAST))) return true;
  return allowed.some((block) => {
    const [network, bits] = parseBlock(block);
    return network.kind() === parsed.kind() && parsed.match(network, bits);
  });
}

/** Whom an address counts for where somebody has to be slowed down: of IPv6 who has one has all of its /64. */
export function sourceOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed.kind() === "ipv4" ? parsed.toString() : ipaddr.IPv6.networkAddressFromCIDR(`${parsed}/64`).toString();
}

/** A block in CIDR form, or a single address as the block that holds it alone. @throws what is neither */
export function parseBlock(block: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (ipaddr.isValidCIDR(block)) return ipaddr.parseCIDR(block);
  const address = ipaddr.process(block);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}
