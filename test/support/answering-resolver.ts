import { createSocket } from "node:dgram";
import { decodeMessage, encodeMessage, type Message } from "../../services/core/dns/message.ts";
import { formatDomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { parseRdata } from "../../services/core/dns/rdata/rdata.ts";
import { CLASS, RCODE, TYPE, typeCode, typeMnemonic } from "../../services/core/dns/rr-types.ts";

/** What a resolver says: records as `name ttl type data`, or what goes wrong; `nonsense` is a record with data of no form. */
export type Saying = readonly string[] | "NXDOMAIN" | "SERVFAIL" | "silence" | "nonsense";

/** A resolver that says what the test wants it to, over UDP. */
export interface AnsweringResolver {
  readonly address: string;
  /** `name type` of each question that came. */
  readonly questions: string[];
  /** By name, lower case without the final dot; records of other types are left out of an answer. */
  readonly says: Map<string, Saying>;
  stop(): Promise<void>;
}

export async function startAnsweringResolver(): Promise<AnsweringResolver> {
  const socket = createSocket("udp4");
  const questions: string[] = [];
  const says = new Map<string, Saying>();
  socket.on("message", (octets, { address, port }) => {
    const query = decodeMessage(octets);
    if (!query.ok) return;
    const [question] = query.value.questions;
    const name = formatDomainName(question!.name).toLowerCase().slice(0, -1);
    questions.push(`${name} ${typeMnemonic(question!.type)}`);
    const said = says.get(name) ?? "NXDOMAIN";
    if (said !== "silence") socket.send(encodeMessage(answer(query.value, said)), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    questions,
    says,
    stop: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

function answer(query: Message, said: Exclude<Saying, "silence">): Message {
  const [{ name, type: wanted }] = query.questions as [Message["questions"][number]];
  const nonsense = { owner: name, type: wanted, class: CLASS.IN, ttl: 5, rdata: Uint8Array.of(1, 2, 3) };
  if (said === "nonsense") return answerOf(query, RCODE.NOERROR, [nonsense]);
  const records = typeof said === "string" ? [] : said.map(recordOf);
  const fitting = records.filter(({ type }) => type === wanted || type === TYPE.CNAME);
  return answerOf(query, typeof said === "string" ? RCODE[said] : RCODE.NOERROR, fitting);
}

function answerOf(query: Message, rcode: number, answers: Message["answers"]): Message {
  return {
    ...query,
    flags: { ...query.flags, qr: true, ra: true },
    rcode,
    answers,
    authorities: [],
    additionals: [],
    edns: undefined,
  };
}

function recordOf(text: string) {
  const [name, ttl, mnemonic, ...data] = text.split(" ");
  const owner = parseDomainName(`${name}.`);
  const type = typeCode(mnemonic!)!;
  if (!owner.ok) throw new Error(text);
  const rdata = parseRdata(type, data.join(" "), owner.value, "value");
  if (!rdata.ok) throw new Error(text);
  return { owner: owner.value, type, class: CLASS.IN, ttl: Number(ttl), rdata: rdata.value };
}
