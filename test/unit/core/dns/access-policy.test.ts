import { describe, expect, it } from "vitest";
import { type PolicyText, parsePolicy, readPolicy, showPolicy } from "../../../../services/core/dns/access-policy.ts";
import type { DomainName } from "../../../../services/core/dns/name.ts";
import { parseDomainName } from "../../../../services/core/dns/name.ts";
import {
  formatPattern,
  leastOctetsOfBoth,
  matchesPattern,
  type NamePattern,
  readPattern,
} from "../../../../services/core/dns/name-pattern.ts";
import { POLICY_VERBS } from "../../../../services/core/dns/policy-verbs.ts";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import { judgeAsked, judgeChange } from "../../../../services/core/dns/token.ts";
import { sentenceOf } from "../../../../services/core/refusal.ts";
import { processorMs } from "../../../support/processor-time.ts";

function name(text: string): DomainName {
  const parsed = parseDomainName(text);
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
}

function pattern(text: string): NamePattern {
  const read = readPattern(text);
  if (!read.ok) throw new Error(read.error.message);
  return read.value;
}

describe("patterns of names", () => {
  it.each([
    ["www.example.org", "WWW.example.org", true],
    ["www.example.org", "example.org", false],
    ["www.example.org.", "www.example.org", true],
    ["*.example.org", "a.example.org", true],
    ["*.example.org", "*.example.org", true],
    ["*.example.org", "a.b.example.org", false],
    ["*.example.org", "example.org", false],
    ["\\*.example.org", "*.example.org", true],
    ["\\*.example.org", "a.example.org", false],
    ["**.example.org", "example.org", true],
    ["**.example.org", "a.b.c.example.org", true],
    ["**.example.org", "a.example.net", false],
    ["_acme-challenge.**", "_acme-challenge.example.org", true],
    ["_acme-challenge.**", "_ACME-Challenge.a.b.example.org", true],
    ["_acme-challenge.**", "x._acme-challenge.example.org", false],
    ["**.a.**", "x.a.a.y", true],
    ["**.a.**.b", "a.b.a.c.b", true],
    ["**.a.**.b", "a.b.a.c", false],
    ["*.**.*", "a", false],
    ["*.**.*", "a.b", true],
    ["**", "a.b.c", true],
    ["münchen.**", "xn--mnchen-3ya.example.org", true],
    ["a\\.b.example.org", "a\\.b.example.org", true],
    ["a\\.b.example.org", "a.b.example.org", false],
    ["\\200.test", "\\200.test", true],
  ])("%s and %s: %s", (text, asked, expected) => {
    expect(matchesPattern(pattern(text), name(asked))).toBe(expected);
    const written = formatPattern(pattern(text));
    expect(matchesPattern(pattern(written), name(asked))).toBe(expected);
    expect(formatPattern(pattern(written))).toBe(written);
  });

  it.each([
    "",
    ".",
    "a..b",
    ".a",
    "@",
    "web*.example.org",
    "***",
    "a\\",
    "\\999.test",
    "a b.test",
    `${"a".repeat(64)}.test`,
    Array(130).fill("*").join("."),
  ])("refuses %j", (text) => {
    expect(readPattern(text).ok).toBe(false);
  });

  it("knows which have no name in common, and agrees with trying names out", () => {
    const labels = ["a", "b", "*", "**"];
    const names: DomainName[] = [];
    const texts: string[] = [];
    const build = (at: string[], of: readonly string[], most: number, take: (text: string) => void) => {
      if (at.length > 0) take(at.join("."));
      if (at.length < most) for (const label of of) build([...at, label], of, most, take);
    };
    build([], ["a", "b", "c"], 5, (text) => names.push(name(text)));
    build([], labels, 3, (text) => texts.push(text));
    const patterns = texts.map(pattern);
    for (const one of patterns) {
      for (const other of patterns) {
        const both = names.filter((asked) => matchesPattern(one, asked) && matchesPattern(other, asked));
        const shortest = both.reduce((least, { wire }) => Math.min(least, wire.length), Number.POSITIVE_INFINITY);
        const least = leastOctetsOfBoth(one, other);
        // The root matches `**` alone, and no pattern may be of the root.
        if (least > 1)
          expect([formatPattern(one), formatPattern(other), least]).toEqual([
            formatPattern(one),
            formatPattern(other),
            shortest,
          ]);
      }
    }
  });
});

describe("policies", () => {
  const refusal = (text: PolicyText) => {
    const read = readPolicy(text);
    return read.ok ? undefined : sentenceOf(read.error).message;
  };

  it.each<[PolicyText, string]>([
    [{ access: "write", zones: [] }, "invalid field: zones: an empty list lets nothing pass: leave it out"],
    [{ access: "write", names: ["_acme-challenge"] }, "can match nothing"],
    [{ access: "write", zones: ["example.org"], names: ["www.example.net"] }, "www.example.net can match nothing"],
    [
      { access: "write", zones: ["example.org", "example.net"], names: ["www.example.net"] },
      "zones: example.org can match nothing",
    ],
    [{ access: "write", zones: ["example.org"], names: ["*"] }, "can match nothing"],
    [{ access: "write", zones: [`${"a.".repeat(100)}test`], names: [`${"b.".repeat(60)}**`] }, "can match nothing"],
    [{ access: "read", verbs: ["create"] }, "there are no verbs"],
    [{ access: "write", verbs: [] }, "empty list"],
    [{ access: "write", verbs: ["sign"], types: ["TXT"] }, "sign is for whole zones"],
    [{ access: "write", types: ["ANY"] }, "ANY is not a type"],
    [{ access: "write", types: ["FOO"] }, "FOO is not a type"],
    [{ access: "write", networks: ["192.0.2.1/24"] }, "networks: 192.0.2.1/24 has host bits set beyond /24"],
    [
      { access: "write", networks: ["192.0.2.0/24", "::ffff:192.0.2.0/120"] },
      "networks: ::ffff:192.0.2.0/120 is about IPv4 addresses: write it as an IPv4 block, 192.0.2.0/24",
    ],
  ])("refuses %j", (text, words) => {
    expect(refusal(text)).toContain(words);
  });

  it("takes a stored policy as it is, without a look at what it is good for", () => {
    const text: PolicyText = { access: "write", zones: ["example.org"], names: ["www.example.net"] };
    expect(readPolicy(text).ok).toBe(false);
    expect(parsePolicy(text)).toMatchObject({ ok: true, value: { zones: [[{ label: "example" }, { label: "org" }]] } });
    const mapped: PolicyText = { access: "write", networks: ["::ffff:c000:201/128"] };
    expect(parsePolicy(mapped)).toMatchObject({ ok: true, value: { networks: ["::ffff:192.0.2.1/128"] } });
  });

  const hundred = (entry: (number: number) => string) => Array.from({ length: 100 }, (_, number) => entry(number));

  it("takes what has sixteen kilobytes at most, and reads what was stored with more", () => {
    const text = (labels: number): PolicyText => ({
      access: "write",
      names: hundred((n) => `${`${"a".repeat(60)}.`.repeat(labels)}n${n}`),
    });
    expect(refusal(text(2))).toBeUndefined();
    expect(refusal(text(3))).toBe("invalid field: names: at most 16384 octets in all parts of the policy together");
    expect(parsePolicy(text(3)).ok).toBe(true);
  });

  it.each<[string, PolicyText, string | undefined]>([
    [
      "long names of as many zones",
      {
        access: "write",
        names: hundred((n) => `${"a.".repeat(18)}z${n}`),
        zones: hundred((n) => `${"a.".repeat(18)}z${99 - n}`),
      },
      undefined,
    ],
    [
      "more labels than are compared",
      {
        access: "write",
        names: hundred((n) => `${"a.".repeat(124)}z${n}`),
        zones: hundred((n) => `${"a.".repeat(124)}z${99 - n}`),
      },
      "invalid field: zones: at most 2000 labels in all entries together",
    ],
  ])("compares %s in little time", (_, text, words) => {
    const start = processorMs();
    expect(refusal(text)).toBe(words);
    expect(processorMs() - start).toBeLessThan(1_500);
  });

  it("keeps what it reads", () => {
    const text: PolicyText = {
      access: "write",
      networks: ["192.0.2.1", "2001:db8::/32"],
      zones: ["Example.ORG.", "**.example.net"],
      names: ["_acme-challenge.**"],
      types: ["txt", "TYPE65280"],
    };
    const read = readPolicy(text);
    if (!read.ok) throw new Error(sentenceOf(read.error).message);
    const shown = showPolicy(read.value);
    expect(shown).toEqual({
      access: "write",
      networks: ["192.0.2.1/32", "2001:db8::/32"],
      zones: ["example.org", "**.example.net"],
      names: ["_acme-challenge.**"],
      types: ["TXT", "TYPE65280"],
      verbs: ["create", "modify", "delete"],
    });
    expect(readPolicy(shown)).toEqual(read);
    const unrestricted = { networks: null, zones: null, names: null, types: null, verbs: POLICY_VERBS };
    expect(readPolicy({ access: "write", verbs: POLICY_VERBS })).toEqual({ ok: true, value: unrestricted });
    expect(structuredClone(read.value)).toEqual(read.value);
  });
});

describe("a change under a policy", () => {
  const apex = name("example.org");
  const soa = { mname: apex, rname: apex, serial: 1, refresh: 1, retry: 1, expire: 1, minimum: 1 };
  const zone = { apex, soa, ttl: 60 };
  const record = (owner: string, type: number, last: number, ttl = 60) => ({
    owner: name(owner),
    type,
    ttl,
    rdata: Uint8Array.of(192, 0, 2, last),
  });
  const judged = (
    text: PolicyText,
    deleted: ReturnType<typeof record>[],
    added: ReturnType<typeof record>[],
    more: object = {},
  ) => {
    const policy = readPolicy(text);
    if (!policy.ok) throw new Error(sentenceOf(policy.error).message);
    const refused = judgeChange({ id: 1, name: "t", policy: policy.value }, zone, {
      soa: { ...soa, serial: 2 },
      ttl: 60,
      difference: { deleted, added },
      ...more,
    });
    return refused && sentenceOf(refused).message;
  };
  const a = record("www.example.org", TYPE.A, 1);
  const b = record("www.example.org", TYPE.A, 2);

  it("names the part that refuses", () => {
    expect(judged({ access: "read" }, [], [a])).toBe("token t: verbs: it has no create");
    expect(judged({ access: "write", zones: ["example.net"] }, [], [a])).toBe("token t: zones: not for example.org");
    expect(judged({ access: "write", names: ["x.**"] }, [], [a])).toBe("token t: names: not for www.example.org");
    expect(judged({ access: "write", types: ["TXT"] }, [], [a])).toBe("token t: types: not for A records");
    expect(judged({ access: "write", types: ["A"] }, [], [], { ttl: 61 })).toBe("token t: types: not for SOA records");
    expect(judged({ access: "write", types: ["A"] }, [], [], { touchesSoa: true })).toBe(
      "token t: types: not for SOA records",
    );
  });

  it("is judged by what is asked as well, whether or not it changes anything", () => {
    const asked = (text: PolicyText, type: number | undefined) => {
      const policy = readPolicy(text);
      if (!policy.ok) throw new Error(sentenceOf(policy.error).message);
      const refused = judgeAsked({ id: 1, name: "t", policy: policy.value }, [
        { owner: name("www.example.org"), type },
      ]);
      return refused && sentenceOf(refused).message;
    };
    expect(asked({ access: "write" }, TYPE.A)).toBeUndefined();
    expect(asked({ access: "write", types: ["TXT"] }, undefined)).toBeUndefined();
    expect(asked({ access: "write", types: ["TXT"] }, TYPE.A)).toBe("token t: types: not for A records");
    expect(asked({ access: "write", names: ["x.**"] }, undefined)).toBe("token t: names: not for www.example.org");
    expect(asked({ access: "read" }, TYPE.A)).toBe("token t: verbs: it has no create, modify, delete");
  });

  it("tells growing, shrinking and replacing RRsets apart", () => {
    const only = (verb: "create" | "modify" | "delete"): PolicyText => ({ access: "write", verbs: [verb] });
    expect([only("create"), only("modify"), only("delete")].map((text) => judged(text, [], [a]) === undefined)).toEqual(
      [true, false, false],
    );
    expect([only("create"), only("modify"), only("delete")].map((text) => judged(text, [b], []) === undefined)).toEqual(
      [false, false, true],
    );
    expect(
      [only("create"), only("modify"), only("delete")].map((text) => judged(text, [b], [a]) === undefined),
    ).toEqual([false, true, false]);
    expect(judged({ access: "write", verbs: ["create", "delete"] }, [b], [a])).toBeUndefined();
  });
});
