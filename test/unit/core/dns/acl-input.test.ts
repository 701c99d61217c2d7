import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { readAcl, readTsigKey, tsigKeyWarning } from "../../../../services/core/dns/acl-input.ts";
import { isInstalled } from "../../../support/peers-processes.ts";

/** Debian keeps BIND's tools where users do not look. */
const BIND_TOOLS = { encoding: "utf8", env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` } } as const;
const whySkipped = isInstalled("tsig-keygen") ? "" : " (skipped: tsig-keygen is not installed)";

const EMPTY = { name: "a", blocks: [], zones: [], notify: [] };

describe("an ACL", () => {
  test("is read into one spelling, nothing twice", () => {
    const read = readAcl({
      name: "a",
      blocks: ["192.0.2.1", "192.0.2.1/32", "2001:DB8::/32"],
      zones: ["Example.ORG.", "example.org"],
      notify: [
        "192.0.2.1",
        "2001:db8::1",
        "[2001:db8::1]:5353",
        "ns.example.org:53",
        "ns.example.org",
        "1.ns2.example.org",
      ],
    });
    expect(read).toEqual({
      ok: true,
      value: {
        name: "a",
        blocks: ["192.0.2.1/32", "2001:db8::/32"],
        zones: ["example.org"],
        notify: ["192.0.2.1:53", "[2001:db8::1]:53", "[2001:db8::1]:5353", "ns.example.org:53", "1.ns2.example.org:53"],
      },
    });
    expect(readAcl(EMPTY)).toMatchObject({ ok: true, value: { zones: null } });
  });

  test.each([
    [{ name: "" }, "name"],
    [{ name: "a\u0007" }, "name"],
    [{ name: "x".repeat(129) }, "name"],
    [{ blocks: ["192.0.2.1/24"] }, "blocks"],
    [{ blocks: ["::ffff:192.0.2.1"] }, "blocks"],
    [{ zones: ["a..b"] }, "zones"],
    [{ zones: ["."] }, "zones"],
    [{ notify: ["192.0.2.1:0"] }, "notify"],
    [{ notify: ["192.0.2.1:65536"] }, "notify"],
    [{ notify: ["[192.0.2.1]:53"] }, "notify"],
    [{ notify: ["300.1.1.1"] }, "notify"],
    [{ notify: ["192.0.2.256:53"] }, "notify"],
    [{ notify: ["192.0.2"] }, "notify"],
    [{ notify: ["192.0.2.1."] }, "notify"],
    [{ notify: ["53"] }, "notify"],
    [{ notify: ["224.0.0.1"] }, "notify"],
    [{ notify: ["255.255.255.255:53"] }, "notify"],
    [{ notify: ["169.254.169.254"] }, "notify"],
    [{ notify: ["0.0.0.0:53"] }, "notify"],
    [{ notify: ["ff02::1"] }, "notify"],
    [{ notify: ["[fe80::1]:53"] }, "notify"],
    [{ notify: ["[::]:53"] }, "notify"],
    [{ notify: ["[::ffff:224.0.0.1]:53"] }, "notify"],
    [{ notify: Array.from({ length: 21 }, (_, index) => `192.0.2.${index}`) }, "notify"],
    [{ blocks: Array.from({ length: 1_001 }, (_, index) => `2001:db8::${index}`) }, "blocks"],
    [{ zones: Array.from({ length: 1_001 }, (_, index) => `zone-${index}.example`) }, "zones"],
  ])("%j is refused", (given, field) => {
    expect(readAcl({ ...EMPTY, ...given })).toMatchObject({ ok: false, error: { kind: "invalid-field", field } });
  });
});

describe("a TSIG key", () => {
  test("is taken, or made as long as its algorithm wants", () => {
    const secret = Buffer.from("0123456789abcdef").toString("base64");
    expect(readTsigKey({ name: "Key.Example.", algorithm: "HMAC-SHA512", secret })).toEqual({
      ok: true,
      value: { name: "key.example", algorithm: "hmac-sha512", secret: Buffer.from("0123456789abcdef") },
    });
    const made = readTsigKey({ name: "key" });
    expect(made).toMatchObject({ ok: true, value: { algorithm: "hmac-sha256" } });
    expect(made.ok && made.value.secret.length).toBe(32);
    expect(made.ok && tsigKeyWarning(made.value)).toBeUndefined();
  });

  test.each(["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"])(
    `is taken as BIND's tsig-keygen makes it: %s${whySkipped}`,
    { skip: whySkipped !== "" },
    (algorithm) => {
      const [, secret] = /secret "([^"]+)"/.exec(execFileSync("tsig-keygen", ["-a", algorithm, "k"], BIND_TOOLS))!;
      const read = readTsigKey({ name: "k", algorithm, secret });
      expect(read).toMatchObject({ ok: true, value: { secret: Buffer.from(secret!, "base64") } });
      expect(read.ok && tsigKeyWarning(read.value)).toBeUndefined();
    },
  );

  test("is taken without padding, and over several lines, as long secrets are written", () => {
    const octets = Buffer.alloc(64, 0xab);
    const folded = octets.toString("base64").replace(/(.{40})/g, "$1\n\t");
    for (const secret of [folded, octets.toString("base64").replaceAll("=", "")]) {
      expect(readTsigKey({ name: "k", secret })).toMatchObject({ ok: true, value: { secret: octets } });
    }
  });

  test("is doubtful below its digest's length", () => {
    const warningOf = (octets: number) => {
      const key = readTsigKey({ name: "k", secret: Buffer.alloc(octets, 1).toString("base64") });
      return key.ok ? tsigKeyWarning(key.value) : "refused";
    };
    expect(warningOf(32)).toBeUndefined();
    for (const octets of [31, 16, 1]) {
      expect(warningOf(octets)).toBe(`the secret of k should have at least 32 octets for hmac-sha256, not ${octets}`);
    }
  });

  test.each([
    { name: "a..b" },
    { name: "k", algorithm: "hmac-md5" },
    { name: "." },
    { name: "k", secret: "!" },
    { name: "k", secret: "" },
    { name: "k", secret: "MDEyMzQ1Njc4OWFiY2RlZg===" },
    { name: "k", secret: "MDEyMzQ1Njc4OWFiY2RlZh==" },
    { name: "k", secret: "MDEyMzQ1Njc4OWFiY2RlZ-_=" },
  ])("%j is refused", (given) => {
    expect(readTsigKey(given)).toMatchObject({ ok: false, error: { field: "tsig" } });
  });
});
