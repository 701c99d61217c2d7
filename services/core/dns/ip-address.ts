/** The 4 octets of a dotted quad, or undefined: four decimal numbers of at most 255 without leading zeros. */
export function parseIpv4(text: string): Uint8Array | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  const octets = new Uint8Array(4);
  for (let index = 0; index < 4; index += 1) {
    const part = parts[index]!;
    if (!/^(?:0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) return undefined;
    octets[index] = Number(part);
  }
  return octets;
}

/** The 16 octets of an IPv6 address in any form of RFC 4291 §2.2, or undefined; zone identifiers are refused. */
export function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0]!, halves.length === 1);
  const tail = halves.length === 2 ? parseGroups(halves[1]!, true) : [];
  if (head === undefined || tail === undefined) return undefined;
  const count = head.length + tail.length;
  // RFC 5952 §4.2.2 advises against `::` for one group, RFC 4291 allows it.
  if (halves.length === 1 ? count !== 8 : count > 7) return undefined;
  const octets = new Uint8Array(16);
  const view = new DataView(octets.buffer);
  head.forEach((group, index) => {
    view.setUint16(index * 2, group);
  });
  tail.forEach((group, index) => {
    view.setUint16(16 - (tail.length - index) * 2, group);
  });
  return octets;
}

/** The octets of an address of either family, or undefined. */
export function parseIpAddress(text: string): Uint8Array | undefined {
  return parseIpv4(text) ?? parseIpv6(text);
}

/**
 * Whether an address is no single host's of another network: unspecified, of a link alone, multicast, broadcast or reserved
 * (RFC 4291 §2.4). False of what is no address.
 */
export function isForMany(text: string): boolean {
  const octets = parseIpAddress(text);
  if (octets === undefined) return false;
  const [first, second] = octets as unknown as [number, number];
  if (octets.length === 4) return first === 0 || first >= 224 || (first === 169 && second === 254);
  if (isMappedIpv4(octets)) return isForMany(formatIpv4(octets.subarray(12)));
  return first === 0xff || (first === 0xfe && (second & 0xc0) === 0x80) || octets.every((octet) => octet === 0);
}

/** Whether the octets of an IPv6 address stand for an IPv4 address, the last four (RFC 4291 §2.5.5.2); false of 4 octets. */
export function isMappedIpv4(octets: Uint8Array): boolean {
  return octets.length === 16 && octets.subarray(0, 12).every((octet, index) => octet === (index < 10 ? 0 : 0xff));
}

/** The text form of 4 or 16 octets. */
export function formatIpAddress(octets: Uint8Array): string {
  return octets.length === 4 ? formatIpv4(octets) : formatIpv6(octets);
}

/** Dotted quad of 4 octets. */
export function formatIpv4(octets: Uint8Array): string {
  return octets.join(".");
}

/** RFC 5952 form of 16 octets: lower case, the longest run of zeros (of two groups or more) as `::`. */
export function formatIpv6(octets: Uint8Array): string {
  // RFC 5952 §5: IPv4-mapped addresses keep their dotted quad.
  if (isMappedIpv4(octets)) return `::ffff:${formatIpv4(octets.subarray(12))}`;
  const view = new DataView(octets.buffer, octets.byteOffset, 16);
  const groups = Array.from({ length: 8 }, (_, index) => view.getUint16(index * 2));
  const { start, length } = longestZeroRun(groups);
  const hex = groups.map((group) => group.toString(16));
  if (length < 2) return hex.join(":");
  return `${hex.slice(0, start).join(":")}::${hex.slice(start + length).join(":")}`;
}

/** The first of the longest runs of zero groups. */
export function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  groups.forEach((group, index) => {
    if (group !== 0) start = index + 1;
    else if (index + 1 - start > best.length) best = { start, length: index + 1 - start };
  });
  return best;
}

/** 16-bit groups parted by colons; the last may be a dotted quad where `quadAllowed`. */
function parseGroups(text: string, quadAllowed: boolean): number[] | undefined {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-f]{1,4}$/i.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const quad = quadAllowed && index === parts.length - 1 ? parseIpv4(part) : undefined;
    if (quad === undefined) return undefined;
    groups.push((quad[0]! << 8) | quad[1]!, (quad[2]! << 8) | quad[3]!);
  }
  return groups;
}
