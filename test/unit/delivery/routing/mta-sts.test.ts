import { describe, expect, test } from "vitest";
import { allowsExchanger, readStsPolicy, readStsRecord } from "../../../../services/delivery/routing/mta-sts.ts";

test.each<[readonly string[], string | undefined]>([
  [["v=STSv1; id=20260101000000Z;"], "20260101000000Z"],
  [["v=spf1 -all", "v=STSv1;id=a"], "a"],
  [[], undefined],
  [["v=STSv1; id=a;", "v=STSv1; id=b;"], undefined],
  [["v=STSv1;"], undefined],
  [["v=STSv1; id=a-b;"], undefined],
  [["v=STSv10; id=a;"], undefined],
])("the record %j", (texts, id) => {
  expect(readStsRecord(texts)).toBe(id);
});

describe("the policy file", () => {
  const lines = ["version: STSv1", "mode: enforce", "mx: Mail.example.org", "mx: *.example.net", "max_age: 604800"];

  test("may end its lines as it likes", () => {
    const policy = { mode: "enforce", mx: ["mail.example.org", "*.example.net"], maxAgeSeconds: 604_800 };
    for (const end of ["\r\n", "\n"]) expect(readStsPolicy(lines.join(end) + end)).toEqual({ ok: true, value: policy });
  });

  test.each([
    ["version: STSv1", "version: STSv2"],
    ["mode: enforce", "mode: maybe"],
    ["max_age: 604800", "max_age: soon"],
  ])("%s is needed", (line, other) => {
    expect(readStsPolicy(lines.filter((kept) => kept !== line).join("\n")).ok).toBe(false);
    expect(readStsPolicy(lines.join("\n").replace(line, other)).ok).toBe(false);
  });

  test("needs exchangers, unless it says none", () => {
    const without = lines.filter((line) => !line.startsWith("mx"));
    expect(readStsPolicy(without.join("\n")).ok).toBe(false);
    expect(readStsPolicy(without.join("\n").replace("enforce", "none")).ok).toBe(true);
  });

  test("holds a year at most", () => {
    const policy = readStsPolicy(lines.join("\n").replace("604800", "9999999999"));
    expect(policy.ok && policy.value.maxAgeSeconds).toBe(31_557_600);
  });
});

test.each([
  ["mail.example.org", true],
  ["MAIL.example.org.", true],
  ["in.example.net", true],
  ["a.in.example.net", false],
  ["example.net", false],
  ["mail.example.org.evil.test", false],
])("%s is allowed: %s", (exchanger, allowed) => {
  expect(allowsExchanger({ mx: ["mail.example.org", "*.example.net"] }, exchanger)).toBe(allowed);
});
