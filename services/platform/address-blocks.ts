import ipaddr from "ipaddr.js";

/**
 * Whether a connection on behalf of somebody else may go to an address: a public one, or one that the operator allows.
 * Mapped IPv4 addresses are judged as what they stand for.
 * @param allowed blocks in CIDR form, or single addresses
 */
export function isReachable(address: string, allowed: readonly string[]): boolean {
  const parsed = ipaddr.process(address);
  if (parsed.range() === "unicast") return true;
  return allowed.some((block) => {
    const [network, bits] = parseBlock(block);
    return network.kind() === parsed.kind() && parsed.match(network, bits);
  });
}

function parseBlock(block: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (ipaddr.isValidCIDR(block)) return ipaddr.parseCIDR(block);
  const address = ipaddr.parse(block);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}
