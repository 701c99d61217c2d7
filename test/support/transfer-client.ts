import { randomInt } from "node:crypto";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { decodeMessage, encodeMessage, type Message, type MessageRecord } from "../../services/core/dns/message.ts";
import { decodeRecords, encodeRecords } from "../../services/core/dns/record.ts";
import { CLASS, RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { decodeSoaRdata, encodeSoaRdata } from "../../services/core/dns/soa.ts";
import { type TsigKey, TsigSigner, TsigVerifier } from "../../services/core/dns/tsig.ts";
import { exchangeDatagram } from "./datagrams.ts";
import { nameOf } from "./dns-server.ts";

export interface TransferQuestion {
  readonly name: string;
  readonly type: "AXFR" | "IXFR" | "SOA" | "CNAME";
  /** The serial that an IXFR starts from. */
  readonly serial?: number;
  readonly key?: TsigKey;
  readonly nowSeconds?: number;
  /** Over TLS (RFC 9103); by no later version than the one that is named. */
  readonly tls?: boolean | "TLSv1.2";
  /** Changes the signed octets. */
  readonly tamper?: (octets: Uint8Array) => Uint8Array;
}

export interface TransferAnswer {
  readonly rcode: string;
  /** The octets of each message. */
  readonly messages: readonly Uint8Array[];
  readonly decoded: readonly Message[];
  /** The answer sections one after another. */
  readonly records: readonly MessageRecord[];
  /** Whether all messages were signed well; undefined when the query was not signed. */
  readonly authentic: boolean | undefined;
}

const TIMEOUT_MS = 60_000;

/** Asks over one TCP connection, and takes messages until the answer is whole. */
export async function askOverTcp(server: string, question: TransferQuestion): Promise<TransferAnswer> {
  const { octets, signer } = makeQuery(question);
  const [host, port] = split(server);
  const messages: Uint8Array[] = [];
  let records = 0;
  let soas = 0;
  let received = Buffer.alloc(0);
  await new Promise<void>((resolve, reject) => {
    const { tls } = question;
    const socket = tls
      ? connectTls({
          ...{ host, port, ALPNProtocols: ["dot"], rejectUnauthorized: false },
          ...(tls !== true && { maxVersion: tls }),
        })
      : connect(port, host);
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no answer from ${server} by TCP`)));
    socket.on("error", reject);
    socket.on("close", () => resolve());
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
        const message = Uint8Array.from(received.subarray(2, 2 + received.readUInt16BE(0)));
        received = received.subarray(2 + message.length);
        messages.push(message);
        const decoded = decode(message);
        records += decoded.answers.length;
        soas += decoded.answers.filter(({ type }) => type === TYPE.SOA).length;
        const last = decoded.answers.at(-1);
        const isOne = decoded.rcode !== RCODE.NOERROR || (question.type !== "AXFR" && question.type !== "IXFR");
        const isSingle = question.type === "IXFR" && records === 1;
        const isEnd = records > 1 && last?.type === TYPE.SOA && (soas === 2 || soas >= 4);
        if (isOne || isSingle || isEnd) socket.end();
      }
    });
    socket.write(Buffer.concat([Buffer.from([octets.length >> 8, octets.length & 0xff]), octets]));
  });
  return makeAnswer(messages, question, signer);
}

/** Asks with a datagram. */
export async function askOverUdp(server: string, question: TransferQuestion): Promise<TransferAnswer> {
  const { octets, signer } = makeQuery(question);
  const [host, port] = split(server);
  const message = await exchangeDatagram(octets, { host, port });
  return makeAnswer([Uint8Array.from(message)], question, signer);
}

/** Records as texts that compare, whatever their order. */
export function asSet(records: readonly MessageRecord[]): string[] {
  return records.map((record) => Buffer.from(encodeRecords([record])).toString("latin1")).sort();
}

/** The serial of a SOA record. */
export function serialOf(record: MessageRecord | undefined): number {
  if (record?.type !== TYPE.SOA) throw new Error("not a SOA");
  return decodeSoaRdata(record.rdata).serial;
}

/** Applies an incremental transfer to the records of a zone (RFC 1995 §4). */
export function applyDifference(zone: readonly string[], records: readonly MessageRecord[]): string[] {
  const result = new Set(zone);
  let adding = true;
  for (const record of records.slice(1, -1)) {
    if (record.type === TYPE.SOA) adding = !adding;
    const [text] = asSet([record]) as [string];
    if (adding) result.add(text);
    else if (!result.delete(text)) throw new Error("the difference deletes what is not there");
  }
  return [...result].sort();
}

export function ownersOf(texts: readonly string[]): string[] {
  return texts.map((text) => decodeRecords(Buffer.from(text, "latin1"))[0]!.owner.key);
}

function makeQuery(question: TransferQuestion) {
  const name = nameOf(question.name);
  const soa = {
    owner: name,
    type: TYPE.SOA,
    class: CLASS.IN,
    ttl: 0,
    rdata: encodeSoaRdata({
      ...{ mname: name, rname: name, serial: question.serial ?? 0 },
      ...{ refresh: 0, retry: 0, expire: 0, minimum: 0 },
    }),
  };
  const unsigned = encodeMessage({
    id: randomInt(65_536),
    opcode: 0,
    flags: { qr: false, aa: false, tc: false, rd: false, ra: false, ad: false, cd: false },
    rcode: 0,
    questions: [{ name, type: TYPE[question.type], class: CLASS.IN }],
    answers: [],
    authorities: question.serial === undefined ? [] : [soa],
    additionals: [],
  });
  const signer = question.key && new TsigSigner(question.key);
  const signed = signer ? signer.sign(unsigned, question.nowSeconds ?? now()) : unsigned;
  return { octets: question.tamper ? question.tamper(signed) : signed, signer };
}

function makeAnswer(
  messages: readonly Uint8Array[],
  question: TransferQuestion,
  signer: TsigSigner | undefined,
): TransferAnswer {
  const decoded = messages.map(decode);
  const [first] = decoded;
  if (!first) throw new Error("the connection was closed without an answer");
  const rcode = Object.entries(RCODE).find(([, code]) => code === first.rcode)?.[0] ?? String(first.rcode);
  const records = decoded.flatMap(({ answers }) => answers);
  return { rcode, messages, decoded, records, authentic: signer && isAuthentic(messages, question.key!, signer) };
}

function isAuthentic(messages: readonly Uint8Array[], key: TsigKey, signer: TsigSigner): boolean {
  const verifier = new TsigVerifier(key, signer.lastMac!);
  return messages.every((message) => verifier.verify(message, now()).ok) && verifier.isComplete;
}

function decode(octets: Uint8Array): Message {
  const message = decodeMessage(octets);
  if (!message.ok) throw new Error(message.error.message);
  return message.value;
}

function split(server: string): [host: string, port: number] {
  const colon = server.lastIndexOf(":");
  return [server.slice(0, colon).replace(/^\[(.*)\]$/, "$1"), Number(server.slice(colon + 1))];
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
