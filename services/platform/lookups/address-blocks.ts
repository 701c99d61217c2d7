import { BlockList, isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { isInBlock, knownAddressBlock } from "../../core/dns/address-block.ts";
import { isMappedIpv4, parseIpAddress } from "../../core/dns/ip-address.ts";
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
  const octets = octetsOf(address);
  const parsed = ipaddr.fromByteArray([...octets]);
  if (isCloudAddress(parsed)) return allowed.some((block) => isExactly(octets, block));
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
  return makeIsInBlocks(blocks)(address);
}

/** {@link isInBlocks} for many addresses. */
export function makeIsInBlocks(texts: readonly string[]): (address: string) => boolean {
  const blocks = texts.map(knownAddressBlock);
  return (address) => {
    const octets = octetsOf(address);
    return blocks.some((block) => isInBlock(octets, block));
  };
}

function isExactly(octets: Uint8Array, text: string): boolean {
  const block = knownAddressBlock(text);
  return block.prefixLength === octets.length * 8 && isInBlock(octets, block);
}

/** A mapped IPv4 address (RFC 4291 §2.5.5.2) has the octets of what it stands for. @throws what is no address */
function octetsOf(address: string): Uint8Array {
  const octets = parseIpAddress(address.replace(/%.*/s, ""));
  if (octets === undefined) throw new TypeError(`not an address: ${address}`);
  return isMappedIpv4(octets) ? octets.subarray(12) : octets;
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
