import { Client } from "./client.ts";

/** A block of addresses, matched against clients without making text of them. */
export interface AddressBlock {
  contains(client: Client): boolean;
}

/**
 * Reads `address/bits`, or an address alone.
 * @throws when it is neither; the configuration has checked it before
 */
export function parseAddressBlock(text: string): AddressBlock {
  const [address = "", bitsText] = text.split("/");
  const network = new Client();
  network.setAddress(address);
  const bits = bitsText === undefined ? network.addressOctets * 8 : Number(bitsText);
  if (!Number.isInteger(bits) || bits < 0 || bits > network.addressOctets * 8) {
    throw new TypeError(`not a block of addresses: ${text}`);
  }
  return {
    contains(client) {
      if (client.addressOctets !== network.addressOctets) return false;
      const octets = bits >> 3;
      for (let index = 0; index < octets; index += 1) {
        if (client.address[index] !== network.address[index]) return false;
      }
      const mask = 0xff00 >> (bits & 7);
      return ((client.address[octets]! ^ network.address[octets]!) & mask & 0xff) === 0 || (bits & 7) === 0;
    },
  };
}
