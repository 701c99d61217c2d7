import { describe, expect, test } from "vitest";
import { countSpf, flattenSpf, parseSpf, type SpfLookups } from "../../../../../services/core/mail/domain-setup/spf.ts";

const TEXTS: Readonly<Record<string, readonly string[]>> = {
  "a.example": ["v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 -all"],
  "b.example": ["v=spf1 include:a.example a:host.example ~all", "unrelated"],
  "two.example": ["v=spf1 -all", "v=spf1 ~all"],
  "none.example": ["no policy"],
  "loop.example": ["v=spf1 include:back.example -all"],
  "back.example": ["v=spf1 include:loop.example -all"],
  "macro.example": ["v=spf1 exists:%{i}.list.example -all"],
  "broken.example": ["v=spf1 ip4:999.0.2.1 -all"],
  "redirect.example": ["v=spf1 redirect=b.example"],
  "exclude.example": ["v=spf1 -ip4:192.0.2.7 ip4:192.0.2.0/24 -all"],
  "open.example": ["v=spf1 ip4:192.0.2.1 +all"],
  "mx.example": ["v=spf1 mx -all"],
};
const ADDRESSES: Readonly<Record<string, readonly string[]>> = {
  "host.example": ["192.0.2.9", "2001:db8::9"],
  "x1.example": ["192.0.2.10"],
};
const LOOKUPS: SpfLookups = {
  texts: async (name) => (name === "silent.example" ? undefined : (TEXTS[name] ?? [])),
  addresses: async (name) => ADDRESSES[name] ?? [],
  exchangers: async (name) =>
    name === "many.example" ? Array.from({ length: 11 }, (_, n) => `x${n}.example`) : ["x1.example"],
};

describe("a policy is read", () => {
  test.each([
    "v=spf1",
    "V=SPF1 a mx -all",
    "v=spf1 a:%{d}/24//64 MX:example.org ?all",
    "v=spf1 exists:%{ir}.%{v}.example ptr exp=why.example redirect=other.example",
    "v=spf1 ip4:192.0.2.1 ip6:2001:db8::/32 unknown=thing",
  ])("%s", (policy) => {
    expect(parseSpf(policy).ok).toBe(true);
  });

  test.each([
    ["v=spf10", "v=spf10"],
    ["v=spf1 include", "include"],
    ["v=spf1 include:", "include:"],
    ["v=spf1 ip4:192.0.2.1/33", "ip4:192.0.2.1/33"],
    ["v=spf1 ip4:example.org", "ip4:example.org"],
    ["v=spf1 all:x", "all:x"],
    ["v=spf1 ipv4:192.0.2.1", "ipv4:192.0.2.1"],
    ["v=spf1 redirect=", "redirect="],
    ["v=spf1 redirect=a.example redirect=b.example", "redirect=b.example"],
  ])("%s is none, because of %s", (policy, term) => {
    expect(parseSpf(policy)).toEqual({ ok: false, error: term });
  });
});

describe("look-ups are counted", () => {
  test.each([
    ["v=spf1 ip4:192.0.2.1 -all", 0, 0, true],
    ["v=spf1 include:a.example -all", 1, 0, true],
    ["v=spf1 include:b.example a mx ~all", 5, 1, true],
    ["v=spf1 redirect=b.example", 3, 0, true],
    ["v=spf1 -all include:b.example", 0, 0, true],
    ["v=spf1 redirect=b.example -all", 0, 0, true],
    ["v=spf1 include:macro.example -all", 2, 0, false],
    ["v=spf1 include:silent.example -all", 1, 0, false],
    ["v=spf1 ptr -all", 1, 0, false],
    ["v=spf1 exists:host.example exists:nothing.example -all", 2, 1, true],
  ])("%s: %i look-ups, %i of them void", async (policy, lookups, voids, exact) => {
    expect(await countSpf("example.org", policy, LOOKUPS)).toEqual({ lookups, voids, exact, fault: undefined });
  });

  test.each([
    [`v=spf1 ${"include:a.example ".repeat(10)}-all`, undefined],
    [`v=spf1 ${"include:a.example ".repeat(11)}-all`, "too-many-lookups"],
    ["v=spf1 a:1.example a:2.example -all", undefined],
    ["v=spf1 a:1.example a:2.example a:3.example -all", "too-many-voids"],
    ["v=spf1 include:two.example -all", "no-policy-included"],
    ["v=spf1 include:none.example -all", "no-policy-included"],
    ["v=spf1 include:loop.example -all", "loop"],
    ["v=spf1 include:example.org -all", "loop"],
    ["v=spf1 include:broken.example -all", "malformed"],
    ["v=spf1 mx:many.example -all", "too-many-exchangers"],
    ["v=spf1 redirect=nothing.example", "no-policy-included"],
  ])("%s: %s", async (policy, fault) => {
    expect((await countSpf("example.org", policy, LOOKUPS)).fault?.kind).toBe(fault);
  });

  test("a policy that branches without end is left in time", async () => {
    let asked = 0;
    const wide: SpfLookups = {
      ...LOOKUPS,
      texts: async (name) => {
        asked += 1;
        return [`v=spf1 include:1.${name} include:2.${name} include:3.${name} -all`];
      },
    };
    expect((await countSpf("example.org", "v=spf1 include:x.example -all", wide)).fault?.kind).toBe("too-many-lookups");
    expect(asked).toBeLessThan(25);
  });
});

describe("flattening", () => {
  test.each([
    ["v=spf1 include:a.example -all", "v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 -all", []],
    [
      "v=spf1 mx include:redirect.example include:kept.example ~all",
      "v=spf1 mx ip4:192.0.2.0/24 ip6:2001:db8::/32 ip4:192.0.2.9 ip6:2001:db8::9 include:kept.example ~all",
      [],
    ],
    ["v=spf1 include:mx.example -all", "v=spf1 ip4:192.0.2.10 -all", []],
    ["v=spf1 include:macro.example -all", "v=spf1 include:macro.example -all", ["include:macro.example"]],
    ["v=spf1 include:exclude.example -all", "v=spf1 include:exclude.example -all", ["include:exclude.example"]],
    ["v=spf1 include:open.example -all", "v=spf1 include:open.example -all", ["include:open.example"]],
    ["v=spf1 include:loop.example -all", "v=spf1 include:loop.example -all", ["include:loop.example"]],
    ["v=spf1 ?include:a.example -all", "v=spf1 ?include:a.example -all", []],
  ])("%s becomes %s", async (policy, flattened, left) => {
    expect(await flattenSpf(policy, new Set(["kept.example"]), LOOKUPS)).toEqual({ policy: flattened, left });
  });

  /** Policies of names that begin with a number, each made by it. `asked`: what was looked up. */
  function chain(policyOf: (layer: number) => string) {
    const asked: string[] = [];
    const look = async (name: string) => {
      asked.push(name);
      return [];
    };
    const texts = async (name: string) => {
      asked.push(name);
      return [policyOf(Number.parseInt(name, 10))];
    };
    return { asked, lookups: { texts, addresses: look, exchangers: look } satisfies SpfLookups };
  }
  const times = (count: number, text: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => text(index)).join(" ");
  const WIDE = "v=spf1 include:0.wide -all";

  test.each([
    [
      "whose includes branch",
      (layer: number) => {
        const included = (index: number) => (layer < 8 ? `include:${layer + 1}.${index}.x` : "ip4:192.0.2.1");
        return `v=spf1 ${times(10, included)} -all`;
      },
    ],
    ["with many hosts", () => `v=spf1 ${times(200, (index) => `a:${index}.host`)} -all`],
  ])("a policy %s is left after 50 look-ups, and so are those behind it", async (_, policyOf) => {
    const { asked, lookups } = chain(policyOf);
    const policy = "v=spf1 include:0.wide include:0.other -all";
    const flattened = await flattenSpf(policy, new Set(), lookups);
    expect(flattened).toEqual({ policy, left: ["include:0.wide", "include:0.other"] });
    expect(asked).toHaveLength(50);
  });

  test("a name that is included again is not asked for again", async () => {
    const { asked, lookups } = chain((layer) =>
      layer === 8 ? "v=spf1 ip4:192.0.2.1 -all" : `v=spf1 ${times(10, () => `include:${layer + 1}.x`)} -all`,
    );
    expect((await flattenSpf(WIDE, new Set(), lookups)).policy).toBe("v=spf1 ip4:192.0.2.1 -all");
    expect(asked).toHaveLength(9);
  });

  test.each([
    [500, 0],
    [501, 1],
  ])("an include of %i addresses: %i are left", async (count, left) => {
    const { lookups } = chain(() => `v=spf1 ${times(count, (index) => `ip6:2001:db8::${index.toString(16)}`)} -all`);
    expect((await flattenSpf(WIDE, new Set(), lookups)).left).toHaveLength(left);
  });
});
