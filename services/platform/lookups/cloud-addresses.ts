import ipaddr from "ipaddr.js";
import { z } from "zod";
import { bySchema, readConfigFile } from "../config/config-file.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

const table = z.array(
  z.strictObject({ address: z.union([z.ipv4(), z.ipv6()]), what: z.string().min(1), source: z.string().min(1) }),
);

/** Where clouds hand credentials and orders to their machines (config/cloud-addresses.json), each in its one spelling. */
const CLOUD_ADDRESSES: ReadonlySet<string> = new Set(
  readConfigFile("cloud-addresses.json", bySchema(table)).map(({ address }) => ipaddr.parse(address).toString()),
);

/** Whether an address is one of a cloud's own servers, or an IPv6 address that a translator or tunnel takes to one. */
export function isCloudAddress(address: Address): boolean {
  const plain = withoutZone(address);
  return [plain, ...embeddedIpv4(plain)].some((candidate) => CLOUD_ADDRESSES.has(candidate.toString()));
}

function withoutZone(address: Address): Address {
  return address instanceof ipaddr.IPv6 ? new ipaddr.IPv6(address.parts) : address;
}

/**
 * The IPv4 addresses that an IPv6 address may stand for: mapped and compatible (RFC 4291 §2.5.5), NAT64 (RFC 6052 §2.2,
 * with the local prefix of RFC 8215 at each of its lengths), 6to4 (RFC 3056), Teredo's server and client (RFC 4380 §4),
 * ISATAP (RFC 5214 §6.1).
 */
function embeddedIpv4(address: Address): ipaddr.IPv4[] {
  if (!(address instanceof ipaddr.IPv6)) return [];
  const octets = address.toByteArray();
  const at = (...positions: readonly number[]) => new ipaddr.IPv4(positions.map((position) => octets[position]!));
  const last = at(12, 13, 14, 15);
  const isIn = (block: string) => address.match(ipaddr.IPv6.parseCIDR(block));
  if (isIn("::/96") || isIn("::ffff:0:0/96") || isIn("::ffff:0:0:0/96") || isIn("64:ff9b::/96")) return [last];
  // Octet 8 is left out (RFC 6052 §2.2).
  if (isIn("64:ff9b:1::/48")) return [last, at(6, 7, 9, 10), at(7, 9, 10, 11), at(9, 10, 11, 12)];
  if (isIn("2002::/16")) return [at(2, 3, 4, 5)];
  if (isIn("2001::/32")) return [at(4, 5, 6, 7), new ipaddr.IPv4(octets.slice(12).map((octet) => octet ^ 0xff))];
  const isIsatap = (octets[8]! & 0xfd) === 0 && octets[9] === 0 && octets[10] === 0x5e && octets[11] === 0xfe;
  return isIsatap ? [last] : [];
}
