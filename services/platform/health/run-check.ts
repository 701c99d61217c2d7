import { randomInt } from "node:crypto";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { connect, isIP, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { HealthCheck } from "../../core/dns/follow/health-check.ts";
import { decodeMessage, encodeMessage, UDP_PAYLOAD_OCTETS } from "../../core/dns/message.ts";
import { parseDomainName, sameName } from "../../core/dns/name.ts";
import { CLASS, OPCODE, RCODE, typeCode } from "../../core/dns/rr-types.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { exchangeTcp, exchangeUdp } from "../lookups/dns-exchange.ts";

/** What a look at a member came to; `undefined`: it is well. */
export type Fault = Sentence | undefined;

/** The address that is looked at, and the name that speaks of it. */
export interface CheckedPlace {
  readonly address: string;
  /** Of the pool, for Host and SNI where the check has none of its own. */
  readonly name: string;
}

/** Of a body so much is looked through for a text. */
const MOST_BODY_OCTETS = 64 * 1_024;
/** No greeting is longer (RFC 5321 §4.5.3.1.5 allows 512 octets a line). */
const MOST_GREETING_OCTETS = 4_096;
const DAY_MS = 86_400_000;

/** Looks at a member once, by its address alone. Whatever the far side does is told as a fault. */
export async function runCheck(check: HealthCheck, place: CheckedPlace): Promise<Fault> {
  switch (check.type) {
    case "tcp":
      return exchange(check, place, () => undefined);
    case "smtp":
      return exchange(check, place, readGreeting);
    case "http":
    case "https":
      return checkHttp(check, place);
    case "dns":
      return checkDns(check, place);
  }
}

const SECOND_MS = 1_000;

function timedOut({ timeout }: HealthCheck): Fault {
  return sentence("check-timeout", { seconds: timeout });
}

function away(error: Error): Fault {
  const { code } = error as NodeJS.ErrnoException;
  return sentence("check-away", { error: (code ?? error.message).slice(0, 80) });
}

/** Reads what the far side says until that is enough to judge it; `wait` where it is not yet. */
type ReadReply = (socket: Socket, received: string) => Fault | "wait";

/** Connects; `read` is asked once the connection stands, and again with all that has come. */
function exchange(check: HealthCheck, { address }: CheckedPlace, read: ReadReply): Promise<Fault> {
  const socket = connect({ host: address, port: check.port, noDelay: true });
  return new Promise<Fault>((resolve) => {
    let received = "";
    const judge = () => {
      const fault = read(socket, received);
      if (fault !== "wait") resolve(fault);
    };
    const late = setTimeout(() => resolve(timedOut(check)), check.timeout * SECOND_MS);
    socket.once("close", () => {
      clearTimeout(late);
      resolve(sentence("check-malformed"));
    });
    socket.on("error", (error) => resolve(away(error)));
    socket.once("connect", judge);
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      judge();
    });
  }).finally(() => socket.destroy());
}

/** RFC 5321 §3.1: 220 on its last line. A server that is left without QUIT would log it. */
function readGreeting(socket: Socket, received: string): Fault | "wait" {
  const lines = received.split("\r\n").slice(0, -1);
  const last = lines.find((line) => !/^\d{3}-/.test(line));
  if (last === undefined) return received.length > MOST_GREETING_OCTETS ? sentence("check-malformed") : "wait";
  if (!/^220(?: |$)/.test(last)) return sentence("check-greeting", { reply: printable(last) });
  socket.end("QUIT\r\n");
  return undefined;
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?").slice(0, 80);
}

type HttpCheck = Extract<HealthCheck, { type: "http" | "https" }>;

function checkHttp(check: HttpCheck, { address, name }: CheckedPlace): Promise<Fault> {
  const host = check.host ?? name;
  const options = {
    ...{ host: address, port: check.port, path: check.path, method: "GET", agent: false as const },
    headers: { host, "user-agent": "palomar-health-check", accept: "*/*", connection: "close" },
    // Nothing that anybody has to hide goes over it; without, a certificate of no repute is taken.
    ...(check.type === "https" && { servername: serverNameOf(host), rejectUnauthorized: check.verify }),
  };
  const request = check.type === "https" ? requestHttps(options) : requestHttp(options);
  return new Promise<Fault>((resolve) => {
    const late = setTimeout(() => resolve(timedOut(check)), check.timeout * SECOND_MS);
    request.once("close", () => {
      clearTimeout(late);
      resolve(sentence("check-malformed"));
    });
    request.on("error", (error) => resolve(httpFault(error)));
    // Nobody asked for another protocol: what comes after 101 is no answer that could have the text.
    request.on("upgrade", (response, socket) => {
      const fault = certificateFault(check, socket as TLSSocket) ?? statusFault(check, response.statusCode!);
      resolve(fault ?? (check.text === undefined ? undefined : sentence("check-text")));
      socket.destroy();
    });
    request.on("response", (response) => {
      const { statusCode = 0 } = response;
      const fault = certificateFault(check, response.socket as TLSSocket) ?? statusFault(check, statusCode);
      if (fault || check.text === undefined) return resolve(fault);
      let body = "";
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString("latin1");
        const isFound = Buffer.from(body.slice(0, MOST_BODY_OCTETS), "latin1").includes(check.text!);
        if (isFound) resolve(undefined);
        else if (body.length >= MOST_BODY_OCTETS) resolve(sentence("check-text"));
      });
      response.on("error", (error) => resolve(away(error)));
      response.on("end", () => resolve(sentence("check-text")));
    });
    request.end();
  }).finally(() => request.destroy());
}

/** Of an address there is no SNI (RFC 6066 §3). */
function serverNameOf(host: string): string {
  const name = host.replace(/:\d+$/, "");
  return isIP(name) ? "" : name;
}

function httpFault(error: NodeJS.ErrnoException): Fault {
  const { code = "" } = error;
  if (code.startsWith("HPE_")) return sentence("check-malformed");
  const isCertificate = /CERT|SIGNATURE|ALTNAME|ISSUER|CHAIN/.test(code);
  return isCertificate ? sentence("check-certificate", { error: code }) : away(error);
}

function statusFault({ status }: HttpCheck, code: number): Fault {
  const isWell = status.some((range) => {
    const [least, most = least] = range.split("-").map(Number);
    return code >= least! && code <= most!;
  });
  return isWell ? undefined : sentence("check-status", { status: code });
}

function certificateFault(check: HttpCheck, socket: TLSSocket): Fault {
  if (check.type !== "https" || check.certificate_days === 0) return undefined;
  const ends = Date.parse(socket.getPeerCertificate().valid_to);
  const days = Math.floor((ends - Date.now()) / DAY_MS);
  return days >= check.certificate_days ? undefined : sentence("check-certificate-expires", { days });
}

type DnsCheck = Extract<HealthCheck, { type: "dns" }>;

async function checkDns(check: DnsCheck, { address }: CheckedPlace): Promise<Fault> {
  const name = parseDomainName(check.question.endsWith(".") ? check.question : `${check.question}.`);
  if (!name.ok) return sentence("check-malformed");
  const id = randomInt(0x10000);
  const type = typeCode(check.question_type)!;
  const query = encodeMessage({
    ...{ id, opcode: OPCODE.QUERY, rcode: RCODE.NOERROR, answers: [], authorities: [], additionals: [] },
    flags: { qr: false, aa: false, tc: false, rd: true, ra: false, ad: false, cd: false },
    questions: [{ name: name.value, type, class: CLASS.IN }],
    edns: { udpPayloadSize: UDP_PAYLOAD_OCTETS, version: 0, dnssecOk: false, options: [] },
  });
  const read = (octets: Uint8Array) => {
    const message = decodeMessage(octets);
    const isAnswer = message.ok && message.value.id === id && message.value.flags.qr;
    const [asked] = isAnswer ? message.value.questions : [];
    return isAnswer && asked?.type === type && sameName(asked.name, name.value) ? message.value : undefined;
  };
  const server = { host: address, port: check.port };
  const deadline = performance.now() + check.timeout * SECOND_MS;
  const timeoutMs = check.timeout * SECOND_MS;
  let octets = await exchangeUdp(server, query, { timeoutMs, fits: (one) => read(one) !== undefined });
  if (octets && read(octets)?.flags.tc) {
    octets = await exchangeTcp(server, query, { timeoutMs: Math.max(1, deadline - performance.now()) });
  }
  const answer = octets && read(octets);
  if (!answer) return octets ? sentence("check-malformed") : timedOut(check);
  if (answer.rcode !== RCODE.NOERROR) {
    const [text] = Object.entries(RCODE).find(([, code]) => code === answer.rcode) ?? [`${answer.rcode}`];
    return sentence("check-rcode", { rcode: text });
  }
  return answer.answers.some((record) => record.type === type) ? undefined : sentence("check-no-records");
}
