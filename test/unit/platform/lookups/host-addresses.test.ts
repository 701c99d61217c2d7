import { describe, expect, test } from "vitest";
import {
  addressesInHostsFile,
  findHostAddresses,
  makeSocketLookup,
} from "../../../../services/platform/lookups/host-addresses.ts";
import type { Lookup, Resolver } from "../../../../services/platform/lookups/resolver.ts";

/** Knows two addresses of one name, and counts what it is asked. */
function makeKnowing(): Resolver & { asked: string[] } {
  const answer = (host: string, address: string): Lookup<string> =>
    host === "known.example.org" ? { kind: "found", records: [address] } : { kind: "nxdomain" };
  const asked: string[] = [];
  return {
    asked,
    resolveMx: async () => ({ kind: "nodata" }),
    resolveA: async (host) => {
      asked.push(host);
      return answer(host, "192.0.2.1");
    },
    resolveAaaa: async (host) => answer(host, "2001:db8::1"),
  };
}

const SYSTEMS = { resolver: null };
const OPERATORS = { resolver: { host: "192.0.2.53", port: 53 } };

describe("the addresses of a host", () => {
  test("are asked for in the DNS alone, the system's own servers included", async () => {
    for (const config of [SYSTEMS, OPERATORS]) {
      const resolver = makeKnowing();
      const found = await findHostAddresses("known.example.org", { config, resolver });
      expect(found).toEqual(["192.0.2.1", "2001:db8::1"]);
      expect(await findHostAddresses("unknown.example.org", { config, resolver })).toEqual([]);
      expect(resolver.asked).toEqual(["known.example.org", "unknown.example.org"]);
    }
  });

  test("are those that the machine knows itself, unless the operator names a resolver", async () => {
    const resolver = makeKnowing();
    for (const host of ["localhost", "LocalHost.", "app.localhost"]) {
      expect(await findHostAddresses(host, { config: SYSTEMS, resolver })).toContain("127.0.0.1");
    }
    expect(resolver.asked).toEqual([]);
    expect(await findHostAddresses("localhost", { config: OPERATORS, resolver })).toEqual([]);
  });

  test("are itself where it is one", async () => {
    const resolver = makeKnowing();
    expect(await findHostAddresses("2001:db8::7", { config: SYSTEMS, resolver })).toEqual(["2001:db8::7"]);
    expect(resolver.asked).toEqual([]);
  });

  test("come to a socket one, all, or none of them", async () => {
    const lookup = makeSocketLookup({ config: SYSTEMS, resolver: makeKnowing() });
    const look = (host: string, all: boolean) =>
      new Promise<unknown>((resolve) => lookup(host, { all }, (error, ...found) => resolve(error?.code ?? found)));
    expect(await look("known.example.org", false)).toEqual(["192.0.2.1", 4]);
    expect(await look("known.example.org", true)).toEqual([
      [
        { address: "192.0.2.1", family: 4 },
        { address: "2001:db8::1", family: 6 },
      ],
    ]);
    expect(await look("unknown.example.org", true)).toBe("ENOTFOUND");
  });
});

test("a hosts file is read as hosts(5) says", () => {
  const text =
    "127.0.0.1\tlocalhost\n# 192.0.2.9 one.example.org\n192.0.2.1  One.example.org one # two\n2001:db8::1 one\nx one\n";
  expect(addressesInHostsFile(text, "one")).toEqual(["192.0.2.1", "2001:db8::1"]);
  expect(addressesInHostsFile(text, "one.example.org")).toEqual(["192.0.2.1"]);
  expect(addressesInHostsFile(text, "two")).toEqual([]);
});
