import { randomInt } from "node:crypto";
import { decodeMessage, encodeMessage, type Message, type Question, UDP_PAYLOAD_OCTETS } from "../core/dns/message.ts";
import type { DomainName } from "../core/dns/name.ts";
import { CLASS, OPCODE, RCODE } from "../core/dns/rr-types.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { HostPort } from "../platform/config/config-values.ts";
import { exchangeTcp, exchangeUdp } from "../platform/lookups/dns-exchange.ts";

const PATIENCE = { timeoutMs: 3_000 };

/** An answer as it came over the wire. */
export interface WireAnswer {
  readonly message: Message;
  readonly transport: "udp" | "tcp";
}

/** Asks a server one question by UDP, and again by TCP when the answer was cut off. */
export async function askServer(
  server: HostPort,
  question: { readonly name: DomainName; readonly type: number; readonly dnssec: boolean },
): Promise<Result<WireAnswer, "timeout" | "malformed">> {
  const { name, type, dnssec } = question;
  const query: Message = {
    id: randomInt(0x1_0000),
    opcode: OPCODE.QUERY,
    flags: { qr: false, aa: false, tc: false, rd: false, ra: false, ad: false, cd: false },
    rcode: 0,
    questions: [{ name, type, class: CLASS.IN }],
    answers: [],
    authorities: [],
    additionals: [],
    edns: { udpPayloadSize: UDP_PAYLOAD_OCTETS, version: 0, dnssecOk: dnssec, options: [] },
  };
  const octets = encodeMessage(query);
  const byUdp = read(await exchangeUdp(server, octets, PATIENCE), query);
  if (!byUdp.ok) return byUdp;
  if (!byUdp.value.flags.tc) return ok({ message: byUdp.value, transport: "udp" });
  const byTcp = read(await exchangeTcp(server, octets, PATIENCE), query);
  return byTcp.ok ? ok({ message: byTcp.value, transport: "tcp" }) : byTcp;
}

function read(octets: Uint8Array | undefined, query: Message): Result<Message, "timeout" | "malformed"> {
  if (octets === undefined) return refuse("timeout");
  const answer = decodeMessage(octets);
  return answer.ok && answers(answer.value, query) ? answer : refuse("malformed");
}

/** Whether a message is the answer to this query: its number and its question. */
function answers({ id, flags, questions: [asked] }: Message, query: Message): boolean {
  const [wanted] = query.questions as [Question];
  return id === query.id && flags.qr && asked?.name.key === wanted.name.key && asked.type === wanted.type;
}

/** The mnemonic of a response code, `RCODEnnn` when it has none. */
export function rcodeMnemonic(rcode: number): string {
  return Object.entries(RCODE).find(([, code]) => code === rcode)?.[0] ?? `RCODE${rcode}`;
}
