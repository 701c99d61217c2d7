import { formatIpAddress } from "../../core/dns/ip-address.ts";
import type { Message } from "../../core/dns/message.ts";
import { type DomainName, domainNameFromWire } from "../../core/dns/name.ts";
import { RCODE, rcodeMnemonic, TYPE } from "../../core/dns/rr-types.ts";
import { decodeSoaRdata } from "../../core/dns/soa.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { HostPort } from "../config/config-values.ts";
import { findResolverAddress } from "./resolver-server.ts";
import { askResolver, isReadable, systemResolver } from "./secure-lookup.ts";

/** What the DNS says of the addresses of a name, of one family. */
export type AddressAnswer =
  /** No addresses: the name, or what its aliases lead to, has none of that family. */
  | { readonly kind: "found"; readonly addresses: readonly string[]; readonly ttl: number; readonly chain: Chain }
  | { readonly kind: "nxdomain"; readonly chain: Chain }
  | { readonly kind: "failure"; readonly reason: Sentence };

/** The names that the answer came by, the one that was asked for first. */
export type Chain = readonly DomainName[];

export type AddressType = typeof TYPE.A | typeof TYPE.AAAA;
export type LookUpAddresses = (name: DomainName, type: AddressType) => Promise<AddressAnswer>;

/** More aliases than that are a loop. */
const LONGEST_CHAIN = 16;

/**
 * Look-ups with the TTL of the answer, which is that of the whole chain of aliases to it: what ends first.
 * @param server resolver to ask; null: the first of the system's
 */
export async function makeAddressLookup(server: HostPort | null): Promise<LookUpAddresses> {
  const resolver = server ?? systemResolver();
  const unanswered = { kind: "failure", reason: sentence("target-unanswered") } as const;
  if (!resolver) return async () => unanswered;
  return async (name, type) => {
    const host = await findResolverAddress(resolver.host).catch(() => undefined);
    const message = host && (await askResolver({ host, port: resolver.port }, { qname: name, type }));
    return message ? readAnswer(message, name, type) : unanswered;
  };
}

function readAnswer(message: Message, name: DomainName, type: AddressType): AddressAnswer {
  const { rcode, answers, authorities } = message;
  if (!isReadable([...answers, ...authorities], [type, TYPE.CNAME, TYPE.SOA])) {
    return { kind: "failure", reason: sentence("check-malformed") };
  }
  const chain = [name];
  let ttl = Number.POSITIVE_INFINITY;
  for (let next: DomainName | undefined = name; next && chain.length <= LONGEST_CHAIN; ) {
    const alias = answers.find((record) => record.type === TYPE.CNAME && record.owner.key === next?.key);
    const target = alias && domainNameFromWire(alias.rdata);
    next = target?.ok ? target.value : undefined;
    if (!alias || !next) break;
    ttl = Math.min(ttl, alias.ttl);
    chain.push(next);
  }
  const last = chain.at(-1)!;
  if (chain.length > LONGEST_CHAIN) return { kind: "failure", reason: sentence("alias-loop") };
  if (rcode === RCODE.NXDOMAIN) return { kind: "nxdomain", chain };
  if (rcode !== RCODE.NOERROR) {
    return { kind: "failure", reason: sentence("target-failed", { rcode: rcodeMnemonic(rcode) }) };
  }
  const found = answers.filter((record) => record.type === type && record.owner.key === last.key);
  const soa = authorities.find((record) => record.type === TYPE.SOA);
  // RFC 2308 §5: the smaller of the SOA's TTL and its MINIMUM.
  if (found.length === 0 && soa) ttl = Math.min(ttl, soa.ttl, decodeSoaRdata(soa.rdata).minimum);
  for (const record of found) ttl = Math.min(ttl, record.ttl);
  const addresses = found.map(({ rdata }) => formatIpAddress(rdata));
  return { kind: "found", addresses, ttl: Number.isFinite(ttl) ? ttl : 0, chain };
}
