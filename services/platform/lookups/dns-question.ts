import { randomInt } from "node:crypto";
import { decodeMessage, encodeMessage, type Message, UDP_PAYLOAD_OCTETS } from "../../core/dns/message.ts";
import { type DomainName, sameName } from "../../core/dns/name.ts";
import { CLASS, OPCODE, RCODE } from "../../core/dns/rr-types.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { HostPort } from "../config/config-values.ts";
import { exchangeTcp, exchangeUdp } from "./dns-exchange.ts";

/** A question of class IN. */
export interface DnsQuestion {
  readonly qname: DomainName;
  readonly type: number;
  /** Flags of the query; neither unless given. */
  readonly flags?: { readonly rd?: true; readonly ad?: true };
  /** Whether signatures are wanted (RFC 3225: DO). */
  readonly dnssec: boolean;
}

/** An answer as it came over the wire. */
export interface WireAnswer {
  readonly message: Message;
  readonly transport: "udp" | "tcp";
}

/**
 * Asks a server one question by UDP, and again by TCP when the answer was cut off. What comes and is no answer to it is
 * passed over.
 * @param timeoutMs for the whole of it
 * @returns refused as `malformed` where something came, and no answer in time
 */
export async function askDns(
  server: HostPort,
  question: DnsQuestion,
  timeoutMs: number,
): Promise<Result<WireAnswer, "timeout" | "malformed">> {
  const id = randomInt(0x1_0000);
  const query = encodeQuery(id, question);
  const deadline = performance.now() + timeoutMs;
  let hasHeard = false;
  const fits = (octets: Uint8Array) => {
    hasHeard = true;
    return readAnswer(octets, id, question) !== undefined;
  };
  const byUdp = await exchangeUdp(server, query, { timeoutMs, fits });
  const message = byUdp && readAnswer(byUdp, id, question);
  if (!message) return refuse(hasHeard ? "malformed" : "timeout");
  if (!message.flags.tc) return ok({ message, transport: "udp" });
  const byTcp = await exchangeTcp(server, query, { timeoutMs: Math.max(1, deadline - performance.now()) });
  if (!byTcp) return refuse("timeout");
  const whole = readAnswer(byTcp, id, question);
  return whole ? ok({ message: whole, transport: "tcp" }) : refuse("malformed");
}

function encodeQuery(id: number, { qname, type, flags = {}, dnssec }: DnsQuestion): Uint8Array {
  return encodeMessage({
    ...{ id, opcode: OPCODE.QUERY, rcode: RCODE.NOERROR, answers: [], authorities: [], additionals: [] },
    flags: { qr: false, aa: false, tc: false, rd: flags.rd ?? false, ra: false, ad: flags.ad ?? false, cd: false },
    questions: [{ name: qname, type, class: CLASS.IN }],
    edns: { udpPayloadSize: UDP_PAYLOAD_OCTETS, version: 0, dnssecOk: dnssec, options: [] },
  });
}

/** The message, if it answers this question. */
function readAnswer(octets: Uint8Array, id: number, { qname, type }: DnsQuestion): Message | undefined {
  const message = decodeMessage(octets);
  if (!message.ok || message.value.id !== id || !message.value.flags.qr) return undefined;
  const [asked] = message.value.questions;
  return asked && asked.type === type && sameName(asked.name, qname) ? message.value : undefined;
}
