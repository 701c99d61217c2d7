import { CLASS, OPCODE, RCODE, TYPE } from "../core/dns/rr-types.ts";
import { Answerer } from "./answer/answer.ts";
import type { Authority } from "./answer/authority.ts";
import { ChaosAnswerer, type ServerIdentity } from "./answer/chaos.ts";
import type { AnswerCache, AnswerFacts, DatagramView } from "./answer-cache.ts";
import { type Client, TRANSPORT } from "./message/client.ts";
import { Cookies } from "./message/cookies.ts";
import { type EdnsSettings, EdnsWriter, maxResponseOctets } from "./message/edns.ts";
import { HEADER_OCTETS, Query } from "./message/query.ts";
import { EXTENDED_ERROR, Response, SECTION } from "./message/response.ts";
import { RateLimit, type RateLimitSettings, VERDICT } from "./rate-limit.ts";
import { RCODE_COUNTERS, SAMPLE, STATISTIC } from "./reports/statistics.ts";
import type { ZoneDatabaseReader } from "./zone-database/reader.ts";

/** No answer: what came is no query, or the rate limit says so. */
export const DROP = 0;

/** It first matters who asks: the query is for the authorised responder (transfer/), on the main thread. */
export const DEFER = -1;

/** What every thread's pipeline is set up with: plain data, so that it travels to the workers. */
export interface PipelineSettings {
  readonly identity: ServerIdentity;
  readonly edns: EdnsSettings;
  readonly rateLimit: RateLimitSettings;
}

/** The octets of header flags: QR, opcode, AA, TC, RD; then RA, Z, AD, CD, rcode. */
const FLAG = { QR: 0x80, AA: 0x04, TC: 0x02, RD: 0x01, CD: 0x10 } as const;
const OPCODE_MASK = 0x78;

/** No `VERDICT` yet. */
const UNJUDGED = -1;

/** From a packet to its response, on one thread. Nothing is allocated per query on the way that most queries take. */
export class Pipeline {
  readonly #reader: ZoneDatabaseReader;
  readonly #edns: EdnsWriter;
  readonly #cookies: Cookies;
  readonly #chaos: ChaosAnswerer;
  readonly #answerer: Answerer;
  readonly #rateLimit: RateLimit;
  readonly #statistics: Int32Array;
  /** The octets of the same row. */
  readonly #samples: Uint8Array;
  readonly #query = new Query();
  readonly #response: Response;
  readonly #cookie = { valid: false, nowSeconds: 0 };
  #isLimited = false;
  readonly #cache: AnswerCache | undefined;
  /** Whether there is an answer to the last query, and it depends on nothing but that and one zone at most. */
  #isRepeatable = false;
  /** What the rate limit has said of the answer before it is made, because it has been given before. */
  #verdict = UNJUDGED;

  /** @param cache answers that `respondAgain` may give again; absent: none */
  constructor(reader: ZoneDatabaseReader, settings: PipelineSettings, statistics: Int32Array, cache?: AnswerCache) {
    this.#reader = reader;
    this.#cookies = new Cookies(settings.edns.cookieSecret);
    this.#edns = new EdnsWriter(settings.edns, this.#cookies);
    this.#chaos = new ChaosAnswerer(settings.identity);
    this.#answerer = new Answerer(reader);
    this.#rateLimit = new RateLimit(settings.rateLimit);
    this.#statistics = statistics;
    this.#samples = new Uint8Array(statistics.buffer, statistics.byteOffset, statistics.byteLength);
    this.#response = new Response(reader.memory);
    this.#cache = cache;
  }

  /** As `respond`, for a datagram: where the same was asked before, and nothing has changed since, with the answer that was given. */
  respondAgain(query: DatagramView, length: number, out: DatagramView, client: Client, nowSeconds: number): number {
    const cache = this.#cache;
    if (cache === undefined) return this.respond(query.octets, length, out.octets, client, nowSeconds);
    const known = cache.find(query, length, out);
    if (known > 0) {
      const { kind, origin, rcode, truncated } = cache.facts;
      this.#verdict = this.#rateLimit.isOn ? this.#rateLimit.judge(client, kind, origin, nowSeconds) : VERDICT.SEND;
      if (this.#verdict === VERDICT.SEND) {
        this.#count(query.octets, length, client);
        this.#countAnswer(rcode, truncated);
        this.#statistics[STATISTIC.REPEATED]! += 1;
        return known;
      }
    } else this.#verdict = UNJUDGED;
    cache.facts.zoneSet = this.#reader.zoneSet;
    const octets = this.respond(query.octets, length, out.octets, client, nowSeconds);
    if (this.#isRepeatable) {
      this.#noteFacts(cache.facts);
      cache.keep(query, length, out, octets);
    }
    return octets;
  }

  /**
   * Answers one packet.
   * @param packet the octets that came, `length` of them
   * @param out where the response goes; at least 65,535 octets for TCP, 1,232 for UDP
   * @param nowSeconds wall clock
   * @param authority given when the query was deferred: signatures have been checked then
   * @returns octets of the response, or `DROP`, or `DEFER`
   */
  respond(
    packet: Uint8Array,
    length: number,
    out: Uint8Array,
    client: Client,
    nowSeconds: number,
    authority?: Authority,
  ): number {
    const query = this.#query;
    const response = this.#response;
    this.#isRepeatable = false;
    // A deferred query was counted when it came.
    if (!authority) this.#count(packet, length, client);
    this.#cookie.valid = false;
    this.#cookie.nowSeconds = nowSeconds;
    this.#answerer.origin = 0;
    this.#isLimited = this.#rateLimit.isOn && client.transport === TRANSPORT.UDP;

    if (length < HEADER_OCTETS) return this.#drop();
    if ((packet[2]! & FLAG.QR) !== 0) return this.#drop();
    const opcode = packet[2]! & OPCODE_MASK;
    const isUpdate = opcode === OPCODE.UPDATE << 3;
    if (opcode !== OPCODE.QUERY << 3 && opcode !== OPCODE.NOTIFY << 3 && !isUpdate)
      return this.#refuseOpcode(packet, length, out, client);

    const wellFormed = query.read(packet, length);
    const reserved = this.#edns.reservedOctets(query, client) + (authority?.reservedOctets ?? 0);
    response.begin(query, out, maxResponseOctets(query, client.transport) - reserved);
    if (!wellFormed) return this.#finishWith(RCODE.FORMERR, client);
    if (query.ednsVersion > 0) return this.#finishWith(RCODE.BADVERS, client);
    if (query.cookieOctets > 0) this.#cookie.valid = this.#cookies.isValid(query, client, nowSeconds);
    // RFC 7873 §5.4: a query without a question that asks for a cookie gets one.
    if (query.questionCount === 0)
      return this.#finishWith(query.cookieOctets > 0 ? RCODE.NOERROR : RCODE.FORMERR, client);
    if (query.hasTsig && !authority) return DEFER;
    // An update that is signed costs more than its answer, and is answered once for each time it comes.
    if (isUpdate && authority !== undefined && authority.reservedOctets > 0) this.#isLimited = false;
    if (authority?.rcode !== undefined) return this.#finishWith(authority.rcode, client);
    // RFC 3007 §3: who does not sign may change nothing.
    if (isUpdate) return this.#finishWith(RCODE.REFUSED, client);
    if (query.class === CLASS.CH) return this.#finish(this.#chaos.answer(query, response), client);
    if (query.class !== CLASS.IN) return this.#finishWith(RCODE.REFUSED, client);
    if (opcode === OPCODE.NOTIFY << 3) return this.#finishNotify(client);
    if (isTransfer(query.type, client.transport) && !authority) return DEFER;
    if (query.type >= TYPE.TKEY && query.type <= TYPE.MAILA) return this.#finishMetaType(client);
    if (query.type === TYPE.OPT) return this.#finishWith(RCODE.FORMERR, client);
    if (!this.#reader.isReady) return this.#finishWith(RCODE.SERVFAIL, client, EXTENDED_ERROR.NOT_READY);
    const streamed = client.transport !== TRANSPORT.UDP;
    const complete = this.#answerer.answer(query, response, streamed, authority);
    if (this.#answerer.needsAuthority) return DEFER;
    this.#isRepeatable = this.#answerer.comesFromOneZone && query.cookieOctets === 0;
    return this.#finish(complete, client);
  }

  #count(packet: Uint8Array, length: number, client: Client): void {
    const number = this.#statistics[STATISTIC.UDP + client.transport]! + 1;
    this.#statistics[STATISTIC.UDP + client.transport] = number;
    if ((number & this.#statistics[SAMPLE.MASK]!) === 0) this.#sample(packet, length);
  }

  #countAnswer(rcode: number, truncated: boolean): void {
    this.#statistics[STATISTIC.RCODE + Math.min(rcode, RCODE_COUNTERS - 1)]! += 1;
    if (truncated) this.#statistics[STATISTIC.TRUNCATED]! += 1;
  }

  /** Keeps the question for the statistics of zones, which are made elsewhere. */
  #sample(packet: Uint8Array, length: number): void {
    const slot = this.#statistics[SAMPLE.COUNT]! & (SAMPLE.SLOTS - 1);
    const end = Math.min(length, HEADER_OCTETS + SAMPLE.OCTETS);
    let at = SAMPLE.START + slot * SAMPLE.OCTETS;
    for (let index = HEADER_OCTETS; index < end; index += 1) this.#samples[at++] = packet[index]!;
    this.#statistics[SAMPLE.COUNT]! += 1;
  }

  #drop(): number {
    this.#statistics[STATISTIC.DROPPED]! += 1;
    return DROP;
  }

  /**
   * Opcodes that we do not know. Nobody knows what follows their header, so nothing of it comes back but EDNS, where it
   * is to be found.
   */
  #refuseOpcode(packet: Uint8Array, length: number, out: Uint8Array, client: Client): number {
    this.#query.read(packet, length);
    this.#query.dropQuestion();
    this.#response.begin(this.#query, out, maxResponseOctets(this.#query, client.transport));
    return this.#finishWith(RCODE.NOTIMP, client);
  }

  /** QTYPEs that ask for no record: transfers, which nobody has been granted, and the obsolete mail types. */
  #finishMetaType(client: Client): number {
    const { type } = this.#query;
    if (type === TYPE.TKEY || type === TYPE.TSIG) return this.#finishWith(RCODE.FORMERR, client);
    return this.#finishWith(RCODE.REFUSED, client, EXTENDED_ERROR.PROHIBITED);
  }

  /** NOTIFY (RFC 1996 §3.10): we are the primary of our own zones, and nothing at all of others. */
  #finishNotify(client: Client): number {
    const { name } = this.#query;
    const zone = this.#reader.isReady ? this.#reader.findZone(name) : 0;
    const isOurs = zone !== 0 && this.#reader.zoneLabel === 0 && !this.#reader.isRestricted(zone);
    return this.#finishWith(isOurs ? RCODE.REFUSED : RCODE.NOTAUTH, client);
  }

  #finishWith(rcode: number, client: Client, extendedError: number = EXTENDED_ERROR.NONE): number {
    this.#response.rcode = rcode;
    this.#response.extendedError = extendedError;
    return this.#finish(true, client);
  }

  /** Truncation, rate limit, OPT record, header: in this order. */
  #finish(complete: boolean, client: Client): number {
    const response = this.#response;
    if (!complete) this.#cutShort(client);
    if (this.#isLimited && !this.#cookie.valid) {
      const verdict = this.#verdict === UNJUDGED ? this.#judge(client) : this.#verdict;
      // What goes out is no longer what the query asked for.
      if (verdict !== VERDICT.SEND) this.#isRepeatable = false;
      if (verdict === VERDICT.DROP) {
        this.#statistics[STATISTIC.RATE_DROPPED]! += 1;
        return this.#drop();
      }
      if (verdict === VERDICT.SLIP) {
        this.#statistics[STATISTIC.RATE_SLIPPED]! += 1;
        response.truncate(this.#query);
      }
    }
    if (this.#query.hasEdns) this.#edns.write(this.#query, client, response, this.#cookie);
    this.#writeHeader();
    this.#countAnswer(response.rcode, response.truncated);
    return response.position;
  }

  /** RFC 2181 §9 over UDP; over TCP there is no more room to point to. */
  #cutShort(client: Client): void {
    this.#response.truncate(this.#query);
    if (client.transport === TRANSPORT.UDP) return;
    this.#response.truncated = false;
    this.#response.authoritative = false;
    this.#response.rcode = RCODE.SERVFAIL;
  }

  /**
   * Equal answers: of one rcode, from one name of the zone database and of one type, or from one zone where the name is not
   * there. Of what a name does not have, and of referrals, all types are equal.
   */
  #judge(client: Client): number {
    return this.#rateLimit.judge(client, this.#kind, this.#origin, this.#cookie.nowSeconds);
  }

  get #kind(): number {
    const { rcode, counts } = this.#response;
    return (rcode << 16) | (counts[SECTION.ANSWER] === 0 ? 0 : this.#query.type);
  }

  get #origin(): number {
    const { rcode } = this.#response;
    return rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN ? this.#answerer.origin : 0;
  }

  /** What the last answer depends on, and counts as. */
  #noteFacts(facts: AnswerFacts): void {
    facts.zone = this.#answerer.zone;
    facts.published = this.#answerer.published;
    facts.kind = this.#kind;
    facts.origin = this.#origin;
    facts.rcode = this.#response.rcode;
    facts.truncated = this.#response.truncated;
  }

  #writeHeader(): void {
    const { octets: query, questionEnd } = this.#query;
    const response = this.#response;
    const { octets: out, counts } = response;
    out[0] = query[0]!;
    out[1] = query[1]!;
    const authoritative = response.authoritative ? FLAG.AA : 0;
    const truncated = response.truncated ? FLAG.TC : 0;
    const opcode = query[2]! & OPCODE_MASK;
    out[2] = FLAG.QR | opcode | authoritative | truncated | (query[2]! & FLAG.RD);
    // RFC 4035 §3.1.6: CD comes back to a query, AD does not, since nothing was validated.
    const checkingDisabled = opcode === OPCODE.QUERY << 3 ? query[3]! & FLAG.CD : 0;
    out[3] = checkingDisabled | (response.rcode & 0x0f);
    out[4] = 0;
    out[5] = questionEnd > HEADER_OCTETS ? 1 : 0;
    for (let section = SECTION.ANSWER; section <= SECTION.ADDITIONAL; section += 1) {
      out[6 + 2 * section] = counts[section]! >>> 8;
      out[7 + 2 * section] = counts[section]!;
    }
  }
}

/**
 * Transfers go over streams; of IXFR the answer over UDP may be our SOA alone (RFC 5936 §4.2, RFC 1995 §2). An exchange
 * of HTTP carries one message (RFC 8484 §4.2).
 */
function isTransfer(type: number, transport: number): boolean {
  if (transport === TRANSPORT.HTTPS) return false;
  return type === TYPE.IXFR || (type === TYPE.AXFR && transport !== TRANSPORT.UDP);
}
