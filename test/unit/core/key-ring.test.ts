import { hkdfSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { hashApiKey } from "../../../services/core/api-key.ts";
import { formatKeyFile } from "../../../services/core/key-file.ts";
import {
  ALL_PURPOSES,
  API_KEY_KINDS,
  KEY_PURPOSES,
  type KeyPurpose,
  purposesOf,
} from "../../../services/core/key-purposes.ts";
import { KeyRing, MissingKey } from "../../../services/core/key-ring.ts";
import { SERVICE_NAMES } from "../../../services/platform/service.ts";

const SECRET = "a secret of the deployment";
const RING = KeyRing.ofSecret(SECRET, ["the secret before"]);
const octetsOf = (keyRing: KeyRing, purpose: KeyPurpose) => keyRing.keysFor(purpose).map((key) => key.export());

function read(text: string): KeyRing {
  const result = KeyRing.parse(text);
  if (!result.ok) throw new Error(result.error);
  return result.value;
}

test("a key is HKDF-SHA-256 of the secret, salt palomar, info the purpose; the one in force comes first", () => {
  const expected = (secret: string) => Buffer.from(hkdfSync("sha256", secret, "palomar", "dkim-key", 32));
  expect(octetsOf(RING, "dkim-key")).toEqual([expected(SECRET), expected("the secret before")]);
  expect(octetsOf(RING.current(), "dkim-key")).toEqual([expected(SECRET)]);
});

test("it is derived once, and no two purposes share one", () => {
  expect(RING.keyFor("return-path")).toBe(RING.keyFor("return-path"));
  const all = ALL_PURPOSES.map((purpose) => RING.keyFor(purpose).export().toString("hex"));
  const digests = API_KEY_KINDS.map((kind) => RING.digestKey(kind).export().toString("hex"));
  expect(new Set([...all, ...digests]).size).toBe(ALL_PURPOSES.length + API_KEY_KINDS.length);
});

test("the table names services that there are, and each but the sandbox has keys", () => {
  const named = Object.values(KEY_PURPOSES).flatMap(({ makes, reads }): string[] => [...makes, ...reads]);
  expect(new Set(named)).toEqual(new Set(SERVICE_NAMES.filter((name) => name !== "sandbox")));
});

describe("a key file", () => {
  test.each(SERVICE_NAMES)("of %s has its purposes, with the keys before, and no other", (service) => {
    const keyRing = read(formatKeyFile(RING, service));
    expect(keyRing.purposes).toEqual(purposesOf(service));
    for (const purpose of purposesOf(service)) expect(octetsOf(keyRing, purpose)).toEqual(octetsOf(RING, purpose));
    expect(keyRing.current().purposes).toEqual(purposesOf(service));
    expect(() => keyRing.keyFor("backup")).toThrow(MissingKey);
    expect(() => keyRing.digestKey("dns")).toThrow(MissingKey);
  });

  test("for a process of ours has what it makes digests of API keys with as well, and no other's", () => {
    const dnsApi = read(formatKeyFile(RING, "dns-api", { withDigestKeys: true }));
    expect(hashApiKey(dnsApi, "dns", "a key")).toEqual(hashApiKey(RING, "dns", "a key"));
    expect(() => dnsApi.digestKey("instance")).toThrow(MissingKey);
  });

  const key = "0f".repeat(32);
  test("may have comments, empty lines and either case", () => {
    expect(octetsOf(read(`# ours\n\n  dkim-key\t${key} ${"AB".repeat(32)}\r\n`), "dkim-key")).toEqual([
      Buffer.from(key, "hex"),
      Buffer.alloc(32, 0xab),
    ]);
  });

  test.each([
    [`dkim-key ${key.slice(1)}`, "line 1 is not a purpose and keys of 64 hexadecimal digits"],
    ["dkim-key", "line 1 is not a purpose and keys of 64 hexadecimal digits"],
    [`\ndkim ${key}`, 'line 2: there is no purpose "dkim"'],
    [`digest:other ${key}`, 'line 1: there is no purpose "digest:other"'],
    [`dkim-key ${key}\ndkim-key ${key}`, 'line 2: "dkim-key" comes twice'],
  ])("%j is refused", (text, error) => {
    expect(KeyRing.parse(text)).toEqual({ ok: false, error });
  });
});
