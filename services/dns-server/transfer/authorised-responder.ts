import { UDP_PAYLOAD_OCTETS } from "../../core/dns/message.ts";
import { formatDomainName } from "../../core/dns/name.ts";
import { OPCODE, RCODE } from "../../core/dns/rr-types.ts";
import { serialIsAhead } from "../../core/dns/serial.ts";
import { appendTsigError, type TsigVerdict, verifyRequest } from "../../core/dns/tsig.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  findTransferableZone,
  readZoneDifference,
  type TransferableZone,
  type ZoneDifference,
} from "../../store/dns/transfer-differences.ts";
import type { Authority } from "../answer/authority.ts";
import { type Client, TRANSPORT } from "../message/client.ts";
import { PLAIN_UDP_OCTETS, TCP_MESSAGE_OCTETS } from "../message/edns.ts";
import { DROP, type Pipeline } from "../pipeline.ts";
import type { UpdateQueue } from "../update/update-queue.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import type { AccessTable } from "./access-table.ts";
import { Asker } from "./asker.ts";
import { type DifferencePlace, LargeDifferences } from "./large-differences.ts";
import { TransferMessage } from "./transfer-message.ts";
import { readTransferRequest, type TransferRequest } from "./transfer-request.ts";
import { difference, differenceInOne, servedSerial, servedSoa, soaOnly, wholeZone } from "./transfer-streams.ts";
import { DATAGRAM_TURN_LIMITS, TransferTurns } from "./transfer-turns.ts";

/** Takes one message of an answer; resolves when the next may come, to false when nobody wants it any more. */
export type Send = (message: Uint8Array) => Promise<boolean>;

/** Look-ups of names that are not answered: a request can come from anybody, and from any address over UDP. */
const LOOK_UPS_A_SECOND = 100;
/** A transfer that has taken so long ends when much of the memory is held up, which may be by it; its client tries again. */
const LONG_SECONDS = 60;
const MUCH_OF_MEMORY = 1 / 8;

/** A transfer that is allowed. */
interface Granted {
  /** Whose ACL allows it. */
  readonly resellerId: string;
  /** As the database has it; undefined: only the zone database is to be asked. */
  readonly zone: TransferableZone | undefined;
}

export interface AuthorisedResponderOptions {
  readonly pipeline: Pipeline;
  readonly writer: ZoneDatabaseWriter;
  readonly db: Db;
  /** Has updates made. */
  readonly updates: Pick<UpdateQueue, "submit">;
  /** While it is, transfers are of what the zone database has. */
  readonly isDatabaseAway: () => boolean;
  /** Whether the zone database has no room for a zone, or for its latest version: what it has of it is sent then. */
  readonly isLeftOut: (zoneId: number) => boolean;
  /** Whether the zone database is to hold zones of a reseller, or, null, of nobody. */
  readonly isInScope: (resellerId: string | null) => boolean;
  /** Undefined until it was read for the first time. */
  readonly access: () => AccessTable | undefined;
  readonly nowSeconds: () => number;
  readonly limitLoopback: boolean;
  readonly observe: Observe;
}

/**
 * Answers what the pipeline defers, because it first matters who asks: transfers, signed queries, updates, and queries
 * for feeds and catalogs. Runs on the thread that writes the zone database.
 */
export class AuthorisedResponder {
  readonly #options: AuthorisedResponderOptions;
  readonly #out = Buffer.alloc(TCP_MESSAGE_OCTETS);
  /** Of names that are not answered, in this second. */
  #lookUps = { second: 0, left: 0 };
  readonly #turns = new TransferTurns();
  readonly #datagramTurns = new TransferTurns(DATAGRAM_TURN_LIMITS);
  readonly #largeDifferences = new LargeDifferences();

  constructor(options: AuthorisedResponderOptions) {
    this.#options = options;
  }

  /**
   * Answers one query.
   * @param packet the octets that came, which nobody changes any more
   * @returns whether the answer went out whole; if not, the connection is of no more use
   */
  async answer(packet: Uint8Array, client: Client, send: Send): Promise<boolean> {
    try {
      return await this.#verifyAndAnswer(packet, client, send);
    } catch (err) {
      // A bug, or a record that no message holds: this answer fails, and not the server.
      this.#options.observe({ kind: "answer-failed", level: "error", err });
      return false;
    }
  }

  async #verifyAndAnswer(packet: Uint8Array, client: Client, send: Send): Promise<boolean> {
    const access = this.#options.access();
    const sendPlain = (rcode: number, sign = (message: Uint8Array) => message) => {
      const message = this.#plain(packet, client, { rcode });
      return message ? send(sign(message)) : true;
    };
    if (!access) return sendPlain(RCODE.SERVFAIL);
    const nowSeconds = this.#options.nowSeconds();
    const verdict = verifyRequest(packet, (name) => access.keyNamed(name), nowSeconds);
    if (verdict.kind === "malformed") return sendPlain(RCODE.FORMERR);
    if (verdict.kind === "invalid") {
      this.#observe(verdict);
      return sendPlain(RCODE.NOTAUTH, (message) => appendTsigError(message, verdict, nowSeconds));
    }
    return this.#answerAsker(packet, new Asker(access, client, verdict, this.#options.nowSeconds), send);
  }

  async #answerAsker(packet: Uint8Array, asker: Asker, send: Send): Promise<boolean> {
    const answerWith = async (rcode?: number) => {
      const authority = { ...asker.authority, ...(rcode !== undefined && { rcode }) };
      const message = this.#plain(packet, asker.client, authority);
      return message ? send(asker.sign(message)) : true;
    };
    if (opcodeOf(packet) === OPCODE.UPDATE) return answerWith(await this.#options.updates.submit(packet, asker.client));
    const request = readTransferRequest(packet);
    if (request === undefined) return answerWith();
    if (request === "malformed") return answerWith(RCODE.FORMERR);
    const outcome = await this.#transfer(request, asker, send);
    return typeof outcome === "number" ? answerWith(outcome) : outcome;
  }

  /** @returns whether it went out whole, or the rcode that refuses it */
  async #transfer(request: TransferRequest, asker: Asker, send: Send): Promise<boolean | number> {
    const granted = await this.#orServfail(() => this.#grant(request, asker));
    if (typeof granted === "number") return granted;
    const turns = asker.client.transport === TRANSPORT.UDP ? this.#datagramTurns : this.#turns;
    const endTurn = await turns.take(asker.client, granted.resellerId);
    if (!endTurn) return RCODE.SERVFAIL;
    const place = this.#largeDifferences.for(granted.resellerId);
    try {
      const messages = await this.#orServfail(() => this.#messages(request, asker, { ...granted, place }));
      if (typeof messages === "number") return messages;
      const isWhole = await this.#sendAll(messages, asker, send);
      const asked = request.serial === undefined ? "AXFR" : `IXFR from ${request.serial}`;
      const taker = { client: asker.client.addressText, ...(asker.keyName && { keyName: asker.keyName }) };
      this.#options.observe({ kind: "transfer-sent", zone: formatDomainName(request.name), ...taker, asked, isWhole });
      return isWhole;
    } finally {
      place.end();
      endTurn();
    }
  }

  /** What the database may fail. */
  async #orServfail<T>(work: () => Promise<T>): Promise<T | number> {
    try {
      return await work();
    } catch (err) {
      this.#options.observe({ kind: "transfer-failed", level: "warn", err });
      return RCODE.SERVFAIL;
    }
  }

  /** By whose leave the transfer is made, or the rcode that refuses it. */
  async #grant(request: TransferRequest, asker: Asker): Promise<Granted | number> {
    const { db, isDatabaseAway, isInScope, isLeftOut } = this.#options;
    const { transport, mayTransfer } = asker.client;
    // RFC 5936 §4.2, RFC 8484 §4.2; the pipeline defers these only because they are signed.
    const isOfNoTransfer =
      (transport === TRANSPORT.UDP && request.serial === undefined) || transport === TRANSPORT.HTTPS;
    if (isOfNoTransfer || !mayTransfer) return RCODE.REFUSED;
    const served = this.#grantOfServed(request, asker);
    // Of a zone that is answered only whoever may transfer it costs a look-up; of other names a few: whether one is
    // suspended, new or none of ours, only the database knows.
    const isToAsk = served === RCODE.SERVFAIL ? this.#takeLookUp(asker.client) : typeof served !== "number";
    if (isDatabaseAway() || !isToAsk) return served;
    const zone = await findTransferableZone(db, apexOf(request));
    if (!zone || !isInScope(zone.resellerId)) return RCODE.NOTAUTH;
    const resellerId = zone.published ? grantorOf(asker, request, zone.resellerId) : undefined;
    if (resellerId === undefined) return RCODE.REFUSED;
    // What is not answered, or as it was, is not handed on as it is.
    return isLeftOut(zone.id) ? served : { resellerId, zone };
  }

  /** As `#grant`, for what the zone database has, without its history: nobody else can be asked. */
  #grantOfServed(request: TransferRequest, asker: Asker): Granted | number {
    const { writer } = this.#options;
    const served = writer.publishedZone(apexOf(request));
    // Suspended, new, or none of ours: nobody can say now.
    if (served === 0) return RCODE.SERVFAIL;
    const resellerId = grantorOf(asker, request, writer.resellerOf(served));
    return resellerId === undefined ? RCODE.REFUSED : { resellerId, zone: undefined };
  }

  /** @returns whether one is left in this second; always for loopback clients, unless these are limited */
  #takeLookUp(client: Asker["client"]): boolean {
    if (client.isLoopback && !this.#options.limitLoopback) return true;
    const second = this.#options.nowSeconds();
    if (second !== this.#lookUps.second) this.#lookUps = { second, left: LOOK_UPS_A_SECOND };
    this.#lookUps.left -= 1;
    return this.#lookUps.left >= 0;
  }

  /** The messages of a transfer, or the rcode that refuses it: the zone may have gone while its turn was waited for. */
  async #messages(
    request: TransferRequest,
    asker: Asker,
    { zone, place }: Granted & { readonly place: DifferencePlace },
  ): Promise<Iterable<Uint8Array> | number> {
    if (!zone) return this.#messagesOfServed(request, asker);
    const { db, writer, observe } = this.#options;
    const newMessage = () => this.#newMessage(request, asker);
    if (request.serial !== undefined) {
      const isUdp = asker.client.transport === TRANSPORT.UDP;
      // What is large fits into no datagram, or hardly ever.
      const mayBeLarge = async () => !isUdp && (await place.take());
      const found = await readZoneDifference(db, zone.id, request.serial, mayBeLarge);
      if (found?.kind !== "difference") place.end();
      if (!found) return RCODE.NOTAUTH;
      if (found.kind === "corrupt-journal") {
        const { err } = found;
        observe({ kind: "journal-corrupt", level: "warn", zone: formatDomainName(request.name), zoneId: zone.id, err });
      }
      if (found.kind === "current") return soaOnly(found.newSoa, newMessage());
      if (isUdp) return overUdp(found, newMessage);
      if (found.kind === "difference") return difference(found, newMessage());
    }
    const reference = writer.publishedZone(apexOf(request));
    // Just made, it is not answered yet; what is still answered under its name may be of who had it before.
    const isServed = reference !== 0 && writer.resellerOf(reference) === zone.resellerId;
    return isServed ? wholeZone(writer, reference, newMessage()) : RCODE.NOTAUTH;
  }

  #messagesOfServed(request: TransferRequest, asker: Asker): Iterable<Uint8Array> | number {
    const { writer } = this.#options;
    const granted = this.#grantOfServed(request, asker);
    if (typeof granted === "number") return granted;
    const served = writer.publishedZone(apexOf(request));
    const message = this.#newMessage(request, asker);
    const isUdp = asker.client.transport === TRANSPORT.UDP;
    const isCurrent = request.serial !== undefined && !serialIsAhead(servedSerial(writer, served), request.serial);
    return isUdp || isCurrent ? servedSoa(writer, served, message) : wholeZone(writer, served, message);
  }

  /** Whether much of the zone database's memory waits until nobody can be reading it any more. */
  get #isMuchHeldUp(): boolean {
    const { waitingOctets, totalOctets } = this.#options.writer;
    return waitingOctets > totalOctets * MUCH_OF_MEMORY;
  }

  #newMessage(request: TransferRequest, asker: Asker): TransferMessage {
    return new TransferMessage(request, messageOctets(request, asker));
  }

  async #sendAll(messages: Iterable<Uint8Array>, asker: Asker, send: Send): Promise<boolean> {
    const { nowSeconds } = this.#options;
    const startedAt = nowSeconds();
    for (const message of messages) {
      if (nowSeconds() - startedAt >= LONG_SECONDS && this.#isMuchHeldUp) return false;
      if (!(await send(asker.sign(message)))) return false;
    }
    return true;
  }

  /** The pipeline's own answer in one message; undefined when the rate limit holds it back. */
  #plain(packet: Uint8Array, client: Client, authority: Partial<Authority>): Uint8Array | undefined {
    const { pipeline, nowSeconds } = this.#options;
    const whole: Authority = { reservedOctets: 0, mayRead: () => false, ...authority };
    const length = pipeline.respond(packet, packet.length, this.#out, client, nowSeconds(), whole);
    return length === DROP ? undefined : new Uint8Array(this.#out.subarray(0, length));
  }

  #observe({ error, record }: Extract<TsigVerdict, { kind: "invalid" }>): void {
    this.#options.observe({ kind: "tsig-refused", error, keyName: record.keyName.key });
  }
}

function opcodeOf(packet: Uint8Array): number {
  return (packet[2]! >> 3) & 0xf;
}

/** Wire form, lower case. */
function apexOf({ name }: TransferRequest): Buffer {
  return Buffer.from(name.key, "latin1");
}

/** @param resellerId whose the zone is @returns whose ACL allows the transfer; undefined when none does */
function grantorOf(asker: Asker, { name }: TransferRequest, resellerId: string | null): string | undefined {
  const guards = asker.access.guardsOf(name) ?? (resellerId === null ? [] : [resellerId]);
  return asker.grantorOf({ apex: name, resellerIds: guards });
}

/** What a message of the transfer may have, its signature taken off. */
function messageOctets({ edns }: TransferRequest, asker: Asker): number {
  if (asker.client.transport !== TRANSPORT.UDP) return TCP_MESSAGE_OCTETS - asker.reservedOctets;
  const wanted = edns ? Math.min(edns.udpPayloadOctets, UDP_PAYLOAD_OCTETS) : 0;
  return Math.max(wanted, PLAIN_UDP_OCTETS) - asker.reservedOctets;
}

/** RFC 1995 §2: over UDP what one datagram holds, else our SOA, which sends the client to TCP. */
function overUdp(found: ZoneDifference, newMessage: () => TransferMessage): Iterable<Uint8Array> {
  const whole = found.kind === "difference" ? differenceInOne(found, newMessage()) : undefined;
  return whole ? [whole] : soaOnly(found.newSoa, newMessage());
}
