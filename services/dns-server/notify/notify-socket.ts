import { randomInt } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { decodeMessage, encodeMessage } from "../../core/dns/message.ts";
import { nameFromStoredWire } from "../../core/dns/name.ts";
import { CLASS, OPCODE, RCODE, TYPE } from "../../core/dns/rr-types.ts";
import { type TsigKey, TsigSigner, TsigVerifier } from "../../core/dns/tsig.ts";
import type { ZoneNews } from "./server-queue.ts";

/** Where a NOTIFY goes. */
export interface NotifyAddress {
  readonly host: string;
  readonly port: number;
}

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
   * Sends one NOTIFY. @returns whether the server has acknowledged it in time, and signed where it was signed to
   * @throws when the socket could not be bound
   */
  async notify(
    { host, port }: NotifyAddress,
    news: ZoneNews,
    key: TsigKey | undefined,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal; readonly nowSeconds: () => number },
  ): Promise<boolean> {
    await this.#ready;
    const id = this.#freeId(host, port);
    const signer = key && new TsigSigner(key);
    const unsigned = notifyMessage(id, news);
    const message = signer ? signer.sign(unsigned, options.nowSeconds()) : unsigned;
    return new Promise<boolean>((resolve) => {
      const waiting = waitingKey(id, host, port);
      const finish = (acknowledged: boolean) => {
        clearTimeout(timer);
        this.#waiting.delete(waiting);
        options.signal.removeEventListener("abort", abandon);
        resolve(acknowledged);
      };
      const abandon = () => finish(false);
      const timer = setTimeout(abandon, options.timeoutMs);
      if (options.signal.aborted) return finish(false);
      options.signal.addEventListener("abort", abandon);
      this.#waiting.set(waiting, {
        settle: (answer) => {
          const requestMac = signer?.lastMac;
          const isAuthentic =
            key === undefined ||
            requestMac === undefined ||
            new TsigVerifier(key, requestMac).verify(answer, options.nowSeconds()).ok;
          // A forged answer must not end the waiting.
          if (isAuthentic && isNotifyAnswer(answer)) finish(true);
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
function isNotifyAnswer(octets: Uint8Array): boolean {
  const decoded = decodeMessage(octets);
  if (!decoded.ok) return false;
  const { flags, opcode } = decoded.value;
  return flags.qr && opcode === OPCODE.NOTIFY;
}

function waitingKey(id: number, address: string, port: number): string {
  return `${id} ${address} ${port}`;
}
