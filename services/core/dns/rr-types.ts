/**
 * Resource record types by their mnemonics.
 * @see https://www.iana.org/assignments/dns-parameters
 */
export const TYPE = {
  A: 1,
  NS: 2,
  MD: 3,
  MF: 4,
  CNAME: 5,
  SOA: 6,
  MB: 7,
  MG: 8,
  MR: 9,
  NULL: 10,
  WKS: 11,
  PTR: 12,
  HINFO: 13,
  MINFO: 14,
  MX: 15,
  TXT: 16,
  RP: 17,
  AFSDB: 18,
  X25: 19,
  ISDN: 20,
  RT: 21,
  NSAP: 22,
  "NSAP-PTR": 23,
  SIG: 24,
  KEY: 25,
  PX: 26,
  GPOS: 27,
  AAAA: 28,
  LOC: 29,
  NXT: 30,
  EID: 31,
  NIMLOC: 32,
  SRV: 33,
  ATMA: 34,
  NAPTR: 35,
  KX: 36,
  CERT: 37,
  A6: 38,
  DNAME: 39,
  SINK: 40,
  OPT: 41,
  APL: 42,
  DS: 43,
  SSHFP: 44,
  IPSECKEY: 45,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  DHCID: 49,
  NSEC3: 50,
  NSEC3PARAM: 51,
  TLSA: 52,
  SMIMEA: 53,
  HIP: 55,
  NINFO: 56,
  RKEY: 57,
  TALINK: 58,
  CDS: 59,
  CDNSKEY: 60,
  OPENPGPKEY: 61,
  CSYNC: 62,
  ZONEMD: 63,
  SVCB: 64,
  HTTPS: 65,
  DSYNC: 66,
  HHIT: 67,
  BRID: 68,
  SPF: 99,
  UINFO: 100,
  UID: 101,
  GID: 102,
  UNSPEC: 103,
  NID: 104,
  L32: 105,
  L64: 106,
  LP: 107,
  EUI48: 108,
  EUI64: 109,
  NXNAME: 128,
  TKEY: 249,
  TSIG: 250,
  IXFR: 251,
  AXFR: 252,
  MAILB: 253,
  MAILA: 254,
  ANY: 255,
  URI: 256,
  CAA: 257,
  AVC: 258,
  DOA: 259,
  AMTRELAY: 260,
  RESINFO: 261,
  WALLET: 262,
  CLA: 263,
  IPN: 264,
  TA: 32768,
  DLV: 32769,
} as const;

/** Every type that has a mnemonic, by ascending code. */
export const RR_TYPES: readonly { readonly mnemonic: string; readonly code: number }[] = Object.entries(TYPE).map(
  ([mnemonic, code]) => ({ mnemonic, code }),
);

/** Classes, and the two QCLASS values of RFC 2136 and RFC 1035. */
export const CLASS = { IN: 1, CH: 3, HS: 4, NONE: 254, ANY: 255 } as const;

/** Opcodes of the DNS header (RFC 6895 §2.2). */
export const OPCODE = { QUERY: 0, IQUERY: 1, STATUS: 2, NOTIFY: 4, UPDATE: 5, DSO: 6 } as const;

/** Response codes, extended ones (RFC 6891) and TSIG errors (RFC 8945 §3) included. */
export const RCODE = {
  NOERROR: 0,
  FORMERR: 1,
  SERVFAIL: 2,
  NXDOMAIN: 3,
  NOTIMP: 4,
  REFUSED: 5,
  YXDOMAIN: 6,
  YXRRSET: 7,
  NXRRSET: 8,
  NOTAUTH: 9,
  NOTZONE: 10,
  DSOTYPENI: 11,
  /** In an OPT record; the same code in a TSIG record means BADSIG. */
  BADVERS: 16,
  BADSIG: 16,
  BADKEY: 17,
  BADTIME: 18,
  BADMODE: 19,
  BADNAME: 20,
  BADALG: 21,
  BADTRUNC: 22,
  BADCOOKIE: 23,
} as const;

const RCODE_MNEMONICS = new Map<number, string>(
  Object.entries(RCODE)
    .reverse()
    .map(([mnemonic, code]) => [code, mnemonic]),
);

/** The mnemonic of a response code, `RCODEnnn` when it has none. */
export function rcodeMnemonic(rcode: number): string {
  return RCODE_MNEMONICS.get(rcode) ?? `RCODE${rcode}`;
}

/**
 * The code of a type written as a mnemonic or as `TYPEnnn` (RFC 3597 §5), in any case;
 * undefined when it is neither.
 */
export function typeCode(text: string): number | undefined {
  const upper = text.toUpperCase();
  const known = CODE_BY_MNEMONIC.get(upper);
  if (known !== undefined) return known;
  if (!/^TYPE\d{1,5}$/.test(upper)) return undefined;
  const code = Number(upper.slice(4));
  return code <= 0xffff ? code : undefined;
}

/** The mnemonic of a type, `TYPEnnn` when it has none (RFC 3597 §5). */
export function typeMnemonic(code: number): string {
  return MNEMONIC_BY_CODE.get(code) ?? `TYPE${code}`;
}

/** Whether BIND, NSD and Knot all read the type's mnemonic; `TYPEnnn` (RFC 3597 §5) they read of any type. */
export function isPortableType(code: number): boolean {
  return PORTABLE_TYPES.has(code);
}

/** The mnemonic of a type as all readers of master files take it. */
export function portableMnemonic(code: number): string {
  return isPortableType(code) ? typeMnemonic(code) : `TYPE${code}`;
}

/**
 * Whether the code is a QTYPE or meta type, which no zone can hold: OPT, 128 to 255, and the reserved 0.
 * @see RFC 6895 §3.1
 */
export function isMetaType(code: number): boolean {
  return code === 0 || code === TYPE.OPT || (code >= 128 && code <= 255);
}

const CODE_BY_MNEMONIC = new Map<string, number>(Object.entries(TYPE));
const MNEMONIC_BY_CODE = new Map<number, string>(RR_TYPES.map(({ code, mnemonic }) => [code, mnemonic]));

const PORTABLE_TYPES: ReadonlySet<number> = new Set([
  TYPE.A,
  TYPE.NS,
  TYPE.CNAME,
  TYPE.SOA,
  TYPE.PTR,
  TYPE.HINFO,
  TYPE.MINFO,
  TYPE.MX,
  TYPE.TXT,
  TYPE.RP,
  TYPE.AFSDB,
  TYPE.RT,
  TYPE.AAAA,
  TYPE.LOC,
  TYPE.SRV,
  TYPE.NAPTR,
  TYPE.KX,
  TYPE.CERT,
  TYPE.DNAME,
  TYPE.APL,
  TYPE.DS,
  TYPE.SSHFP,
  TYPE.RRSIG,
  TYPE.NSEC,
  TYPE.DNSKEY,
  TYPE.DHCID,
  TYPE.NSEC3,
  TYPE.NSEC3PARAM,
  TYPE.TLSA,
  TYPE.SMIMEA,
  TYPE.CDS,
  TYPE.CDNSKEY,
  TYPE.OPENPGPKEY,
  TYPE.CSYNC,
  TYPE.ZONEMD,
  TYPE.SVCB,
  TYPE.HTTPS,
  TYPE.SPF,
  TYPE.NID,
  TYPE.L32,
  TYPE.L64,
  TYPE.LP,
  TYPE.EUI48,
  TYPE.EUI64,
  TYPE.URI,
  TYPE.CAA,
]);
