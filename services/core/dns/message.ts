import { ok, type Result, refuse } from "../result.ts";
import { type DomainName, nameFromStoredWire, ROOT } from "./name.ts";
import type { FieldLayout } from "./rdata/field.ts";
import { rdataNames, rdataShape } from "./rdata/rdata.ts";
import type { ResourceRecord } from "./record.ts";
import { CLASS, TYPE } from "./rr-types.ts";
import { WireReader } from "./wire-reader.ts";
import { WireWriter } from "./wire-writer.ts";

/** Largest UDP message that passes everywhere without fragments (DNS flag day 2020, RFC 9715). */
export const UDP_PAYLOAD_OCTETS = 1_232;

/** The header's flag bits (RFC 1035 §4.1.1, RFC 4035 §3). */
export interface HeaderFlags {
  readonly qr: boolean;
  readonly aa: boolean;
  readonly tc: boolean;
  readonly rd: boolean;
  readonly ra: boolean;
  readonly ad: boolean;
  readonly cd: boolean;
}

export interface Question {
  readonly name: DomainName;
  readonly type: number;
  readonly class: number;
}

/** A record in a message, whose class may be other than IN. */
export interface MessageRecord extends ResourceRecord {
  readonly class: number;
}

export interface EdnsOption {
  readonly code: number;
  readonly data: Uint8Array;
}

/** The OPT pseudo-record as a value (RFC 6891 §6.1). */
export interface Edns {
  readonly udpPayloadSize: number;
  readonly version: number;
  readonly dnssecOk: boolean;
  readonly options: readonly EdnsOption[];
}

/** A whole DNS message. */
export interface Message {
  readonly id: number;
  readonly opcode: number;
  readonly flags: HeaderFlags;
  /** With the upper bits of EDNS. */
  readonly rcode: number;
  readonly questions: readonly Question[];
  readonly answers: readonly MessageRecord[];
  readonly authorities: readonly MessageRecord[];
  /** Without the OPT record, which is `edns`; a TSIG record stays in, last. */
  readonly additionals: readonly MessageRecord[];
  readonly edns?: Edns;
}

/** Why octets are no message; answered with FORMERR, or dropped when not even the header is there. */
export interface FormatError {
  readonly message: string;
}

/**
 * Reads a message. Hostile octets are only ever refused; octets behind the last record are left alone.
 * @see RFC 1035 §4, RFC 6891 §6.1, RFC 3597 §4 (names in RDATA of known types may come compressed)
 */
export function decodeMessage(octets: Uint8Array): Result<Message, FormatError> {
  const reader = new WireReader(octets);
  const id = reader.u16();
  const bits = reader.u16();
  const counts = [reader.u16(), reader.u16(), reader.u16(), reader.u16()];
  if (id === undefined || bits === undefined || counts.includes(undefined))
    return refuse({ message: "the header ends early" });
  const [questionCount, ...recordCounts] = counts as [number, number, number, number];
  const questions: Question[] = [];
  for (let index = 0; index < questionCount; index += 1) {
    const question = readQuestion(reader);
    if (question === undefined) return refuse({ message: "the question is malformed" });
    questions.push(question);
  }
  const sections: [MessageRecord[], MessageRecord[], MessageRecord[]] = [[], [], []];
  for (const [section, count] of recordCounts.entries()) {
    for (let index = 0; index < count; index += 1) {
      const record = readRecord(reader, octets);
      if (record === undefined)
        return refuse({ message: `record ${index + 1} of section ${section + 1} is malformed` });
      sections[section]!.push(record);
    }
  }
  const optRecords = sections.flat().filter(({ type }) => type === TYPE.OPT);
  const [answers, authorities, additionals] = sections;
  const opt = optRecords[0];
  const edns = opt && decodeEdns(opt);
  const optIsLawful = optRecords.length <= 1 && (opt === undefined || additionals.includes(opt));
  if (!optIsLawful || (opt && edns === undefined)) return refuse({ message: "the OPT record is malformed" });
  return ok({
    id,
    opcode: (bits >> 11) & 0xf,
    flags: flagsOf(bits),
    rcode: (bits & 0xf) | (((opt?.ttl ?? 0) >>> 24) << 4),
    questions,
    answers,
    authorities,
    additionals: additionals.filter((record) => record !== opt),
    ...(edns && { edns }),
  });
}

/** Writes a message, names compressed where they may be. */
export function encodeMessage(message: Message): Uint8Array {
  const out = new WireWriter();
  const { questions, answers, authorities, additionals, edns } = message;
  out.u16(message.id);
  out.u16(((message.opcode & 0xf) << 11) | bitsOfFlags(message.flags) | (message.rcode & 0xf));
  for (const section of [questions, answers, authorities]) out.u16(section.length);
  out.u16(additionals.length + (edns ? 1 : 0));
  for (const question of questions) writeQuestion(out, question);
  for (const record of [...answers, ...authorities]) writeRecord(out, record);
  // RFC 8945 §5.1: a TSIG record is the last of all.
  const signature = additionals.at(-1)?.type === TYPE.TSIG ? additionals.at(-1) : undefined;
  for (const record of additionals) if (record !== signature) writeRecord(out, record);
  if (edns) writeRecord(out, encodeEdns(edns, message.rcode));
  if (signature) writeRecord(out, signature);
  return out.finish();
}

/** Writes a question, its name compressed. */
function writeQuestion(out: WireWriter, question: Question): void {
  out.compressedName(question.name);
  out.u16(question.type);
  out.u16(question.class);
}

/**
 * Writes a record, its owner compressed, and of the names in its RDATA those that may be (RFC 3597 §4).
 * A record without `class` is of class IN.
 */
function writeRecord(out: WireWriter, record: ResourceRecord & { readonly class?: number }): void {
  const { owner, type, ttl, rdata } = record;
  if (type === TYPE.OPT || type === TYPE.TSIG) out.uncompressedName(owner);
  else out.compressedName(owner);
  out.u16(type);
  out.u16(record.class ?? CLASS.IN);
  out.u32(ttl);
  const lengthOffset = out.length;
  out.u16(rdata.length);
  let written = 0;
  for (const { offset, length, compressible } of rdataNames(type, rdata)) {
    if (!compressible) continue;
    out.bytes(rdata.subarray(written, offset));
    out.compressedName(nameFromStoredWire(rdata.subarray(offset, offset + length)));
    written = offset + length;
  }
  out.bytes(rdata.subarray(written));
  if (written > 0) out.patchU16(lengthOffset, out.length - lengthOffset - 2);
}

/** Bits of the header's second word. */
const FLAG_BITS = {
  qr: 0x8000,
  aa: 0x0400,
  tc: 0x0200,
  rd: 0x0100,
  ra: 0x0080,
  ad: 0x0020,
  cd: 0x0010,
} as const;

/** The DO bit in an OPT record's TTL (RFC 3225 §3). */
const DNSSEC_OK_BIT = 0x8000;

function flagsOf(bits: number): HeaderFlags {
  const isSet = (flag: keyof HeaderFlags): boolean => (bits & FLAG_BITS[flag]) !== 0;
  return {
    qr: isSet("qr"),
    aa: isSet("aa"),
    tc: isSet("tc"),
    rd: isSet("rd"),
    ra: isSet("ra"),
    ad: isSet("ad"),
    cd: isSet("cd"),
  };
}

function bitsOfFlags(flags: HeaderFlags): number {
  let bits = 0;
  for (const [flag, bit] of Object.entries(FLAG_BITS)) if (flags[flag as keyof HeaderFlags]) bits |= bit;
  return bits;
}

function readQuestion(reader: WireReader): Question | undefined {
  const name = reader.name();
  if (name === undefined) return undefined;
  const type = reader.u16();
  const qclass = reader.u16();
  return type === undefined || qclass === undefined ? undefined : { name, type, class: qclass };
}

function readRecord(reader: WireReader, octets: Uint8Array): MessageRecord | undefined {
  const owner = reader.name();
  if (owner === undefined) return undefined;
  const type = reader.u16();
  const rrClass = reader.u16();
  const ttl = reader.u32();
  const rdataLength = reader.u16();
  if (type === undefined || rrClass === undefined || ttl === undefined || rdataLength === undefined) return undefined;
  const rdataEnd = reader.offset + rdataLength;
  if (rdataEnd > octets.length) return undefined;
  const rdata = readRdata(type, octets.subarray(0, rdataEnd), reader.offset);
  reader.offset = rdataEnd;
  return rdata && { owner, type, class: rrClass, ttl, rdata };
}

/** RDATA up to the end of `octets`, with its names uncompressed. */
function readRdata(type: number, octets: Uint8Array, start: number): Uint8Array | undefined {
  const fields = rdataShape(type)?.fields ?? [];
  // RFC 2136 §2.4: records of updates may come without data.
  if (start === octets.length || !fields.some(({ layout }) => layout === "name"))
    return new Uint8Array(octets.subarray(start));
  const reader = new WireReader(octets, start);
  const out = new WireWriter(octets.length - start + 64);
  for (const { layout } of fields) {
    const piece = layout === "name" ? reader.name()?.wire : reader.bytes(fieldLength(layout, octets, reader.offset));
    if (piece === undefined) return undefined;
    out.bytes(piece);
  }
  return reader.remaining === 0 ? out.finish() : undefined;
}

function fieldLength(layout: Exclude<FieldLayout, "name">, octets: Uint8Array, offset: number): number {
  if (typeof layout === "number") return layout;
  return layout === "rest" ? octets.length - offset : (octets[offset] ?? 0) + 1;
}

function decodeEdns(opt: MessageRecord): Edns | undefined {
  // RFC 6891 §6.1.2: the owner is the root.
  if (opt.owner.labelCount > 0) return undefined;
  const options: EdnsOption[] = [];
  const reader = new WireReader(opt.rdata);
  while (reader.remaining > 0) {
    const code = reader.u16();
    const length = reader.u16();
    const data = length === undefined ? undefined : reader.bytes(length);
    if (code === undefined || data === undefined) return undefined;
    options.push({ code, data });
  }
  return {
    udpPayloadSize: opt.class,
    version: (opt.ttl >>> 16) & 0xff,
    dnssecOk: (opt.ttl & DNSSEC_OK_BIT) !== 0,
    options,
  };
}

function encodeEdns(edns: Edns, rcode: number): MessageRecord {
  const out = new WireWriter(64);
  for (const { code, data } of edns.options) {
    out.u16(code);
    out.u16(data.length);
    out.bytes(data);
  }
  const ttl = ((rcode >> 4) & 0xff) * 2 ** 24 + ((edns.version & 0xff) << 16) + (edns.dnssecOk ? DNSSEC_OK_BIT : 0);
  return { owner: ROOT, type: TYPE.OPT, class: edns.udpPayloadSize, ttl, rdata: out.finish() };
}
