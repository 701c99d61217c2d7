import { createHmac, timingSafeEqual } from "node:crypto";
import { ok, type Result, refuse } from "../result.ts";
import { type DomainName, nameFromLabels } from "./name.ts";
import { CLASS, RCODE, TYPE } from "./rr-types.ts";
import { findTsig, type TsigRecord } from "./tsig-record.ts";
import { WireWriter } from "./wire-writer.ts";

export { findTsig, type TsigRecord } from "./tsig-record.ts";

/** Octets of the MAC by algorithm (RFC 8945 §6); hmac-md5 is not offered. */
export const MAC_OCTETS = {
  "hmac-sha1": 20,
  "hmac-sha224": 28,
  "hmac-sha256": 32,
  "hmac-sha384": 48,
  "hmac-sha512": 64,
} as const;

/** Algorithms that keys may have. */
export type TsigAlgorithm = keyof typeof MAC_OCTETS;

/** The algorithms by name, for whoever has to offer or check them. */
export const TSIG_ALGORITHMS = Object.keys(MAC_OCTETS) as readonly TsigAlgorithm[];

/** A shared key. */
export interface TsigKey {
  readonly name: DomainName;
  readonly algorithm: TsigAlgorithm;
  readonly secret: Uint8Array;
}

/** How far clocks may differ, in seconds (RFC 8945 §10 recommends 300). */
export const TSIG_FUDGE_SECONDS = 300;

/** Messages without TSIG that may come between two with one (RFC 8945 §5.3.1). */
const MAX_UNSIGNED_MESSAGES = 99;

/** What became of the check of a request. */
export type TsigVerdict =
  | { readonly kind: "unsigned" }
  /** A TSIG in the wrong place, twice, or with a MAC cut too short: answer FORMERR, without TSIG. */
  | { readonly kind: "malformed"; readonly message: string }
  | { readonly kind: "valid"; readonly key: TsigKey; readonly record: TsigRecord }
  /** Answer NOTAUTH, with the record that {@link appendTsigError} makes. */
  | { readonly kind: "invalid"; readonly error: "BADKEY" | "BADSIG"; readonly record: TsigRecord }
  | { readonly kind: "invalid"; readonly error: "BADTIME"; readonly record: TsigRecord; readonly key: TsigKey };

/**
 * Checks a request: key, MAC, time, in this order (RFC 8945 §5.2).
 * @param message the octets as received
 * @param lookupKey the key of a name, whatever its case
 * @param nowSeconds seconds since 1970
 */
export function verifyRequest(
  message: Uint8Array,
  lookupKey: (name: DomainName) => TsigKey | undefined,
  nowSeconds: number,
): TsigVerdict {
  const found = findTsig(message);
  if (!found.ok) return { kind: "malformed", message: found.error.message };
  const record = found.value;
  if (record === undefined) return { kind: "unsigned" };
  const key = lookupKey(record.keyName);
  if (key === undefined || record.algorithmName.key !== algorithmNameOf(key).key) {
    return { kind: "invalid", error: "BADKEY", record };
  }
  if (!macLengthIsLawful(key, record.mac)) return { kind: "malformed", message: "the MAC has no lawful length" };
  const expected = computeMac(key, [unsignedMessage(message, record), signedVariables(record)]);
  if (!macMatches(record.mac, expected)) return { kind: "invalid", error: "BADSIG", record };
  if (!timeIsWithinFudge(record, nowSeconds)) return { kind: "invalid", error: "BADTIME", record, key };
  return { kind: "valid", key, record };
}

/** Signs the messages of one exchange: a request, or the answer to one in one message or several. */
export class TsigSigner {
  readonly #key: TsigKey;
  #previousMac: Uint8Array | undefined;
  #isFirst = true;

  /** @param requestMac the MAC of the request that is answered, as it was received; none to sign a request */
  constructor(key: TsigKey, requestMac?: Uint8Array) {
    this.#key = key;
    this.#previousMac = requestMac;
  }

  /** The MAC of the message signed last: what the answer to a request is checked with. */
  get lastMac(): Uint8Array | undefined {
    return this.#previousMac;
  }

  /**
   * The message with a TSIG record behind it. Of an answer in several messages all are signed, which RFC 8945 §5.3.1
   * asks of servers; from the second on the digest holds the timers alone.
   */
  sign(message: Uint8Array, nowSeconds: number): Uint8Array {
    const record = recordFor(this.#key, message, { timeSignedSeconds: nowSeconds });
    const variables = this.#isFirst ? signedVariables(record) : timers(record);
    const mac = computeMac(this.#key, [...macPrefix(this.#previousMac), message, variables]);
    this.#previousMac = mac;
    this.#isFirst = false;
    return appendRecord(message, { ...record, mac });
  }
}

/** Checks the messages of one answer, of which the first is signed and later ones may come without TSIG. */
export class TsigVerifier {
  readonly #key: TsigKey;
  #previousMac: Uint8Array;
  #isFirst = true;
  /** Messages since the last one with TSIG: the next MAC covers them. */
  #unsigned: Uint8Array[] = [];

  /** @param requestMac the MAC of the request that was sent */
  constructor(key: TsigKey, requestMac: Uint8Array) {
    this.#key = key;
    this.#previousMac = requestMac;
  }

  /** Whether the answer may end here: its last message must be a signed one (RFC 8945 §5.3.1). */
  get isComplete(): boolean {
    return !this.#isFirst && this.#unsigned.length === 0;
  }

  /** Checks the next message; what is refused ends the exchange (RFC 8945 §5.3). */
  verify(message: Uint8Array, nowSeconds: number): Result<void, { readonly message: string }> {
    const found = findTsig(message);
    if (!found.ok) return found;
    const record = found.value;
    if (record === undefined) return this.#keepUnsigned(message);
    if (record.keyName.key !== this.#key.name.key || record.algorithmName.key !== algorithmNameOf(this.#key).key) {
      return refuse({ message: "the answer is signed with another key" });
    }
    if (!macLengthIsLawful(this.#key, record.mac)) return refuse({ message: "the MAC has no lawful length" });
    const expected = computeMac(this.#key, [
      ...macPrefix(this.#previousMac),
      ...this.#unsigned,
      unsignedMessage(message, record),
      this.#isFirst ? signedVariables(record) : timers(record),
    ]);
    if (!macMatches(record.mac, expected)) return refuse({ message: "the MAC is wrong" });
    if (!timeIsWithinFudge(record, nowSeconds)) return refuse({ message: "the time is off" });
    if (record.error !== 0) return refuse({ message: `the answer carries TSIG error ${record.error}` });
    this.#previousMac = record.mac;
    this.#isFirst = false;
    this.#unsigned = [];
    return ok(undefined);
  }

  #keepUnsigned(message: Uint8Array): Result<void, { readonly message: string }> {
    if (this.#isFirst) return refuse({ message: "the answer is not signed" });
    if (this.#unsigned.length >= MAX_UNSIGNED_MESSAGES) return refuse({ message: "too many messages without TSIG" });
    this.#unsigned.push(message);
    return ok(undefined);
  }
}

/**
 * The error answer with its TSIG record: without MAC for BADKEY and BADSIG; for BADTIME signed, with the client's time
 * echoed and ours as other data (RFC 8945 §5.2.3, §5.3.2).
 */
export function appendTsigError(
  answer: Uint8Array,
  verdict: Extract<TsigVerdict, { kind: "invalid" }>,
  nowSeconds: number,
): Uint8Array {
  const { record } = verdict;
  const error = {
    ...record,
    mac: new Uint8Array(0),
    originalId: (answer[0]! << 8) | answer[1]!,
    error: RCODE[verdict.error],
    otherData: new Uint8Array(0),
  };
  if (verdict.error !== "BADTIME") return appendRecord(answer, error);
  const signed = { ...error, otherData: timeOctets(nowSeconds) };
  const mac = computeMac(verdict.key, [...macPrefix(record.mac), answer, signedVariables(signed)]);
  return appendRecord(answer, { ...signed, mac });
}

/** Octets that {@link TsigSigner.sign} adds to a message: what must be kept free for it (RFC 8945 §5.3). */
export function tsigRecordLength(key: TsigKey): number {
  const fixedOctets = 10 + 6 + 2 + 2 + 2 + 2 + 2;
  return key.name.wire.length + algorithmNameOf(key).wire.length + fixedOctets + MAC_OCTETS[key.algorithm];
}

const ALGORITHM_NAMES = new Map(
  TSIG_ALGORITHMS.map((algorithm) => {
    const name = nameFromLabels([Buffer.from(algorithm, "latin1")]);
    if (!name.ok) throw new Error(name.error.message);
    return [algorithm, name.value];
  }),
);

function algorithmNameOf(key: TsigKey): DomainName {
  return ALGORITHM_NAMES.get(key.algorithm)!;
}

function recordFor(key: TsigKey, message: Uint8Array, fields: { timeSignedSeconds: number }): TsigRecord {
  return {
    keyName: key.name,
    algorithmName: algorithmNameOf(key),
    timeSignedSeconds: fields.timeSignedSeconds,
    fudgeSeconds: TSIG_FUDGE_SECONDS,
    mac: new Uint8Array(0),
    originalId: (message[0]! << 8) | message[1]!,
    error: 0,
    otherData: new Uint8Array(0),
    offset: message.length,
  };
}

function computeMac(key: TsigKey, pieces: readonly Uint8Array[]): Uint8Array {
  const hmac = createHmac(key.algorithm.slice("hmac-".length), key.secret);
  for (const piece of pieces) hmac.update(piece);
  return hmac.digest();
}

/** RFC 8945 §5.2.2.1: at most what the algorithm makes; at least ten octets and half of that. */
function macLengthIsLawful(key: TsigKey, mac: Uint8Array): boolean {
  const full = MAC_OCTETS[key.algorithm];
  return mac.length <= full && mac.length >= Math.max(10, full / 2);
}

/** Compares in constant time, as far as a truncated MAC goes. */
function macMatches(mac: Uint8Array, expected: Uint8Array): boolean {
  return timingSafeEqual(mac, expected.subarray(0, mac.length));
}

function timeIsWithinFudge({ timeSignedSeconds, fudgeSeconds }: TsigRecord, nowSeconds: number): boolean {
  return Math.abs(nowSeconds - timeSignedSeconds) <= fudgeSeconds;
}

/** The MAC of the message before, with its length (RFC 8945 §4.3.1). */
function macPrefix(mac: Uint8Array | undefined): Uint8Array[] {
  return mac === undefined ? [] : [Uint8Array.of(mac.length >> 8, mac.length & 0xff), mac];
}

/** The message as it was before it was signed: original ID, one record less, no TSIG (RFC 8945 §4.3.2). */
function unsignedMessage(message: Uint8Array, record: TsigRecord): Uint8Array {
  const unsigned = Buffer.from(message.subarray(0, record.offset));
  unsigned.writeUInt16BE(record.originalId, 0);
  unsigned.writeUInt16BE(unsigned.readUInt16BE(10) - 1, 10);
  return unsigned;
}

/** The TSIG variables (RFC 8945 §4.3.3): names uncompressed and in lower case. */
function signedVariables(record: TsigRecord): Uint8Array {
  const out = new WireWriter(128);
  out.bytes(Buffer.from(record.keyName.key, "latin1"));
  out.u16(CLASS.ANY);
  out.u32(0);
  out.bytes(Buffer.from(record.algorithmName.key, "latin1"));
  out.bytes(timers(record));
  out.u16(record.error);
  out.u16(record.otherData.length);
  out.bytes(record.otherData);
  return out.finish();
}

/** The TSIG timers (RFC 8945 §5.3.1). */
function timers(record: TsigRecord): Uint8Array {
  const out = new WireWriter(8);
  out.u48(record.timeSignedSeconds);
  out.u16(record.fudgeSeconds);
  return out.finish();
}

function timeOctets(seconds: number): Uint8Array {
  const out = new WireWriter(6);
  out.u48(seconds);
  return out.finish();
}

function appendRecord(message: Uint8Array, record: TsigRecord): Uint8Array {
  const out = new WireWriter(message.length + 256);
  out.bytes(message);
  out.uncompressedName(record.keyName);
  out.u16(TYPE.TSIG);
  out.u16(CLASS.ANY);
  out.u32(0);
  out.u16(record.algorithmName.wire.length + 16 + record.mac.length + record.otherData.length);
  out.uncompressedName(record.algorithmName);
  out.bytes(timers(record));
  out.u16(record.mac.length);
  out.bytes(record.mac);
  out.u16(record.originalId);
  out.u16(record.error);
  out.u16(record.otherData.length);
  out.bytes(record.otherData);
  out.patchU16(10, ((message[10]! << 8) | message[11]!) + 1);
  return out.finish();
}
