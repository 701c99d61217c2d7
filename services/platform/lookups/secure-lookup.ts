import { getServers } from "node:dns";
import { readRrsig } from "../../core/dns/dnssec/rrsig.ts";
import type { Message, MessageRecord } from "../../core/dns/message.ts";
import { type DomainName, formatDomainName, parseDomainName } from "../../core/dns/name.ts";
import { hasFields } from "../../core/dns/rdata/rdata.ts";
import { RCODE, TYPE } from "../../core/dns/rr-types.ts";
import type { HostPort } from "../config/config-values.ts";
import { askDns } from "./dns-question.ts";
import { findResolverAddress } from "./resolver-server.ts";

/** What a validating resolver says of a name. */
export interface SecureAnswer {
  /** `failure`: nobody answered, or the answer is malformed or could not be validated: what is there is not to be trusted. */
  readonly kind: "found" | "absent" | "failure";
  /** The resolver has validated it, presence or absence (RFC 4035 §3.2.3: AD). */
  readonly secure: boolean;
  /** Whose records these are: the name that was asked for, or the one that its aliases lead to where it has some; A-labels. */
  readonly owner: string;
  /** RDATA of the records of that type, in wire form. */
  readonly records: readonly Uint8Array[];
  /** Their TTL where they come from: signatures tell it (RFC 4034 §3.1.4), else what is left of it; 0 without any. */
  readonly ttlSeconds: number;
}

/** @param name presentation form, A-labels */
export type LookUpSecurely = (name: string, type: number) => Promise<SecureAnswer>;

const DNS_PORT = 53;
const TIMEOUT_MS = 2_500;
const TRIES = 2;

/**
 * Look-ups that tell whether the answer was validated. The path to the resolver has to be trusted: it is one of our own,
 * on this machine or network (RFC 7672 §2.1.1).
 */
export async function makeSecureLookup(server: HostPort): Promise<LookUpSecurely> {
  const host = await findResolverAddress(server.host);
  return async (name, type) => {
    const nothing: SecureAnswer = { kind: "failure", secure: false, owner: name, records: [], ttlSeconds: 0 };
    const qname = parseDomainName(name.endsWith(".") ? name : `${name}.`);
    if (!qname.ok) return nothing;
    const question = { qname: qname.value, type };
    for (let tried = 0; tried < TRIES; tried += 1) {
      const answer = await askResolver({ host, port: server.port }, question);
      if (answer !== undefined) return read(answer, question, nothing);
    }
    return nothing;
  };
}

/** A question of class IN. */
export interface ResolverQuestion {
  readonly qname: DomainName;
  readonly type: number;
}

function read(answer: Message, { type }: ResolverQuestion, nothing: SecureAnswer): SecureAnswer {
  const secure = answer.flags.ad;
  if (answer.rcode === RCODE.NXDOMAIN) return { ...nothing, kind: "absent", secure };
  if (answer.rcode !== RCODE.NOERROR || !isReadable(answer.answers, [type, TYPE.RRSIG])) return nothing;
  // Aliases on the way are validated with what they lead to.
  const found = answer.answers.filter((record) => record.type === type);
  const records = found.map(({ rdata }) => rdata);
  const signed = answer.answers.filter((record) => record.type === TYPE.RRSIG).map(({ rdata }) => readRrsig(rdata));
  const ttls = signed.filter(({ typeCovered }) => typeCovered === type).map(({ originalTtl }) => originalTtl);
  const ttlSeconds = Math.max(0, ...found.map(({ ttl }) => ttl), ...ttls);
  const owner = found[0] ? formatDomainName(found[0].owner) : nothing.owner;
  return { kind: records.length > 0 ? "found" : "absent", secure, owner, records, ttlSeconds };
}

/** Whether all records of these types have RDATA of their type: resolvers that only pass on what they are told pass on anything. */
export function isReadable(records: readonly MessageRecord[], types: readonly number[]): boolean {
  return records.every(({ type, rdata }) => !types.includes(type) || hasFields(type, rdata));
}

/** Asks a resolver once, by UDP and, where that is too small, by TCP. @returns undefined when it does not answer in time */
export async function askResolver(server: HostPort, question: ResolverQuestion): Promise<Message | undefined> {
  const wanted = { ...question, flags: { rd: true, ad: true }, dnssec: true } as const;
  const answer = await askDns(server, wanted, TIMEOUT_MS);
  return answer.ok ? answer.value.message : undefined;
}

/** The first resolver that the system asks. */
export function systemResolver(): HostPort | undefined {
  const [first] = getServers();
  if (first === undefined) return undefined;
  // As node writes them: an address, or with another port than 53 `192.0.2.1:5353` or `[2001:db8::1]:5353`.
  const match = /^(?:\[([^\]]+)\]|([\d.]+)):(\d+)$/.exec(first);
  return match ? { host: (match[1] ?? match[2])!, port: Number(match[3]) } : { host: first, port: DNS_PORT };
}
