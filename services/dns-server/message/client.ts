import { isIPv4, isIPv6 } from "node:net";
import { type AddressBlock, isInBlock } from "../../core/dns/address-block.ts";

/** How a query came. */
export const TRANSPORT = { UDP: 0, TCP: 1, TLS: 2, HTTPS: 3 } as const;

/** Who asks, in the form that the hot path uses. One object per thread or connection. */
export class Client {
  /** Address in network order, `addressOctets` of it. */
  readonly address = new Uint8Array(16);
  /** 4 or 16. */
  addressOctets = 4;
  transport: number = TRANSPORT.UDP;

  constructor(transport: number = TRANSPORT.UDP) {
    this.transport = transport;
  }

  /** Takes the address from text as node gives it; a mapped IPv4 address (RFC 4291 §2.5.5.2) counts as IPv4. */
  setAddress(text: string): void {
    const mapped = text.startsWith("::ffff:") ? text.slice(7) : text;
    if (isIPv4(mapped)) {
      this.addressOctets = 4;
      mapped.split(".").forEach((octet, index) => {
        this.address[index] = Number(octet);
      });
      return;
    }
    const [withoutScope = ""] = text.split("%");
    if (!isIPv6(withoutScope)) throw new TypeError(`not an address: ${text}`);
    this.addressOctets = 16;
    const [head = "", tail] = withoutScope.split("::");
    const before = words(head);
    const after = tail === undefined ? [] : words(tail);
    this.address.fill(0);
    for (const [index, word] of before.entries()) this.#setWord(index, word);
    for (const [index, word] of after.entries()) this.#setWord(8 - after.length + index, word);
  }

  /** The address as text. */
  get addressText(): string {
    const octets = this.address.subarray(0, this.addressOctets);
    if (this.addressOctets === 4) return octets.join(".");
    const text = Array.from({ length: 8 }, (_, word) =>
      ((octets[2 * word]! << 8) | octets[2 * word + 1]!).toString(16),
    );
    return text.join(":");
  }

  /** Without making text of the address. */
  isIn(block: AddressBlock): boolean {
    return isInBlock(this.address, block, this.addressOctets);
  }

  get isLoopback(): boolean {
    if (this.addressOctets === 4) return this.address[0] === 127;
    for (let index = 0; index < 15; index += 1) if (this.address[index] !== 0) return false;
    return this.address[15] === 1;
  }

  #setWord(index: number, word: number): void {
    this.address[2 * index] = word >>> 8;
    this.address[2 * index + 1] = word;
  }
}

/** The 16-bit words of a part of an IPv6 address, an IPv4 tail as two. */
function words(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((part) => {
    if (!part.includes(".")) return [Number.parseInt(part, 16)];
    const [a = 0, b = 0, c = 0, d = 0] = part.split(".").map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}
