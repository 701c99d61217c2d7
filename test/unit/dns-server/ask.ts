import * as dnsPacket from "dns-packet";
import type { Authority } from "../../../services/dns-server/answer/authority.ts";
import { Client, TRANSPORT } from "../../../services/dns-server/message/client.ts";
import { DEFER, DROP, type Pipeline } from "../../../services/dns-server/pipeline.ts";

/** A response as a foreign implementation reads it. */
export interface Answer {
  readonly octets: Uint8Array;
  readonly id: number;
  readonly rcode: string;
  readonly aa: boolean;
  readonly tc: boolean;
  readonly ra: boolean;
  /** `owner TYPE data`, in the sections' order; OPT left out. */
  readonly answers: readonly string[];
  readonly authorities: readonly string[];
  readonly additionals: readonly string[];
  /** TTLs of the authority section. */
  readonly authorityTtls: readonly number[];
  readonly opt: dnsPacket.OptAnswer | undefined;
  readonly question: dnsPacket.Question | undefined;
}

export interface AskOptions {
  readonly transport?: number;
  /** What EDNS carries; none when left out. */
  readonly edns?: Partial<dnsPacket.OptAnswer>;
  readonly client?: string;
  readonly nowSeconds?: number;
}

/** Asks a pipeline; undefined when there is no answer. */
export function ask(pipeline: Pipeline, name: string, type: string, options: AskOptions = {}): Answer | undefined {
  const additionals = options.edns
    ? [{ type: "OPT", name: ".", udpPayloadSize: 4096, flags: 0, options: [], ...options.edns } as dnsPacket.OptAnswer]
    : [];
  const questions = [{ name, type: type as dnsPacket.RecordType }];
  return askOctets(pipeline, dnsPacket.encode({ type: "query", id: 4711, questions, additionals }), options);
}

/** Sends octets to a pipeline as they are. */
export function askOctets(pipeline: Pipeline, packet: Uint8Array, options: AskOptions = {}): Answer | undefined {
  const octets = respond(pipeline, packet, options);
  return octets && readAnswer(octets);
}

/** Whoever has no rights: what is deferred is answered for such a client. */
const STRANGER: Authority = { reservedOctets: 0, mayRead: () => false };

/** As `askOctets`, without reading the response. */
export function respond(pipeline: Pipeline, packet: Uint8Array, options: AskOptions = {}): Uint8Array | undefined {
  const client = new Client(options.transport ?? TRANSPORT.UDP);
  client.setAddress(options.client ?? "192.0.2.99");
  const out = new Uint8Array(options.transport ? 65_535 : 1_232);
  const nowSeconds = options.nowSeconds ?? 1_700_000_000;
  let length = pipeline.respond(packet, packet.length, out, client, nowSeconds);
  if (length === DEFER) length = pipeline.respond(packet, packet.length, out, client, nowSeconds, STRANGER);
  return length === DROP ? undefined : out.slice(0, length);
}

export function readAnswer(octets: Uint8Array): Answer {
  const packet = dnsPacket.decode(Buffer.from(octets)) as dnsPacket.DecodedPacket & { rcode: string };
  const additionals = packet.additionals ?? [];
  return {
    octets,
    id: packet.id ?? -1,
    rcode: packet.rcode,
    aa: packet.flag_aa,
    tc: packet.flag_tc,
    ra: packet.flag_ra,
    answers: (packet.answers ?? []).map(textOf),
    authorities: (packet.authorities ?? []).map(textOf),
    authorityTtls: (packet.authorities ?? []).map((record) => ("ttl" in record ? (record.ttl ?? -1) : -1)),
    additionals: additionals.filter(({ type }) => type !== "OPT").map(textOf),
    opt: additionals.find(({ type }) => type === "OPT") as dnsPacket.OptAnswer | undefined,
    question: packet.questions?.[0],
  };
}

function textOf(record: dnsPacket.Answer): string {
  return `${record.name} ${record.type} ${dataText("data" in record ? record.data : "")}`;
}

function dataText(data: unknown): string {
  if (Buffer.isBuffer(data)) return data.toString("latin1");
  if (Array.isArray(data)) return data.map(dataText).join("|");
  if (typeof data !== "object" || data === null) return String(data);
  const fields = data as Record<string, unknown>;
  if ("exchange" in fields) return `${fields.preference} ${fields.exchange}`;
  if ("mname" in fields) return `${fields.mname} ${fields.serial}`;
  if ("port" in fields) return `${fields.priority} ${fields.weight} ${fields.port} ${fields.target}`;
  return JSON.stringify(data);
}
