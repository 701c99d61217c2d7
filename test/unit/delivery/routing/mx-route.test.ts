import { describe, expect, test } from "vitest";
import { findMxRoute, type MxSurroundings } from "../../../../services/delivery/routing/mx-route.ts";
import type { Lookup, MxRecord, Resolver } from "../../../../services/platform/lookups/resolver.ts";

const found = <T>(...records: T[]): Lookup<T> => ({ kind: "found", records });
const mx = (...records: [number, string][]) =>
  found<MxRecord>(...records.map(([preference, exchange]) => ({ preference, exchange })));

interface Zone {
  readonly mx?: Lookup<MxRecord>;
  readonly a?: Readonly<Record<string, Lookup<string>>>;
  readonly aaaa?: Readonly<Record<string, Lookup<string>>>;
}

const PUBLIC = "203.0.113.7";
/** Documentation addresses are no public ones: here they stand for them. */
const ALLOWED = ["203.0.113.0/24", "2001:db8::/32"];

function find(zone: Zone, changes: Partial<MxSurroundings> = {}, attemptsMade?: number) {
  const resolver: Resolver = {
    resolveMx: async () => zone.mx ?? { kind: "nodata" },
    resolveA: async (host) => zone.a?.[host] ?? { kind: "nodata" },
    resolveAaaa: async (host) => zone.aaaa?.[host] ?? { kind: "nodata" },
  };
  const surroundings = { resolver, allowedBlocks: ALLOWED, ownName: "own.example.net", random: () => 0.5 };
  return findMxRoute("d.example.org", { ...surroundings, findPolicy: async () => undefined, ...changes }, attemptsMade);
}

async function hosts(zone: Zone, changes: Partial<MxSurroundings> = {}): Promise<string[]> {
  const route = await find(zone, changes);
  return route.ok
    ? route.value.peers.map(({ name, host }) => `${name} ${host}`)
    : [`${route.error.code} ${route.error.enhancedStatus}`];
}

const addresses = (...names: string[]) => Object.fromEntries(names.map((name) => [name, found(PUBLIC)]));

describe("the way to a domain", () => {
  test("follows preference", async () => {
    const zone = { mx: mx([20, "b.example"], [10, "a.example"]), a: addresses("a.example", "b.example") };
    expect(await hosts(zone)).toEqual([`a.example ${PUBLIC}`, `b.example ${PUBLIC}`]);
  });

  test("spreads over equal preference", async () => {
    const zone = { mx: mx([10, "a.example"], [10, "b.example"]), a: addresses("a.example", "b.example") };
    const draws = [0.9, 0.1];
    expect((await hosts(zone, { random: () => draws.shift()! }))[0]).toContain("b.example");
  });

  test("is the domain's own address only when it has no MX", async () => {
    expect(await hosts({ a: addresses("d.example.org") })).toEqual([`d.example.org ${PUBLIC}`]);
    const zone = { mx: mx([10, "gone.example"]), a: addresses("d.example.org") };
    expect(await hosts(zone)).toEqual(["550 5.1.2"]);
  });

  test("takes IPv6 addresses too", async () => {
    const zone = { mx: mx([10, "a.example"]), aaaa: { "a.example": found("2001:db8::25") } };
    expect(await hosts(zone)).toEqual(["a.example 2001:db8::25"]);
  });

  test("leaves out ourselves, and what is no nearer", async () => {
    const names: [number, string][] = [
      [5, "near.example"],
      [10, "OWN.example.net."],
      [20, "far.example"],
    ];
    const zone = { mx: mx(...names), a: addresses("near.example", "own.example.net", "far.example") };
    expect(await hosts(zone)).toEqual([`near.example ${PUBLIC}`]);
    expect(await hosts({ mx: mx([10, "own.example.net"]), a: addresses("own.example.net") })).toEqual(["550 5.4.6"]);
    const twice = mx([20, "own.example.net"], [15, "far.example"], [10, "OWN.example.net"]);
    expect(await hosts({ mx: twice, a: addresses("own.example.net", "far.example") })).toEqual(["550 5.4.6"]);
  });

  test.each(["127.0.0.1", "10.0.0.1", "192.168.0.1", "169.254.1.1", "100.64.0.1", "::1", "fd00::1", "::ffff:10.0.0.1"])(
    "does not lead to %s",
    async (address) => {
      const zone = { mx: mx([10, "a.example"]), a: { "a.example": found(address) } };
      expect(await hosts(zone)).toEqual(["550 5.1.2"]);
      expect(await hosts(zone, { allowedBlocks: ["0.0.0.0/0", "::/0"] })).toEqual([`a.example ${address}`]);
    },
  );

  test.each<[string, Zone, string]>([
    ["null MX", { mx: mx([0, ""]), a: addresses("d.example.org") }, "556 5.1.10"],
    ["null MX twice", { mx: mx([0, ""], [10, "."]), a: addresses("d.example.org") }, "556 5.1.10"],
    ["no such domain", { mx: { kind: "nxdomain" } }, "550 5.1.2"],
    ["neither MX nor address", {}, "550 5.1.2"],
    ["a failing server", { mx: { kind: "server-failure" } }, "451 4.4.3"],
    ["nobody answers", { mx: { kind: "timeout" } }, "451 4.4.3"],
    [
      "addresses that cannot be told now",
      { mx: mx([1, "a.example"]), a: { "a.example": { kind: "timeout" } } },
      "451 4.4.3",
    ],
  ])("%s", async (_what, zone, reply) => {
    expect(await hosts(zone)).toEqual([reply]);
  });

  test("keeps to the domain's MTA-STS policy where that is enforced", async () => {
    const zone = {
      mx: mx([10, "evil.example"], [20, "in.mail.example"]),
      a: addresses("evil.example", "in.mail.example"),
    };
    const policy = (mode: "enforce" | "testing") => ({ findPolicy: async () => ({ mode, mx: ["*.mail.example"] }) });
    const enforced = await find(zone, policy("enforce"));
    expect(enforced.ok && enforced.value.peers.map(({ name, tls }) => `${name} ${tls}`)).toEqual([
      "in.mail.example required",
    ]);
    const testing = await find(zone, policy("testing"));
    expect(testing.ok && testing.value.peers.map(({ tls }) => tls)).toEqual(["opportunistic", "opportunistic"]);
    const none = { mx: mx([10, "evil.example"]), a: addresses("evil.example") };
    expect(await hosts(none, policy("enforce"))).toEqual(["451 4.7.5"]);
  });

  test("is short", async () => {
    const names = Array.from({ length: 50 }, (_, i) => `m${i}.example`);
    const zone = { mx: mx(...names.map((name): [number, string] => [10, name])), a: addresses(...names) };
    expect(await hosts(zone)).toHaveLength(6);
  });

  test("reaches every exchanger in the end, the best always", async () => {
    const names = Array.from({ length: 60 }, (_, i) => `m${i}.example`);
    const a = Object.fromEntries(names.map((name) => [name, found(PUBLIC, "203.0.113.8")]));
    const zone = { mx: mx(...names.map((name, i): [number, string] => [i, name])), a };
    const tried = async (attemptsMade: number) => {
      const route = await find(zone, {}, attemptsMade);
      return route.ok ? route.value.peers.map(({ name }) => Number(/\d+/.exec(name))) : [];
    };
    expect(await tried(0)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await tried(1)).toEqual([0, 6, 7, 8, 9, 10]);
    expect(await tried(11)).toEqual([0, 56, 57, 58, 59, 1]);
    expect(await tried(12)).toEqual([0, 2, 3, 4, 5, 6]);
  });

  const several = (count: number) => found(...Array.from({ length: count }, (_, i) => `203.0.113.${i + 1}`));

  test.each<[string, readonly number[], readonly number[]]>([
    ["a backup keeps a place beside six addresses", [6, 1], [5, 1]],
    ["places go round by preference", [2, 2, 2, 2], [2, 2, 1, 1]],
    ["what an exchanger does not need goes to the others", [1, 9, 1], [1, 4, 1]],
    ["all addresses are tried where there is room", [3, 3], [3, 3]],
    ["each of six has one place", [2, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 1]],
  ])("%s", async (_what, counts, places) => {
    const names = counts.map((_, i) => `m${i}.example`);
    const zone = {
      mx: mx(...names.map((name, i): [number, string] => [i, name])),
      a: Object.fromEntries(names.map((name, i) => [name, several(counts[i]!)])),
    };
    const expected = places.flatMap((count, i) =>
      Array.from({ length: count }, (_, at) => `m${i}.example 203.0.113.${at + 1}`),
    );
    expect(await hosts(zone)).toEqual(expected);
  });

  test("reaches every address in the end, in the order given where all have room", async () => {
    const zone = {
      mx: mx([10, "a.example"], [20, "b.example"]),
      a: { "a.example": several(6), "b.example": found(PUBLIC) },
    };
    const tried = async (attemptsMade: number) => {
      const route = await find(zone, {}, attemptsMade);
      return route.ok ? route.value.peers.map(({ host }) => Number(host.split(".")[3])) : [];
    };
    expect(await tried(0)).toEqual([1, 2, 3, 4, 5, 7]);
    expect(await tried(1)).toEqual([6, 1, 2, 3, 4, 7]);
    zone.a["a.example"] = several(3);
    expect(await tried(1)).toEqual([1, 2, 3, 7]);
  });

  test("does not look for the addresses of exchangers without end", async () => {
    const names = Array.from({ length: 300 }, (_, i) => `m${i}.example`);
    const asked = new Set<string>();
    const resolver: Resolver = {
      resolveMx: async () => mx(...names.map((name): [number, string] => [10, name])),
      resolveA: async (host) => {
        asked.add(host);
        return { kind: "timeout" };
      },
      resolveAaaa: async () => ({ kind: "timeout" }),
    };
    expect(await hosts({}, { resolver })).toEqual(["451 4.4.3"]);
    expect(asked.size).toBe(20);
  });

  test("is another one once TLS is demanded: no session from before is used", async () => {
    const zone = { mx: mx([10, "a.example"]), a: addresses("a.example") };
    const keyOf = async (changes: Partial<MxSurroundings>) => {
      const route = await find(zone, changes);
      return route.ok && route.value.key;
    };
    const free = await keyOf({});
    const enforced = await keyOf({ findPolicy: async () => ({ mode: "enforce", mx: ["a.example"] }) });
    expect(free).not.toBe(enforced);
    expect(await keyOf({})).toBe(free);
  });
});
