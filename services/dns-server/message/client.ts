import { isIPv4 } from "node:net";
import { type AddressBlock, isInBlock } from "../../core/dns/address-block.ts";
import { formatIpAddress, parseIpv4, parseIpv6 } from "../../core/dns/ip-address.ts";

/** How a query came. */
export const TRANSPORT = { UDP: 0, TCP: 1, TLS: 2, HTTPS: 3 } as const;

/** Who asks, in the form that the hot path uses. One object per thread or connection. */
export class Client {
  /** Address in network order, `addressOctets` of it. */
  readonly address = new Uint8Array(16);
  /** 4 or 16. */
  addressOctets = 4;
  transport: number = TRANSPORT.UDP;
  /** Whether its TLS, if it has any, is good enough for zones: 1.3 or later (RFC 9103 §7.1). */
  mayTransfer = true;

  constructor(transport: number = TRANSPORT.UDP) {
    this.transport = transport;
  }

  /** Takes the address from text as node gives it; a mapped IPv4 address (RFC 4291 §2.5.5.2) counts as IPv4. */
  setAddress(text: string): void {
    const mapped = text.startsWith("::ffff:") ? text.slice(7) : text;
    const octets = isIPv4(mapped) ? parseIpv4(mapped) : parseIpv6(text.split("%", 1)[0]!);
    if (!octets) throw new TypeError(`not an address: ${text}`);
    this.addressOctets = octets.length;
    this.address.set(octets);
  }

  /** The address as text. */
  get addressText(): string {
    return formatIpAddress(this.address.subarray(0, this.addressOctets));
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
}
