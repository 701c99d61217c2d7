import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";
import { formatIpAddress, isMappedIpv4, parseIpAddress } from "./ip-address.ts";

/** An address block without host bits. */
export interface AddressBlock {
  /** 4 or 16 octets. */
  readonly address: Uint8Array;
  /** 0 to 32 or 128. */
  readonly prefixLength: number;
}

/**
 * Reads a block that addresses of clients or servers are looked for in. One of IPv4-mapped addresses is refused: those count
 * as the IPv4 addresses that they stand for (RFC 4291 §2.5.5.2), so none would be found in it. IPv4-compatible addresses
 * (§2.5.5.1, deprecated) are IPv6 addresses like any other.
 */
export function readAddressBlock(text: string): Result<AddressBlock, Sentence> {
  const block = parseAddressBlock(text);
  const mapped = block.ok ? whyMapped(text, block.value) : undefined;
  return mapped ? refuse(mapped) : block;
}

/** {@link readAddressBlock}, in one spelling. */
export function readBlockText(text: string): Result<string, Sentence> {
  const block = readAddressBlock(text);
  return block.ok ? ok(formatAddressBlock(block.value)) : block;
}

/**
 * Reads any block in CIDR form; a bare address is a block of one.
 * @param leastPrefix shorter prefixes are refused
 */
export function parseAddressBlock(text: string, leastPrefix = 0): Result<AddressBlock, Sentence> {
  const parts = readParts(text, leastPrefix);
  if (!parts.ok) return parts;
  const { address, prefixLength } = parts.value;
  if (address.some((octet, index) => (octet & ~networkMask(index, prefixLength)) !== 0)) {
    return refuse(sentence("host-bits", { text, prefix: `/${prefixLength}` }));
  }
  return parts;
}

/** As {@link readAddressBlock}, of whoever may write an address of the block for the block's own: its host bits do not count. */
export function readBlockAround(text: string): Result<AddressBlock, Sentence> {
  const parts = readParts(text, 0);
  if (!parts.ok) return parts;
  const { address, prefixLength } = parts.value;
  const block = { address: address.map((octet, index) => octet & networkMask(index, prefixLength)), prefixLength };
  const mapped = whyMapped(text, block);
  return mapped ? refuse(mapped) : ok(block);
}

/** CIDR form in one spelling (RFC 5952). */
export function formatAddressBlock({ address, prefixLength }: AddressBlock): string {
  return `${formatIpAddress(address)}/${prefixLength}`;
}

/** Any block in one spelling; undefined when the text is none. */
export function canonicalBlock(text: string): string | undefined {
  const block = parseAddressBlock(text);
  return block.ok ? formatAddressBlock(block.value) : undefined;
}

/** A block that was read before. @throws what is none */
export function knownAddressBlock(text: string): AddressBlock {
  const block = parseAddressBlock(text);
  if (!block.ok) throw new TypeError(block.error.message);
  return block.value;
}

/** The IPv4 block that one of IPv4-mapped addresses stands for; undefined of any other. */
export function ipv4OfMapped({ address, prefixLength }: AddressBlock): AddressBlock | undefined {
  // Without host bits it has all of the 96 bits that make addresses mapped.
  return isMappedIpv4(address) ? { address: address.subarray(12), prefixLength: prefixLength - 96 } : undefined;
}

/**
 * @param octets an address, a mapped one as the IPv4 address that it stands for
 * @param count 4 or 16: how many of the octets are the address
 */
export function isInBlock(octets: Uint8Array, { address, prefixLength }: AddressBlock, count = octets.length): boolean {
  if (count !== address.length) return false;
  const shared = prefixLength >> 3;
  for (let index = 0; index < shared; index += 1) if (octets[index] !== address[index]) return false;
  return (prefixLength & 7) === 0 || ((octets[shared]! ^ address[shared]!) & networkMask(shared, prefixLength)) === 0;
}

function readParts(text: string, leastPrefix: number): Result<AddressBlock, Sentence> {
  const [addressText, prefixText, ...extra] = text.split("/");
  const address = parseIpAddress(addressText!);
  if (address === undefined || extra.length > 0) return refuse(sentence("no-address-or-block", { text }));
  const most = address.length * 8;
  const prefixLength = Number(prefixText ?? most);
  if (!/^\d{1,3}$/.test(prefixText ?? "0") || prefixLength < leastPrefix || prefixLength > most) {
    return refuse(sentence("no-prefix", { text, least: leastPrefix, most }));
  }
  return ok({ address, prefixLength });
}

/** The bits of an octet that belong to the network. */
function networkMask(index: number, prefixLength: number): number {
  return 0xff & (0xff00 >> Math.min(8, Math.max(0, prefixLength - index * 8)));
}

function whyMapped(text: string, block: AddressBlock): Sentence | undefined {
  const ipv4 = ipv4OfMapped(block);
  return ipv4 && sentence("mapped-addresses", { text, ipv4: formatAddressBlock(ipv4) });
}
