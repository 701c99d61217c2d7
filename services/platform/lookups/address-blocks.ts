import { BlockList, isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { isCloudAddress } from "./cloud-addresses.ts";

/** All that is routed of IPv6 (RFC 4291 §2.4, RFC 3587 §2); not the IPv4-compatible `::127.0.0.1`, which has no range. */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

/**
 * Whether a connection on behalf of somebody else may go to an address: a public one, or one that the operator allows.
 * Mapped IPv4 addresses are judged as what they stand for. The servers of clouds that hand out credentials
 * (`config/cloud-addresses.json`) are allowed by an entry for that very address alone, never by a block around it.
 * @param allowed blocks in CIDR form, or single addresses
 */
export function isReachable(address: string, allowed: readonly string[]): boolean {
  const parsed = ipaddr.process(address);
  if (isCloudAddress(parsed)) return allowed.some((block) => isExactly(parsed, block));
  if (parsed.range() === "unicast" && (parsed.kind() === "ipv4" || parsed.match(GLOBAL_UNICAST))) return true;
  return isInBlocks(address, allowed);
}

/** Addresses of examples: nobody's, so that whoever publishes them leads nowhere (RFC 5737, RFC 3849, RFC 9637). */
const DOCUMENTATION = ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"];

/** Whether a public zone may have an address on behalf of somebody who does not write it out: no inner one. */
export function isPublishable(address: string, allowed: readonly string[]): boolean {
  return isReachable(address, allowed) || isInBlocks(address, DOCUMENTATION);
}

/** Whether an address lies in one of the blocks; mapped IPv4 addresses are what they stand for. */
export function isInBlocks(address: string, blocks: readonly string[]): boolean {
  const parsed = ipaddr.process(address);
  return blocks.some((block) => {
    const [network, bits] = parseBlock(block);
    return network.kind() === parsed.kind() && parsed.match(network, bits);
  });
}

function isExactly(address: ipaddr.IPv4 | ipaddr.IPv6, block: string): boolean {
  const [network, bits] = parseBlock(block);
  const isWhole = bits === (network.kind() === "ipv4" ? 32 : 128);
  return isWhole && network.kind() === address.kind() && address.match(network, bits);
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** IPv4 and IPv6 loopback, IPv4-mapped addresses included. Asked for every request: a parser would cost more than all else. */
export function isLoopback(address: string): boolean {
  if (address === "::1" || address === "::ffff:127.0.0.1") return true;
  const family = isIP(address);
  return family === 4 ? address.startsWith("127.") : family === 6 && LOOPBACK.check(address, "ipv6");
}

/** Whom an address counts for where somebody has to be slowed down: of IPv6 who has one has all of its /64. */
export function sourceOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed.kind() === "ipv4" ? parsed.toString() : ipaddr.IPv6.networkAddressFromCIDR(`${parsed}/64`).toString();
}

/** What sources stand together in, where somebody with many of them has to be slowed down: an IPv4 /24, an IPv6 /48. */
export function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed.kind() === "ipv4"
    ? `${ipaddr.IPv4.networkAddressFromCIDR(`${parsed}/24`)}/24`
    : `${ipaddr.IPv6.networkAddressFromCIDR(`${parsed}/48`)}/48`;
}

/** A block in CIDR form, or a single address as the block that holds it alone. @throws what is neither */
export function parseBlock(block: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  if (ipaddr.isValidCIDR(block)) return ipaddr.parseCIDR(block);
  const address = ipaddr.process(block);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}
