import { createPublicKey, generateKeyPair, type JsonWebKey, type KeyObject, sign, verify } from "node:crypto";
import { promisify } from "node:util";

/** The signing algorithms that zones may be signed with here, by their numbers (RFC 8624 §3.1). */
export const SIGNING_ALGORITHMS = [8, 13, 15] as const;
export type SigningAlgorithm = (typeof SIGNING_ALGORITHMS)[number];

export function isSigningAlgorithm(algorithm: number): algorithm is SigningAlgorithm {
  return (SIGNING_ALGORITHMS as readonly number[]).includes(algorithm);
}

/** The algorithm's mnemonic, as key files and registries have it. */
export function algorithmMnemonic(algorithm: SigningAlgorithm): string {
  return ALGORITHMS[algorithm].mnemonic;
}

/** Makes a private key; RSA keys have 2048 bits. */
export function generateSigningKey(algorithm: SigningAlgorithm): Promise<KeyObject> {
  return ALGORITHMS[algorithm].generate();
}

/** The public key as a DNSKEY holds it (RFC 3110 §2, RFC 6605 §4, RFC 8080 §3). @param key the private or the public one */
export function publicKeyOctets(algorithm: SigningAlgorithm, key: KeyObject): Uint8Array {
  const publicKey = key.type === "private" ? createPublicKey(key) : key;
  return ALGORITHMS[algorithm].encodePublic(publicKey.export({ format: "jwk" }));
}

/** The public key that a DNSKEY holds; undefined when the octets are none of the algorithm. */
export function publicKeyFrom(algorithm: SigningAlgorithm, octets: Uint8Array): KeyObject | undefined {
  const jwk = ALGORITHMS[algorithm].decodePublic(octets);
  if (!jwk) return undefined;
  try {
    return createPublicKey({ key: jwk, format: "jwk" });
  } catch {
    return undefined; // a point that is not on the curve, an exponent of zero
  }
}

/**
 * Signs in the caller's thread, at its priority. Threads of libuv's pool would sign as many in the same time and take
 * half as much processor time again, at the priority of the process.
 */
export function signOctets(algorithm: SigningAlgorithm, key: KeyObject, octets: Uint8Array): Uint8Array {
  return sign(ALGORITHMS[algorithm].digest, octets, { key, dsaEncoding: "ieee-p1363" });
}

export function isSignatureOf(
  algorithm: SigningAlgorithm,
  publicKey: KeyObject,
  octets: Uint8Array,
  signature: Uint8Array,
): boolean {
  return verify(ALGORITHMS[algorithm].digest, octets, { key: publicKey, dsaEncoding: "ieee-p1363" }, signature);
}

interface Algorithm {
  readonly mnemonic: string;
  /** Null where the algorithm hashes by itself. */
  readonly digest: "sha256" | null;
  generate(): Promise<KeyObject>;
  encodePublic(jwk: JsonWebKey): Uint8Array;
  decodePublic(octets: Uint8Array): JsonWebKey | undefined;
}

const generatePair = promisify(generateKeyPair);
const RSA_BITS = 2048;
const P256_COORDINATE_OCTETS = 32;
const ED25519_OCTETS = 32;

const ALGORITHMS: { readonly [algorithm in SigningAlgorithm]: Algorithm } = {
  8: {
    mnemonic: "RSASHA256",
    digest: "sha256",
    generate: async () => (await generatePair("rsa", { modulusLength: RSA_BITS })).privateKey,
    encodePublic: ({ e, n }) => encodeRsaKey(fromBase64Url(e), fromBase64Url(n)),
    decodePublic: decodeRsaKey,
  },
  13: {
    mnemonic: "ECDSAP256SHA256",
    digest: "sha256",
    generate: async () => (await generatePair("ec", { namedCurve: "P-256" })).privateKey,
    encodePublic: ({ x, y }) => Buffer.concat([fromBase64Url(x), fromBase64Url(y)]),
    decodePublic: (octets) => {
      if (octets.length !== 2 * P256_COORDINATE_OCTETS) return undefined;
      const [x, y] = [octets.subarray(0, P256_COORDINATE_OCTETS), octets.subarray(P256_COORDINATE_OCTETS)];
      return { kty: "EC", crv: "P-256", x: toBase64Url(x), y: toBase64Url(y) };
    },
  },
  15: {
    mnemonic: "ED25519",
    digest: null,
    generate: async () => (await generatePair("ed25519")).privateKey,
    encodePublic: ({ x }) => fromBase64Url(x),
    decodePublic: (octets) =>
      octets.length === ED25519_OCTETS ? { kty: "OKP", crv: "Ed25519", x: toBase64Url(octets) } : undefined,
  },
};

/** RFC 3110 §2: the length of the exponent in one octet, or in three when it is longer; exponent; modulus. */
function encodeRsaKey(exponent: Uint8Array, modulus: Uint8Array): Uint8Array {
  const { length } = exponent;
  return Buffer.concat([length < 256 ? [length] : [0, length >> 8, length & 0xff], exponent, modulus].map(Buffer.from));
}

function decodeRsaKey(octets: Uint8Array): JsonWebKey | undefined {
  const isLong = octets[0] === 0;
  const length = isLong ? (octets[1] ?? 0) * 256 + (octets[2] ?? 0) : (octets[0] ?? 0);
  const start = isLong ? 3 : 1;
  if (length === 0 || octets.length <= start + length) return undefined;
  const [e, n] = [octets.subarray(start, start + length), octets.subarray(start + length)];
  return { kty: "RSA", e: toBase64Url(e), n: toBase64Url(n) };
}

/** Octets of a part of a JSON Web Key (RFC 7517), or as one. */
export function fromBase64Url(text: string | undefined): Buffer {
  return Buffer.from(text ?? "", "base64url");
}

export function toBase64Url(octets: Uint8Array): string {
  return Buffer.from(octets).toString("base64url");
}
