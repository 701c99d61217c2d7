import { generateKeyPairSync, generatePrimeSync, type JsonWebKey, type KeyObject, sign, verify } from "node:crypto";
import { describe, expect, it } from "vitest";
import type { SigningAlgorithm } from "../../services/core/dns/dnssec/algorithm.ts";
import { publicKeyFrom } from "../../services/core/dns/dnssec/algorithm.ts";
import { formatBindKey, parseBindKey } from "../../services/core/dns/dnssec/bind-key-file.ts";
import { nameOf } from "../support/dns-server.ts";
import { fc } from "../support/property.ts";

const APEX = nameOf("example.org.");
const USE = { created: new Date("2026-01-02T03:04:05Z"), isPublished: true, signs: true };
const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

const PRIVATE_KEYS: readonly (readonly [SigningAlgorithm, KeyObject])[] = [
  [8, generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey],
  [13, generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey],
  [15, generateKeyPairSync("ed25519").privateKey],
];

interface Files {
  readonly keyText: string;
  readonly privateText: string;
}

function filesOf(algorithm: SigningAlgorithm, privateKey: KeyObject): Files {
  return formatBindKey(APEX, { role: "csk", algorithm, privateKey }, USE);
}

/** What is said of the files; undefined when they are taken. */
async function refusalOf(files: Files): Promise<string | undefined> {
  const parsed = await parseBindKey(APEX, files);
  return parsed.ok ? undefined : JSON.stringify(parsed.error);
}

function withField({ keyText, privateText }: Files, label: string, value: string | Uint8Array | undefined): Files {
  const text = value instanceof Uint8Array ? Buffer.from(value).toString("base64") : value;
  const line = text === undefined ? "" : `${label}: ${text}\n`;
  return { keyText, privateText: privateText.replace(new RegExp(`^${label}: .*\n`, "m"), () => line) };
}

function fieldOf({ privateText }: Files, label: string): Buffer {
  return Buffer.from(new RegExp(`^${label}: (.*)$`, "m").exec(privateText)![1]!, "base64");
}

const RSA = filesOf(...PRIVATE_KEYS[0]!);
const P256 = filesOf(...PRIVATE_KEYS[1]!);
const ED25519 = filesOf(...PRIVATE_KEYS[2]!);

function octetsOf(number: bigint): Buffer {
  const hex = number.toString(16);
  return Buffer.from(hex.length % 2 ? `0${hex}` : hex, "hex");
}

function numberIn(files: Files, label: string): bigint {
  return BigInt(`0x${fieldOf(files, label).toString("hex")}`);
}

/** Files whose public half has other numbers as well, so that only what the private half says is wrong. */
function rsaOf(changes: JsonWebKey): Files {
  const jwk = { ...PRIVATE_KEYS[0]![1].export({ format: "jwk" }), ...changes };
  const [n, e] = [Buffer.from(jwk.n!, "base64url"), Buffer.from(jwk.e!, "base64url")];
  const octets = Buffer.concat([Buffer.of(e.length), e, n]);
  const keyText = RSA.keyText.replace(/3 8 .*$/m, `3 8 ${octets.toString("base64")}`);
  return withField(withField({ ...RSA, keyText }, "Modulus", n), "PublicExponent", e);
}

const base64Url = (number: bigint) => octetsOf(number).toString("base64url");

describe("key files that hold no key", () => {
  const d = fieldOf(P256, "PrivateKey");
  const e = numberIn(RSA, "PublicExponent");
  const n = numberIn(RSA, "Modulus");
  const large = rsaOf({ n: Buffer.alloc(1_000, 0xff).toString("base64url") });
  const table: readonly (readonly [string, Files, string])[] = [
    [
      "a P-256 scalar of 33 octets",
      withField(P256, "PrivateKey", Buffer.concat([Buffer.of(0), d])),
      "must have 32 octets, not 33",
    ],
    [
      "a P-256 scalar of 960 octets",
      withField(P256, "PrivateKey", Buffer.alloc(960, 7)),
      "must have 32 octets, not 960",
    ],
    ["a P-256 scalar of 31 octets", withField(P256, "PrivateKey", d.subarray(0, 31)), "does not go with"],
    ["a P-256 scalar of 0", withField(P256, "PrivateKey", Buffer.alloc(32)), "order of the curve"],
    ["a P-256 scalar of the order", withField(P256, "PrivateKey", octetsOf(P256_ORDER)), "order of the curve"],
    ["a P-256 scalar above the order", withField(P256, "PrivateKey", Buffer.alloc(32, 0xff)), "order of the curve"],
    ["another P-256 scalar", withField(P256, "PrivateKey", Buffer.alloc(32, 1)), "does not go with"],
    [
      "an Ed25519 key of 31 octets",
      withField(ED25519, "PrivateKey", Buffer.alloc(31, 1)),
      "must have 32 octets, not 31",
    ],
    [
      "an Ed25519 key of 64 octets",
      withField(ED25519, "PrivateKey", Buffer.alloc(64, 1)),
      "must have 32 octets, not 64",
    ],
    ["another Ed25519 key", withField(ED25519, "PrivateKey", Buffer.alloc(32, 1)), "does not go with"],
    ["an even prime", withField(RSA, "Prime1", octetsOf(numberIn(RSA, "Prime1") - 1n)), "do not multiply"],
    ["a modulus that is a prime, and 1", ofOnePrime(), "Prime1 is much longer than half of Modulus"],
    ["a prime of millions of bits", withField(RSA, "Prime2", Buffer.alloc(2 ** 20, 7)), "Prime2 is much longer"],
    ["primes that are none", rsaPrimes(numberIn(RSA, "Prime1") * 3n), "Prime1 is no prime"],
    ["an even modulus", rsaOf({ n: base64Url(n - 1n) }), "Modulus is even"],
    ["another modulus", withField(RSA, "Modulus", octetsOf(n - 2n)), "does not go with"],
    ["a small modulus", rsaOf({ n: base64Url(n >> 600n) }), "must have 1024 to 4096 bits"],
    ["a large modulus", large, "must have 1024 to 4096 bits"],
    ["an even exponent", rsaOf({ e: base64Url(e - 1n) }), "PublicExponent is not an odd number"],
    ["an exponent of 1", rsaOf({ e: base64Url(1n) }), "PublicExponent is not an odd number"],
    ["an exponent of 100 bits", rsaOf({ e: base64Url((1n << 100n) + 1n) }), "PublicExponent is not an odd number"],
    ["another exponent", rsaOf({ e: base64Url(e + 2n) }), "PrivateExponent does not invert"],
    ["another private exponent", bumped("PrivateExponent"), "PrivateExponent does not invert"],
    ["another first exponent", bumped("Exponent1"), "Exponent1 is not"],
    ["another second exponent", bumped("Exponent2"), "Exponent2 is not"],
    ["another coefficient", bumped("Coefficient"), "Coefficient does not invert"],
    ["a coefficient with an octet more", longer("Coefficient", "end"), "Coefficient does not invert"],
    ["a coefficient with an octet before", longer("Coefficient", "start"), "Coefficient has leading octets"],
    ["a prime with an octet before", longer("Prime2", "start"), "Prime2 has leading octets"],
    ["a private exponent above the modulus", raised(), "PrivateExponent does not invert"],
    ["no prime", withField(RSA, "Prime1", undefined), "Prime1 is missing"],
    ["an empty field", withField(RSA, "Exponent1", ""), "Exponent1 is missing"],
    ["junk", withField(P256, "PrivateKey", "*** no base64 ***"), "PrivateKey is not base64"],
    ["nothing", { ...ED25519, privateText: "Algorithm: 15\n" }, "PrivateKey is missing"],
    [
      "a public key whose exponent has an octet too many",
      publicWith((octets) => [octets[0]! + 1, 0, ...octets.subarray(1)]),
      "too many octets",
    ],
  ];

  it.each(table)("are refused: %s", async (_, files, reason) => {
    expect(await refusalOf(files)).toContain(reason);
  });

  it.each([
    [384, "is revoked (flags 384, RFC 5011)"],
    [385, "is revoked (flags 385, RFC 5011)"],
    [129, "is revoked (flags 129, RFC 5011)"],
    [0, "flags 0 and protocol 3 are not those of a zone's key"],
    [1, "flags 1 and protocol 3 are not those of a zone's key"],
    [258, "flags 258 and protocol 3 are not those of a zone's key"],
  ])("are refused: flags %i", async (flags, reason) => {
    for (const files of [RSA, P256, ED25519]) {
      const keyText = files.keyText.replace("DNSKEY 257", `DNSKEY ${flags}`);
      expect(await refusalOf({ ...files, keyText })).toContain(reason);
    }
  });

  it("are refused: another protocol", async () => {
    const keyText = P256.keyText.replace("DNSKEY 257 3", "DNSKEY 257 2");
    expect(await refusalOf({ ...P256, keyText })).toMatch(/protocol/);
  });

  function bumped(label: string): Files {
    return withField(RSA, label, octetsOf(numberIn(RSA, label) + 2n));
  }

  function longer(label: string, where: "start" | "end"): Files {
    const octets = fieldOf(RSA, label);
    return withField(RSA, label, Buffer.concat(where === "start" ? [Buffer.of(0), octets] : [octets, Buffer.of(0)]));
  }

  function raised(): Files {
    const order = (numberIn(RSA, "Prime1") - 1n) * (numberIn(RSA, "Prime2") - 1n);
    return withField(RSA, "PrivateExponent", octetsOf(numberIn(RSA, "PrivateExponent") + 2n * order));
  }

  function rsaPrimes(first: bigint): Files {
    const files = rsaOf({ n: base64Url(first * numberIn(RSA, "Prime2")) });
    return withField(files, "Prime1", octetsOf(first));
  }

  function ofOnePrime(): Files {
    const prime = generatePrimeSync(1024, { bigint: true });
    const files = withField(rsaOf({ n: base64Url(prime) }), "Prime1", octetsOf(prime));
    return withField(files, "Prime2", octetsOf(1n));
  }

  function publicWith(change: (octets: Buffer) => readonly number[]): Files {
    const octets = Buffer.from(/3 8 (.*)$/m.exec(RSA.keyText)![1]!, "base64");
    const text = Buffer.from(change(octets)).toString("base64");
    return { ...RSA, keyText: RSA.keyText.replace(/3 8 .*$/m, `3 8 ${text}`) };
  }
});

describe("key files", () => {
  it("of RSA leave the thread to others while their primes are looked at", async () => {
    const files = filesOf(8, generateKeyPairSync("rsa", { modulusLength: 4096 }).privateKey);
    let isLookedAt = true;
    let turns = 0;
    const takeTurn = () => {
      turns += 1;
      if (isLookedAt) setImmediate(takeTurn);
    };
    setImmediate(takeTurn);
    expect(await refusalOf(files)).toBeUndefined();
    isLookedAt = false;
    expect(turns).toBeGreaterThan(10);
  });

  it("of P-256 may leave out leading zeros, as BIND's tools of old do", async () => {
    // A key whose number begins with a zero is one in 256: this is one.
    const found = Array.from(
      { length: 5_000 },
      () => generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey,
    ).find((key) => Buffer.from(key.export({ format: "jwk" }).d!, "base64url")[0] === 0);
    const files = filesOf(13, found!);
    expect(await refusalOf(files)).toBeUndefined();
    expect(await refusalOf(withField(files, "PrivateKey", fieldOf(files, "PrivateKey").subarray(1)))).toBeUndefined();
  });

  const label = fc.constantFrom(
    "Modulus",
    "PublicExponent",
    "PrivateExponent",
    "Prime1",
    "Prime2",
    "Exponent1",
    "Exponent2",
    "Coefficient",
    "PrivateKey",
    "Algorithm",
  );
  const damage = fc.oneof(
    fc.record({ label, flip: fc.nat() }),
    fc.record({ label, cut: fc.nat(40) }),
    fc.record({ label, append: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
    fc.record({ label, prepend: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
    fc.record({ label, octets: fc.uint8Array({ maxLength: 300 }) }),
    fc.record({ label, text: fc.string({ maxLength: 60 }).map((text) => text.replaceAll("\n", " ")) }),
    fc.record({ label, from: label }),
    fc.record({ label, isGone: fc.constant(true) }),
  );
  const publicDamage = fc.option(fc.record({ at: fc.nat(), octet: fc.nat(255), isLonger: fc.boolean() }), { freq: 3 });

  it.each(PRIVATE_KEYS)(
    "of algorithm %i, damaged in any way, are refused or hold a key that signs",
    async (algorithm, privateKey) => {
      const whole = filesOf(algorithm, privateKey);
      await fc.assert(
        fc.asyncProperty(fc.array(damage, { minLength: 1, maxLength: 3 }), publicDamage, async (damages, ofPublic) => {
          const files = damages.reduce(damaged, ofPublic ? publicDamaged(whole, ofPublic) : whole);
          const parsed = await parseBindKey(APEX, files);
          if (!parsed.ok) return;
          const key = publicKeyFrom(algorithm, parsed.value.publicKey)!;
          const digest = algorithm === 15 ? null : "sha256";
          const octets = Buffer.from("signed");
          expect(verify(digest, octets, key, sign(digest, octets, parsed.value.privateKey))).toBe(true);
        }),
        { numRuns: 500 },
      );
    },
  );

  type Damage = Partial<{
    label: string;
    flip: number;
    cut: number;
    append: Uint8Array;
    prepend: Uint8Array;
    octets: Uint8Array;
    text: string;
    from: string;
    isGone: true;
  }>;

  function damaged(files: Files, change: Damage): Files {
    const name = change.label!;
    if (!files.privateText.includes(`\n${name}: `)) return files;
    if (change.isGone) return withField(files, name, undefined);
    if (change.text !== undefined) return withField(files, name, change.text);
    if (change.octets) return withField(files, name, change.octets);
    if (change.from !== undefined) {
      return files.privateText.includes(`\n${change.from}: `)
        ? withField(files, name, fieldOf(files, change.from))
        : files;
    }
    const octets = fieldOf(files, name);
    if (change.cut !== undefined) return withField(files, name, octets.subarray(0, octets.length - change.cut));
    if (change.append) return withField(files, name, Buffer.concat([octets, change.append]));
    if (change.prepend) return withField(files, name, Buffer.concat([change.prepend, octets]));
    if (octets.length > 0) octets[(change.flip! >> 3) % octets.length]! ^= 1 << (change.flip! & 7);
    return withField(files, name, octets);
  }

  function publicDamaged(
    files: Files,
    { at, octet, isLonger }: { at: number; octet: number; isLonger: boolean },
  ): Files {
    const [, text] = / 3 \d+ (.*)$/m.exec(files.keyText)!;
    const octets = Buffer.from(text!, "base64");
    octets[at % octets.length] = octet;
    const changed = isLonger ? Buffer.concat([octets, Buffer.of(octet)]) : octets;
    return { ...files, keyText: files.keyText.replace(text!, changed.toString("base64")) };
  }
});
