import { isForMany } from "../../core/dns/ip-address.ts";

/** What a name has more of is not told: whoever owns the name would have us send to as many strangers. */
export const MOST_ADDRESSES = 8;

/** Of a name's addresses those that a notice goes to. */
export function addressesToTell(addresses: readonly string[]): string[] {
  return addresses.filter((one) => !isForMany(one)).slice(0, MOST_ADDRESSES);
}
