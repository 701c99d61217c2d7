import {
  checkPrime,
  createECDH,
  createPrivateKey,
  createPublicKey,
  type JsonWebKey,
  type KeyObject,
} from "node:crypto";
import { promisify } from "node:util";
import { ok, type Result, refuse } from "../../result.ts";
import { type Sentence, sentence } from "../../sentences.ts";
import { parseBase64 } from "../rdata/encoded-fields.ts";
import { publicKeyFrom, publicKeyOctets, type SigningAlgorithm, toBase64Url } from "./algorithm.ts";

/** A field of a `.private` file, and the parameter of a JSON Web Key (RFC 7518 §6) that it is. */
type PrivateField = readonly [label: string, parameter: keyof JsonWebKey & string];

/** What a `.private` file has of a key. */
export const PRIVATE_FIELDS: { readonly [algorithm in SigningAlgorithm]: readonly PrivateField[] } = {
  8: [
    ["Modulus", "n"],
    ["PublicExponent", "e"],
    ["PrivateExponent", "d"],
    ["Prime1", "p"],
    ["Prime2", "q"],
    ["Exponent1", "dp"],
    ["Exponent2", "dq"],
    ["Coefficient", "qi"],
  ],
  13: [["PrivateKey", "d"]],
  15: [["PrivateKey", "d"]],
};

/** What is wrong with the two halves of a key. */
export interface KeyProblem {
  readonly half: "public" | "private";
  /** Undefined: they are of different keys. */
  readonly reason?: Sentence;
}

type Checked = Result<Readonly<Record<string, Uint8Array>>, KeyProblem>;

/**
 * A private key, out of its numbers. All of them are checked before OpenSSL sees them, which takes numbers that are no key,
 * and fails, or signs wrongly, when it is to sign.
 * @param publicKey as the DNSKEY has it
 * @param fields of the `.private` file, by their names in lower case
 */
export async function readPrivateKey(
  algorithm: SigningAlgorithm,
  publicKey: Uint8Array,
  fields: ReadonlyMap<string, string>,
): Promise<Result<KeyObject, KeyProblem>> {
  const published = publicKeyFrom(algorithm, publicKey);
  if (!published) return refuse({ half: "public", reason: sentence("no-public-key") });
  // RFC 3110 §2: a second form of the same numbers would be another DNSKEY, with another tag.
  if (Buffer.compare(publicKeyOctets(algorithm, published), publicKey) !== 0) {
    return refuse({ half: "public", reason: sentence("public-key-octets") });
  }
  const jwk = published.export({ format: "jwk" });
  const read = readFields(algorithm, fields);
  if (!read.ok) return read;
  const checked = await CHECKS[algorithm](read.value, jwk);
  if (!checked.ok) return checked;
  for (const [parameter, octets] of Object.entries(checked.value)) jwk[parameter] = toBase64Url(octets);
  return ok(createPrivateKey({ key: jwk, format: "jwk" }));
}

function readFields(algorithm: SigningAlgorithm, fields: ReadonlyMap<string, string>): Checked {
  const read: Record<string, Uint8Array> = {};
  for (const [label, parameter] of PRIVATE_FIELDS[algorithm]) {
    const text = fields.get(label.toLowerCase());
    if (!text) return wrong(sentence("key-number-missing", { name: label }));
    const octets = parseBase64(text);
    if (!octets?.length) return wrong(sentence("key-number-not-base64", { name: label }));
    read[parameter] = octets;
  }
  return ok(read);
}

function wrong(reason: Sentence): Result<never, KeyProblem> {
  return refuse({ half: "private", reason });
}

const UNLIKE: Result<never, KeyProblem> = refuse({ half: "private" });

const CHECKS: {
  readonly [algorithm in SigningAlgorithm]: (
    read: Readonly<Record<string, Uint8Array>>,
    published: JsonWebKey,
  ) => Checked | Promise<Checked>;
} = { 8: checkRsa, 13: checkP256, 15: checkEd25519 };

const KEY_OCTETS = 32;

/** The order of P-256 (FIPS 186-5, SP 800-186 §3.2.1.3). */
const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

function checkP256({ d }: Readonly<Record<string, Uint8Array>>, { x, y }: JsonWebKey): Checked {
  // BIND's tools of old leave leading zeros out.
  if (d!.length > KEY_OCTETS)
    return wrong(sentence("key-number-length", { name: "PrivateKey", octets: d!.length, wanted: KEY_OCTETS }));
  const number = numberOf(d!);
  if (number === 0n || number >= P256_ORDER)
    return wrong(
      sentence("key-number-wrong", { name: "PrivateKey", what: "is not between 1 and the order of the curve" }),
    );
  const padded = Buffer.concat([Buffer.alloc(KEY_OCTETS - d!.length), d!]);
  const pair = createECDH("prime256v1");
  pair.setPrivateKey(padded);
  const point = pair.getPublicKey();
  const isPair = toBase64Url(point.subarray(1, 33)) === x && toBase64Url(point.subarray(33)) === y;
  return isPair ? ok({ d: padded }) : UNLIKE;
}

/** The head of a PKCS #8 structure that holds an Ed25519 key (RFC 8410 §7). */
const ED25519_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");

function checkEd25519({ d }: Readonly<Record<string, Uint8Array>>, { x }: JsonWebKey): Checked {
  if (d!.length !== KEY_OCTETS)
    return wrong(sentence("key-number-length", { name: "PrivateKey", octets: d!.length, wanted: KEY_OCTETS }));
  const key = createPrivateKey({ key: Buffer.concat([ED25519_HEAD, d!]), format: "der", type: "pkcs8" });
  return createPublicKey(key).export({ format: "jwk" }).x === x ? ok({ d: d! }) : UNLIKE;
}

/** RFC 5702 §2.1 allows 512 to 4096; below 1024, many validators take a zone for unsigned. */
const RSA_BITS = { least: 1024, most: 4096 };
/** So many bits more than half of the modulus a prime may have: tools make two of the same length (FIPS 186-5, A.1.3). */
const MOST_BITS_OVER_HALF = 64;
/** Larger exponents are refused by OpenSSL beside large moduli. */
const MOST_EXPONENT_BITS = 64;

/** Elsewhere than on this thread, which a prime of 2,048 bits would hold for a tenth of a second. */
const isPrime = promisify<bigint, boolean>(checkPrime);

async function checkRsa(read: Readonly<Record<string, Uint8Array>>, published: JsonWebKey): Promise<Checked> {
  const padded = PRIVATE_FIELDS[8].find(([, parameter]) => read[parameter]![0] === 0);
  if (padded) return wrong(sentence("key-number-wrong", { name: padded[0], what: "has leading octets of zero" }));
  if (toBase64Url(read.n!) !== published.n || toBase64Url(read.e!) !== published.e) return UNLIKE;
  const [n, e, d, p, q, dp, dq, qi] = PRIVATE_FIELDS[8].map(([, parameter]) => numberOf(read[parameter]!)) as Rsa;
  const bits = n.toString(2).length;
  if (bits < RSA_BITS.least || bits > RSA_BITS.most) {
    return wrong(sentence("key-modulus-bits", { bits, least: RSA_BITS.least, most: RSA_BITS.most }));
  }
  const unlawful = wrongPublicNumber(n, e) ?? wrongPrimeLength(read, bits);
  if (unlawful) return wrong(unlawful);
  if (p * q !== n)
    return wrong(sentence("key-number-wrong", { name: "Prime1", what: "and Prime2 do not multiply to Modulus" }));
  if (p === q) return wrong(sentence("key-number-wrong", { name: "Prime1", what: "and Prime2 are the same" }));
  if (!(await isPrime(p))) return wrong(sentence("key-number-wrong", { name: "Prime1", what: "is no prime" }));
  if (!(await isPrime(q))) return wrong(sentence("key-number-wrong", { name: "Prime2", what: "is no prime" }));
  if (d >= n || (e * d) % (p - 1n) !== 1n || (e * d) % (q - 1n) !== 1n) {
    return wrong(sentence("key-number-wrong", { name: "PrivateExponent", what: "does not invert PublicExponent" }));
  }
  if (dp !== d % (p - 1n))
    return wrong(sentence("key-number-wrong", { name: "Exponent1", what: "is not PrivateExponent modulo Prime1 - 1" }));
  if (dq !== d % (q - 1n))
    return wrong(sentence("key-number-wrong", { name: "Exponent2", what: "is not PrivateExponent modulo Prime2 - 1" }));
  if (qi >= p || (qi * q) % p !== 1n)
    return wrong(sentence("key-number-wrong", { name: "Coefficient", what: "does not invert Prime2 modulo Prime1" }));
  return ok(read);
}

function wrongPublicNumber(n: bigint, e: bigint): Sentence | undefined {
  if (n % 2n === 0n) return sentence("key-number-wrong", { name: "Modulus", what: "is even" });
  if (e >= 3n && e % 2n === 1n && e.toString(2).length <= MOST_EXPONENT_BITS) return undefined;
  const what = `is not an odd number from 3 on of up to ${MOST_EXPONENT_BITS} bits`;
  return sentence("key-number-wrong", { name: "PublicExponent", what });
}

/** Before anything is reckoned with the primes, which takes time with numbers of any length. */
function wrongPrimeLength({ p, q }: Readonly<Record<string, Uint8Array>>, modulusBits: number): Sentence | undefined {
  const primes = [["Prime1", p!] as const, ["Prime2", q!] as const];
  const long = primes.find(([, octets]) => bitsOf(octets) > modulusBits / 2 + MOST_BITS_OVER_HALF);
  return long && sentence("key-number-wrong", { name: long[0], what: "is much longer than half of Modulus" });
}

/** @param octets of a number, without leading ones of zero */
function bitsOf(octets: Uint8Array): number {
  return 8 * octets.length - (Math.clz32(octets[0]!) - 24);
}

type Rsa = [n: bigint, e: bigint, d: bigint, p: bigint, q: bigint, dp: bigint, dq: bigint, qi: bigint];

function numberOf(octets: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(octets).toString("hex")}`);
}
