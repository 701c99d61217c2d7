import { connect } from "node:net";
import { decodeMessage, encodeMessage, type MessageRecord } from "../../services/core/dns/message.ts";
import { formatDomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { formatRdata } from "../../services/core/dns/rdata/rdata.ts";
import { CLASS, TYPE, typeCode, typeMnemonic } from "../../services/core/dns/rr-types.ts";
import { exchangeDatagram } from "./datagrams.ts";
import { eventually } from "./dns-server.ts";

/** A response, its records as text in lower case and sorted, so that two servers' can be compared. */
export interface Sections {
  readonly rcode: number;
  readonly authoritative: boolean;
  readonly truncated: boolean;
  readonly authenticData: boolean;
  readonly answers: readonly string[];
  readonly authorities: readonly string[];
  readonly additionals: readonly string[];
}

export interface Question {
  readonly name: string;
  readonly type: string;
  /** DO; true when left out. */
  readonly dnssecOk?: boolean;
  readonly transport?: "udp" | "tcp";
  readonly payloadOctets?: number;
}

const PATIENCE_MS = 60_000;

/** Asks a server, `host:port`, one question. */
export async function askSections(address: string, question: Question): Promise<Sections> {
  const [host, port] = address.split(":") as [string, string];
  const query = queryOctets(question);
  const exchange = question.transport === "tcp" ? exchangeTcp : exchangeDatagram;
  try {
    return readSections(await exchange(query, { host, port: Number(port) }));
  } catch (error) {
    throw new Error(`${question.name} ${question.type} at ${address}: ${(error as Error).message}`);
  }
}

/** Waits until a server answers for zones: some take them in one by one, and answer meanwhile. */
export async function untilAnswered(address: string, zones: readonly string[]): Promise<void> {
  for (const zone of zones) {
    const question: Question = { name: zone, type: "SOA", transport: "tcp" };
    const isAnswered = async () => (await askSections(address, question).catch(() => undefined))?.rcode === 0;
    await eventually(isAnswered, PATIENCE_MS);
  }
}

/** What differs in the sections that have to be the same; the additional one is each server's own. */
export function differenceOf({ name, type }: Question, ours: Sections, theirs: Sections): string[] {
  const fields = ["rcode", "authoritative", "answers", "authorities"] as const;
  const differing = fields.filter((field) => JSON.stringify(ours[field]) !== JSON.stringify(theirs[field]));
  return differing.map(
    (field) => `${name} ${type}: ${JSON.stringify(ours[field])} not ${JSON.stringify(theirs[field])}`,
  );
}

export function queryOctets({ name, type, dnssecOk = true, payloadOctets = 1232 }: Question): Uint8Array {
  const qname = parseDomainName(name);
  if (!qname.ok) throw new Error(qname.error.message);
  return encodeMessage({
    id: 4711,
    opcode: 0,
    flags: { qr: false, aa: false, tc: false, rd: true, ra: false, ad: false, cd: false },
    rcode: 0,
    questions: [{ name: qname.value, type: typeCode(type)!, class: CLASS.IN }],
    answers: [],
    authorities: [],
    additionals: [],
    edns: { udpPayloadSize: payloadOctets, version: 0, dnssecOk, options: [] },
  });
}

export function readSections(octets: Uint8Array): Sections {
  const message = decodeMessage(octets);
  if (!message.ok) throw new Error(message.error.message);
  const { rcode, flags, answers, authorities, additionals } = message.value;
  return {
    rcode,
    authoritative: flags.aa,
    truncated: flags.tc,
    authenticData: flags.ad,
    answers: textsOf(answers),
    authorities: textsOf(authorities),
    additionals: textsOf(additionals),
  };
}

function textsOf(records: readonly MessageRecord[]): readonly string[] {
  return records.map(textOf).toSorted();
}

function textOf({ owner, type, ttl, rdata }: MessageRecord): string {
  const data = formatRdata(type, rdata);
  // Base64 and the like are not names: only where a name may stand the case is the servers' own choice.
  const isOfNames = type === TYPE.SOA || type === TYPE.NS || type === TYPE.CNAME;
  return `${formatDomainName(owner).toLowerCase()} ${ttl} ${typeMnemonic(type)} ${isOfNames ? data.toLowerCase() : data}`;
}

function exchangeTcp(
  query: Uint8Array,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    let received = Buffer.alloc(0);
    socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error("no answer")));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed without an answer")));
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      socket.end();
      resolve(received.subarray(2));
    });
    socket.write(Buffer.concat([Buffer.from([query.length >> 8, query.length & 0xff]), query]));
  });
}
