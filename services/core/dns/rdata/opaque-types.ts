import { DS_DIGEST_OCTETS } from "./dnssec-types.ts";
import { type FieldLayout, fieldEnd } from "./field.ts";

const A6 = 38;

type Layouts = readonly FieldLayout[];
/** MD and MF (RFC 1035 §3.3). */
const MAIL_AGENT: Layouts = ["name"];
/** PX (RFC 2163). */
const MAIL_MAPPING: Layouts = [2, "name", "name"];
/** SIG (RFC 2535), before the signature. */
const SIGNATURE_HEAD: Layouts = [18, "name"];
/** NXT (RFC 2535), before the types. */
const NEXT: Layouts = ["name"];

/**
 * How the RDATA of types stands on the wire that are taken as octets alone (RFC 3597 §5): name servers that know such a type
 * refuse a zone whose octets are none of it. By type: whether octets are lawful.
 */
const LAWFUL: ReadonlyMap<number, (rdata: Uint8Array) => boolean> = new Map([
  [3, fieldsOf(...MAIL_AGENT)],
  [4, fieldsOf(...MAIL_AGENT)],
  [26, fieldsOf(...MAIL_MAPPING)],
  // TALINK.
  [58, fieldsOf("name", "name")],
  // WKS (RFC 1035 §3.4.2): address, protocol, a bit for each port.
  [11, (rdata) => rdata.length === 5 || (rdata.length > 5 && rdata.length <= 5 + 0x2000 && rdata.at(-1) !== 0)],
  // X25 (RFC 1183), GPOS (RFC 1712).
  [19, (rdata) => fieldsOf("counted")(rdata) && rdata.length > 4 && areDigits(rdata.subarray(1))],
  [27, fieldsOf("counted", "counted", "counted")],
  // SIG, KEY (RFC 2535), NXT, DLV (RFC 4431).
  [24, (rdata) => restOf(rdata, ...SIGNATURE_HEAD) > 0],
  [25, isKey],
  [30, (rdata) => isNextBitmap(restIn(rdata, ...NEXT))],
  [32769, isLookaside],
  // EID, NIMLOC, ATMA, SINK.
  [31, (rdata) => rdata.length > 0],
  [32, (rdata) => rdata.length > 0],
  [34, (rdata) => rdata.length > 1 && (rdata[0] !== 1 || areDigits(rdata.subarray(1)))],
  [40, (rdata) => rdata.length > 2],
  // A6 (RFC 2874), IPSECKEY (RFC 4025), HIP (RFC 8005), DOA, AMTRELAY (RFC 8777).
  [A6, isA6],
  [45, (rdata) => rdata.length > 3 && restAfterGateway(rdata, 3, rdata[1]!) > 0],
  [55, isHip],
  [259, (rdata) => restOf(rdata, 9, "counted") >= 0],
  [260, isRelay],
]);

/** Up to the last name of RDATA whose names are signed in lower case (RFC 4034 §6.2). */
const UP_TO_NAMES: ReadonlyMap<number, Layouts> = new Map([
  [3, MAIL_AGENT],
  [4, MAIL_AGENT],
  [24, SIGNATURE_HEAD],
  [26, MAIL_MAPPING],
  [30, NEXT],
]);

/**
 * How lawful RDATA of a type that is taken as octets stands on the wire, up to the last name that is signed in lower case;
 * nothing where there is none.
 */
export function layoutsUpToNames(type: number, rdata: Uint8Array): Layouts {
  return type === A6 ? layoutsOfA6(rdata[0]!) : (UP_TO_NAMES.get(type) ?? []);
}

/** Whether octets are RDATA of a type that is taken as octets; those of an unknown type always are. */
export function isLawfulOpaque(type: number, rdata: Uint8Array): boolean {
  return LAWFUL.get(type)?.(rdata) ?? true;
}

function fieldsOf(...layouts: Layouts): (rdata: Uint8Array) => boolean {
  return (rdata) => restOf(rdata, ...layouts) === 0;
}

/** Octets behind some fields; below 0 where they do not stand there. */
function restOf(rdata: Uint8Array, ...layouts: Layouts): number {
  let at: number | undefined = 0;
  for (const layout of layouts) at = at === undefined ? undefined : fieldEnd(layout, rdata, at);
  return at === undefined ? -1 : rdata.length - at;
}

/** The octets behind some fields; undefined where these do not stand there. */
function restIn(rdata: Uint8Array, ...layouts: Layouts): Uint8Array | undefined {
  const rest = restOf(rdata, ...layouts);
  return rest < 0 ? undefined : rdata.subarray(rdata.length - rest);
}

function areDigits(octets: Uint8Array): boolean {
  return octets.every((octet) => octet >= 0x30 && octet <= 0x39);
}

/** A bit for each type up to 127, that of type 0 says that there is more than a bitmap, and is not used. */
function isNextBitmap(bitmap: Uint8Array | undefined): boolean {
  if (bitmap === undefined || bitmap.length > 16) return false;
  return bitmap.length === 0 || ((bitmap[0]! & 0x80) === 0 && bitmap.at(-1) !== 0);
}

/** As DS. */
function isLookaside(rdata: Uint8Array): boolean {
  const octets = DS_DIGEST_OCTETS.get(rdata[3]!);
  return octets === undefined ? rdata.length > 4 : rdata.length === 4 + octets;
}

/** A key that says to be none has no octets; that of a private algorithm (253) begins with the algorithm's name. */
function isKey(rdata: Uint8Array): boolean {
  if (rdata.length < 4) return false;
  if ((rdata[0]! & 0xc0) === 0xc0) return rdata.length === 4;
  return rdata[3] === 253 ? restOf(rdata, 4, "name") > 0 : rdata.length > 4;
}

/** As many octets of the address as the prefix leaves, then the name that has the prefix, where there is one. */
function isA6(rdata: Uint8Array): boolean {
  const prefix = rdata[0];
  if (prefix === undefined || prefix > 128) return false;
  const octets = 16 - (prefix >> 3);
  // Bits of the prefix are 0 in the address.
  const isPadded = octets === 0 || prefix % 8 === 0 || rdata[1]! >> (8 - (prefix % 8)) === 0;
  return isPadded && restOf(rdata, ...layoutsOfA6(prefix)) === 0;
}

function layoutsOfA6(prefix: number): Layouts {
  const address = 1 + 16 - (prefix >> 3);
  return prefix > 0 ? [address, "name"] : [address];
}

/** Gateways of other types than these four are octets. */
function isRelay(rdata: Uint8Array): boolean {
  if (rdata.length < 2) return false;
  const type = rdata[1]! & 0x7f;
  return type > 3 || restAfterGateway(rdata, 2, type) === 0;
}

/** @returns octets behind a gateway of a type; below 0 where it does not stand there */
function restAfterGateway(rdata: Uint8Array, at: number, type: number): number {
  if (type === 0) return restOf(rdata, at);
  if (type === 1) return restOf(rdata, at + 4);
  if (type === 2) return restOf(rdata, at + 16);
  return type === 3 ? restOf(rdata, at, "name") : -1;
}

/** Host identity tag and public key, none of them empty, then rendezvous servers. */
function isHip(rdata: Uint8Array): boolean {
  if (rdata.length < 4) return false;
  const [tag, key] = [rdata[0]!, (rdata[2]! << 8) | rdata[3]!];
  if (tag === 0 || key === 0) return false;
  let at: number | undefined = 4 + tag + key;
  while (at !== undefined && at < rdata.length) at = fieldEnd("name", rdata, at);
  return at === rdata.length;
}
