import { describe, expect, test } from "vitest";
import { isInBlocks, isLoopback, isReachable, sourceOf } from "../../../../services/platform/lookups/address-blocks.ts";

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8:0:1::1", "2001:db8:0:1::"],
  ["2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::"],
  ["2001:db8:0:2::1", "2001:db8:0:2::"],
  ["", ""],
])("%s counts for %s", (address, source) => expect(sourceOf(address)).toBe(source));

describe("what may be connected to on behalf of somebody else", () => {
  test.each([
    ["192.0.2.1", [], false],
    ["1.1.1.1", [], true],
    ["2606:4700::1111", [], true],
    ["10.0.0.1", [], false],
    ["10.0.0.1", ["10.0.0.0/8"], true],
    ["64:ff9b::a00:1", ["64:ff9b::/96"], true],
  ])("%s with %j: %s", (address, allowed, reachable) => expect(isReachable(address, allowed)).toBe(reachable));

  // Each in every form in which a translator or a tunnel would take it there.
  const EMBEDDED: readonly ((a: number, b: number, c: number, d: number) => string)[] = [
    (...octets) => octets.join("."),
    (...octets) => `::ffff:${octets.join(".")}`,
    (...octets) => `::${octets.join(".")}`,
    (...octets) => `::ffff:0:${pair(octets, 0)}:${pair(octets, 2)}`,
    (...octets) => `64:ff9b::${pair(octets, 0)}:${pair(octets, 2)}`,
    (...octets) => `64:ff9b:1::${pair(octets, 0)}:${pair(octets, 2)}`,
    (a, b, c, d) => `64:ff9b:1:${pair([a, b], 0)}:${hex(c)}:${hex(d)}00::`,
    (...octets) => `2002:${pair(octets, 0)}:${pair(octets, 2)}::1`,
    (...octets) => `2001:0:${pair(octets, 0)}:${pair(octets, 2)}::1`,
    (...octets) => {
      const inverted = octets.map((octet) => octet ^ 0xff);
      return `2001:0:101:101:0:0:${pair(inverted, 0)}:${pair(inverted, 2)}`;
    },
    (...octets) => `2606:4700::5efe:${pair(octets, 0)}:${pair(octets, 2)}`,
  ];
  const hex = (octet: number) => octet.toString(16).padStart(2, "0");
  const pair = (octets: readonly number[], at: number) => `${hex(octets[at]!)}${hex(octets[at + 1]!)}`;
  const EVERYTHING = ["0.0.0.0/0", "::/0"];

  test.each(["168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192"])(
    "%s of a cloud is not, in no form, unless the entry names it alone",
    (metadata) => {
      const [a, b, c, d] = metadata.split(".").map(Number) as [number, number, number, number];
      for (const form of EMBEDDED) {
        const address = form(a, b, c, d);
        expect(isReachable(address, []), address).toBe(false);
        expect(isReachable(address, EVERYTHING), address).toBe(false);
        // A mapped address is named by what it stands for.
        const entry = address.replace(/^::ffff:(?=\d+\.)/, "");
        expect(isReachable(address, [entry]), address).toBe(true);
      }
      expect(isReachable(metadata, [`${a}.${b}.${c}.0/24`])).toBe(false);
      expect(isReachable(metadata, [`${metadata}/32`])).toBe(true);
      expect(isReachable(`64:ff9b::${pair([a, b], 0)}:${pair([c, d], 0)}`, [metadata])).toBe(false);
    },
  );

  test.each(["fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fe80::a9fe:a9fe%eth0"])(
    "%s likewise",
    (metadata) => {
      expect(isReachable(metadata, [])).toBe(false);
      expect(isReachable(metadata, EVERYTHING)).toBe(false);
      expect(isReachable(metadata, [`${metadata.split("%")[0]}/128`])).toBe(true);
    },
  );

  test("their neighbours are judged like others", () => {
    expect(isReachable("168.63.129.17", [])).toBe(true);
    expect(isReachable("169.254.169.253", ["169.254.0.0/16"])).toBe(true);
  });
});

test.each([
  ["192.0.2.1", ["192.0.2.0/24"], true],
  ["::ffff:192.0.2.1", ["192.0.2.0/24"], true],
  ["::192.0.2.1", ["192.0.2.0/24"], false],
  ["192.0.2.1", ["::192.0.2.1"], false],
  ["192.0.2.1", ["::ffff:192.0.2.1"], false],
  ["fe80::1%eth0", ["fe80::/10"], true],
  ["2001:db8::1", [], false],
])("%s lies in one of %j: %s", (address, blocks, expected) => expect(isInBlocks(address, blocks)).toBe(expected));

describe("isLoopback", () => {
  test.each([
    ["127.0.0.1", true],
    ["127.255.255.254", true],
    ["::1", true],
    ["0:0:0:0:0:0:0:1", true],
    ["::ffff:127.0.0.1", true],
    ["::ffff:7f00:1", true],
    ["128.0.0.1", false],
    ["::ffff:192.0.2.1", false],
    ["::", false],
    ["2001:db8::1", false],
    ["fe80::1%eth0", false],
    ["", false],
    ["localhost", false],
  ])("%s: %s", (address, expected) => {
    expect(isLoopback(address)).toBe(expected);
  });
});
