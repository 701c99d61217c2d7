import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import { decodeMessage, encodeMessage, type Message, type Question } from "../core/dns/message.ts";
import type { DomainName } from "../core/dns/name.ts";
import { CLASS, OPCODE, RCODE } from "../core/dns/rr-types.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { HostPort } from "../platform/config-values.ts";

/** DNS flag day 2020: what passes everywhere without fragments. */
const UDP_OCTETS = 1_232;
const TIMEOUT_MS = 3_000;

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
    edns: { udpPayloadSize: UDP_OCTETS, version: 0, dnssecOk: dnssec, options: [] },
  };
  const octets = encodeMessage(query);
  const byUdp = read(await exchangeUdp(server, octets), query);
  if (!byUdp.ok) return byUdp;
  if (!byUdp.value.flags.tc) return ok({ message: byUdp.value, transport: "udp" });
  const byTcp = read(await exchangeTcp(server, octets), query);
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

function exchangeUdp({ host, port }: HostPort, octets: Uint8Array): Promise<Uint8Array | undefined> {
  const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
  return new Promise<Uint8Array | undefined>((resolve) => {
    const late = setTimeout(() => resolve(undefined), TIMEOUT_MS);
    socket.on("message", (answer) => {
      // Of somebody else's answers to somebody else's questions there is none: the socket is ours alone, and connected.
      clearTimeout(late);
      resolve(answer);
    });
    socket.on("error", () => {
      clearTimeout(late);
      resolve(undefined);
    });
    // As a callback it would be called with the error as well, and send over a socket that is not connected.
    socket.once("connect", () => socket.send(octets));
    socket.connect(port, host);
  }).finally(() => socket.close());
}

/** RFC 1035 §4.2.2: two octets of length before each message. */
function exchangeTcp({ host, port }: HostPort, octets: Uint8Array): Promise<Uint8Array | undefined> {
  const socket = connect(port, host);
  return new Promise<Uint8Array | undefined>((resolve) => {
    let received = Buffer.alloc(0);
    socket.setTimeout(TIMEOUT_MS, () => resolve(undefined));
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => resolve(undefined));
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2) return;
      const length = received.readUInt16BE(0);
      if (received.length >= 2 + length) resolve(received.subarray(2, 2 + length));
    });
    socket.write(Buffer.concat([Buffer.of(octets.length >>> 8, octets.length & 0xff), octets]));
  }).finally(() => socket.destroy());
}

/** The mnemonic of a response code, `RCODEnnn` when it has none. */
export function rcodeMnemonic(rcode: number): string {
  return Object.entries(RCODE).find(([, code]) => code === rcode)?.[0] ?? `RCODE${rcode}`;
}
