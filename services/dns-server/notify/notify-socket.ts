import { randomInt } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { decodeMessage, encodeMessage, type Message } from "../../core/dns/message.ts";
import { nameFromStoredWire } from "../../core/dns/name.ts";
import { CLASS, OPCODE, RCODE, TYPE } from "../../core/dns/rr-types.ts";
import { findTsig, type TsigKey, TsigSigner, TsigVerifier } from "../../core/dns/tsig.ts";
import type { ZoneNews } from "./server-queue.ts";

/** Where a NOTIFY goes. */
export interface NotifyAddress {
  readonly host: string;
  readonly port: number;
}

/** How long a server is waited for, and what the time is for signatures. */
interface NotifyPatience {
  readonly timeoutMs: number;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
  readonly nowSeconds: () => number;
}

/** What a message is signed with. */
interface Signing {
  readonly key: TsigKey;
  readonly nowSeconds: () => number;
}

/** How a message ends; `no-tsig`: the server does not understand signed ones. */
type ExchangeEnd = "acknowledged" | "no-tsig" | "silence";

/** What is waited for: an answer with this id from this address. */
interface Waiting {
  readonly settle: (message: Uint8Array) => void;
}

/** Sends NOTIFY messages (RFC 1996) over UDP, all of one address family over one socket, and waits for their answers. */
export class NotifySocket {
  readonly #socket: Socket;
  readonly #ready: Promise<void>;
  readonly #waiting = new Map<string, Waiting>();

  /**
   * @param source the address of ours that secondaries know us by; undefined for what the routing table says
   * @param onUnbound told when it cannot be bound, as where the host has no such address: nothing is sent by it
   */
  constructor(type: "udp4" | "udp6", source: string | undefined, onUnbound: () => void) {
    this.#socket = createSocket(type);
    // An unreachable server is one that does not answer.
    this.#socket.on("error", () => {});
    this.#socket.on("message", (message, { address, port }) => {
      if (message.length >= 2) this.#waiting.get(waitingKey(message.readUInt16BE(0), address, port))?.settle(message);
    });
    this.#ready = new Promise((resolve, reject) => {
      this.#socket.once("error", reject);
      this.#socket.bind({ port: 0, ...(source === undefined ? {} : { address: source }) }, resolve);
    });
    this.#ready.catch(() => {
      this.#socket.close();
      onUnbound();
    });
  }

  /**
   * Tells a server of one zone. One that knows no TSIG, as Unbound, answers what is signed with an error: it is told at once
   * without. That is no loss: a NOTIFY is a hint, and has nothing but the SOA, which the server asks for anyway (RFC 1996 §3.10).
   * @returns whether the server has acknowledged it in time, and signed where it knows how to
   * @throws when the socket could not be bound
   */
  async notify(
    to: NotifyAddress,
    news: ZoneNews,
    key: TsigKey | undefined,
    { timeoutMs, signal, nowSeconds }: NotifyPatience,
  ): Promise<boolean> {
    await this.#ready;
    const deadline = performance.now() + timeoutMs;
    const end = await this.#exchange(to, news, key && { key, nowSeconds }, { timeoutMs, signal });
    if (end !== "no-tsig") return end === "acknowledged";
    const left = { timeoutMs: deadline - performance.now(), signal };
    return (await this.#exchange(to, news, undefined, left)) === "acknowledged";
  }

  /** Sends one message, and waits for what ends the matter. */
  #exchange(
    { host, port }: NotifyAddress,
    news: ZoneNews,
    signing: Signing | undefined,
    { timeoutMs, signal }: Pick<NotifyPatience, "timeoutMs" | "signal">,
  ): Promise<ExchangeEnd> {
    const id = this.#freeId(host, port);
    const signer = signing && new TsigSigner(signing.key);
    const unsigned = notifyMessage(id, news);
    const message = signing && signer ? signer.sign(unsigned, signing.nowSeconds()) : unsigned;
    return new Promise((resolve) => {
      const waiting = waitingKey(id, host, port);
      const finish = (end: ExchangeEnd) => {
        clearTimeout(timer);
        this.#waiting.delete(waiting);
        signal.removeEventListener("abort", abandon);
        resolve(end);
      };
      const abandon = () => finish("silence");
      const timer = setTimeout(abandon, timeoutMs);
      if (signal.aborted) return abandon();
      signal.addEventListener("abort", abandon);
      this.#waiting.set(waiting, {
        settle: (answer) => {
          const requestMac = signer?.lastMac;
          const end = signing && requestMac ? endOfSigned(answer, news, signing, requestMac) : endOfUnsigned(answer);
          // A forged answer must not end the waiting.
          if (end) finish(end);
        },
      });
      // What could not be sent is what nobody acknowledges.
      this.#socket.send(message, port, host, () => {});
    });
  }

  /** Closes it, once nobody waits for an answer. */
  async close(): Promise<void> {
    const isBound = await this.#ready.then(
      () => true,
      () => false,
    );
    if (isBound) await new Promise<void>((resolve) => this.#socket.close(() => resolve()));
  }

  #freeId(host: string, port: number): number {
    for (;;) {
      const id = randomInt(65_536);
      if (!this.#waiting.has(waitingKey(id, host, port))) return id;
    }
  }
}

/** RFC 1996 §3.7: the zone's SOA as a hint in the answer section. */
function notifyMessage(id: number, { apex, soaTtlSeconds, soaRdata }: ZoneNews): Uint8Array {
  const name = nameFromStoredWire(apex);
  return encodeMessage({
    id,
    opcode: OPCODE.NOTIFY,
    flags: { qr: false, aa: true, tc: false, rd: false, ra: false, ad: false, cd: false },
    rcode: RCODE.NOERROR,
    questions: [{ name, type: TYPE.SOA, class: CLASS.IN }],
    answers: [{ owner: name, type: TYPE.SOA, class: CLASS.IN, ttl: soaTtlSeconds, rdata: soaRdata }],
    authorities: [],
    additionals: [],
  });
}

/** RFC 1996 §4.8: an answer ends the matter whatever its rcode; who refuses will not be told more by saying it again. */
function endOfUnsigned(answer: Uint8Array): ExchangeEnd | undefined {
  const message = readResponse(answer);
  return message?.opcode === OPCODE.NOTIFY ? "acknowledged" : undefined;
}

/** The same where the answer has to be signed. Of one that is not, nothing is believed but that its sender knows no TSIG. */
function endOfSigned(
  answer: Uint8Array,
  news: ZoneNews,
  { key, nowSeconds }: Signing,
  requestMac: Uint8Array,
): ExchangeEnd | undefined {
  const message = readResponse(answer);
  if (!message) return undefined;
  if (new TsigVerifier(key, requestMac).verify(answer, nowSeconds()).ok) return endOfUnsigned(answer);
  const tsig = findTsig(answer);
  return tsig.ok && tsig.value === undefined && isNotUnderstood(message, news) ? "no-tsig" : undefined;
}

/** Whether a server could not read a notice; then the opcode of its answer may be another (Unbound), and the question left out. */
function isNotUnderstood({ rcode, questions }: Message, { zone }: ZoneNews): boolean {
  if (rcode !== RCODE.FORMERR && rcode !== RCODE.NOTIMP) return false;
  return questions.every(({ name, type }) => name.key === zone && type === TYPE.SOA);
}

function readResponse(octets: Uint8Array): Message | undefined {
  const decoded = decodeMessage(octets);
  return decoded.ok && decoded.value.flags.qr ? decoded.value : undefined;
}

function waitingKey(id: number, address: string, port: number): string {
  return `${id} ${address} ${port}`;
}
