import { UDP_PAYLOAD_OCTETS } from "../../core/dns/message.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { type Client, TRANSPORT } from "./client.ts";
import { COOKIE_OCTETS, type Cookies } from "./cookies.ts";
import { EDNS_OPTION, type Query } from "./query.ts";
import { type Response, SECTION } from "./response.ts";

/** What a client without EDNS takes (RFC 1035 §4.2.1). */
export const PLAIN_UDP_OCTETS = 512;
export const TCP_MESSAGE_OCTETS = 65_535;

/** OPT without options (RFC 6891 §6.1.2), and the head of an option. */
const OPT_OCTETS = 11;
const OPTION_HEAD_OCTETS = 4;
/** RFC 8467 §4.1: responses are padded to a multiple of this. */
const PADDING_BLOCK_OCTETS = 468;

export interface EdnsSettings {
  /** Answer to NSID (RFC 5001); empty for none. */
  readonly nsid: Uint8Array;
  /** 16 octets, the same on all servers of a name (RFC 9018 §5). */
  readonly cookieSecret: Uint8Array;
  /** What a TCP client is told in answer to the keepalive option (RFC 7828). */
  readonly tcpIdleSeconds: number;
}

/** Octets that a response to this query may have. */
export function maxResponseOctets(query: Query, transport: number): number {
  if (transport !== TRANSPORT.UDP) return TCP_MESSAGE_OCTETS;
  if (!query.hasEdns) return PLAIN_UDP_OCTETS;
  return Math.max(PLAIN_UDP_OCTETS, Math.min(query.udpPayloadOctets, UDP_PAYLOAD_OCTETS));
}

/** Writes OPT records (RFC 6891) and keeps the space for them. */
export class EdnsWriter {
  readonly #settings: EdnsSettings;
  readonly #cookies: Cookies;

  constructor(settings: EdnsSettings, cookies: Cookies) {
    this.#settings = settings;
    this.#cookies = cookies;
  }

  /** Octets to keep free for the OPT record, padding aside. */
  reservedOctets(query: Query, client: Client): number {
    if (!query.hasEdns) return 0;
    const { nsid } = this.#settings;
    let octets = OPT_OCTETS + OPTION_HEAD_OCTETS + 2;
    if (query.wantsNsid && nsid.length > 0) octets += OPTION_HEAD_OCTETS + nsid.length;
    if (query.cookieOctets > 0) octets += OPTION_HEAD_OCTETS + COOKIE_OCTETS;
    if (query.wantsKeepalive && isOwnConnection(client)) octets += OPTION_HEAD_OCTETS + 2;
    return octets;
  }

  /** Writes the OPT record behind all others. */
  write(query: Query, client: Client, response: Response, cookie: { valid: boolean; nowSeconds: number }): void {
    const { nsid, tcpIdleSeconds } = this.#settings;
    response.octets[response.position++] = 0;
    response.writeUint16(TYPE.OPT);
    response.writeUint16(UDP_PAYLOAD_OCTETS);
    response.octets[response.position++] = response.rcode >>> 4;
    response.octets[response.position++] = 0;
    // RFC 3225 §3: DO comes back; RFC 6891 §6.1.4: the other flags do not.
    response.writeUint16(query.dnssecOk ? 0x8000 : 0);
    const rdlength = response.position;
    response.writeUint16(0);
    if (query.wantsNsid && nsid.length > 0) {
      writeOptionHead(response, EDNS_OPTION.NSID, nsid.length);
      for (let index = 0; index < nsid.length; index += 1) response.octets[response.position++] = nsid[index]!;
    }
    if (query.cookieOctets > 0) {
      writeOptionHead(response, EDNS_OPTION.COOKIE, COOKIE_OCTETS);
      this.#cookies.write(response.octets, response.position, query, client, cookie);
      response.position += COOKIE_OCTETS;
    }
    if (query.wantsKeepalive && isOwnConnection(client)) {
      writeOptionHead(response, EDNS_OPTION.TCP_KEEPALIVE, 2);
      response.writeUint16(tcpIdleSeconds * 10);
    }
    if (response.extendedError >= 0) {
      writeOptionHead(response, EDNS_OPTION.EXTENDED_ERROR, 2);
      response.writeUint16(response.extendedError);
    }
    if (query.wantsPadding && client.transport >= TRANSPORT.TLS) writePadding(response);
    response.octets[rdlength] = (response.position - rdlength - 2) >>> 8;
    response.octets[rdlength + 1] = response.position - rdlength - 2;
    response.counts[SECTION.ADDITIONAL]! += 1;
  }
}

/** A connection of DNS itself; that of HTTPS is kept by HTTP's rules. */
function isOwnConnection({ transport }: Client): boolean {
  return transport === TRANSPORT.TCP || transport === TRANSPORT.TLS;
}

function writeOptionHead(response: Response, code: number, length: number): void {
  response.writeUint16(code);
  response.writeUint16(length);
}

function writePadding(response: Response): void {
  const padded = Math.ceil((response.position + OPTION_HEAD_OCTETS) / PADDING_BLOCK_OCTETS) * PADDING_BLOCK_OCTETS;
  const length = Math.min(padded, TCP_MESSAGE_OCTETS) - response.position - OPTION_HEAD_OCTETS;
  if (length < 0) return;
  writeOptionHead(response, EDNS_OPTION.PADDING, length);
  response.octets.fill(0, response.position, response.position + length);
  response.position += length;
}
