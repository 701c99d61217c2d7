import { describe, expect, test } from "vitest";
import {
  dkimMatches,
  dmarcNames,
  dmarcPolicy,
  expectedSpf,
  spfAllows,
} from "../../../../services/core/mail/sender-records.ts";

const BOUNCES = "bounces.example.net";
const HOST = "mx.example.net";

describe("SPF", () => {
  test.each<[boolean, string[]]>([
    [true, ["v=spf1 include:bounces.example.net ~all"]],
    [true, ["V=SPF1 +include:Bounces.Example.NET. -all", "other text"]],
    [true, ["v=spf1 mx a:mx.example.net -all"]],
    [true, ["v=spf1 redirect=bounces.example.net"]],
    [false, ["v=spf1 -include:bounces.example.net ~all"]],
    [false, ["v=spf1 include:xbounces.example.net ~all"]],
    [false, ["v=spf1 include:bounces.example.net ~all", "v=spf1 -all"]],
    [false, ["v=spf10 include:bounces.example.net"]],
    [false, ["v=spf1"]],
    [false, []],
  ])("allows us: %s for %j", (allowed, texts) => {
    expect(spfAllows(texts, BOUNCES, HOST)).toBe(allowed);
  });

  test.each([
    [[], "v=spf1 include:bounces.example.net ~all"],
    [["v=spf1 mx -all"], "v=spf1 mx include:bounces.example.net -all"],
    [["v=spf1 mx redirect=example.com"], "v=spf1 mx include:bounces.example.net redirect=example.com"],
    [["v=spf1 mx"], "v=spf1 mx include:bounces.example.net"],
    [["not a policy"], "v=spf1 include:bounces.example.net ~all"],
  ])("%j should be %j", (texts, value) => {
    const expected = expectedSpf("example.org", BOUNCES, texts);
    expect(expected).toEqual({ name: "example.org", type: "TXT", value });
    expect(spfAllows([value], BOUNCES, HOST)).toBe(true);
  });
});

test.each<[boolean, string[]]>([
  [true, ["v=DKIM1; k=rsa; p=MIGfMA0"]],
  [true, ["k=rsa;p=MIGf MA0 ;t=s"]],
  [true, ["something else", "v=DKIM1;p=MIGfMA0"]],
  [false, ["v=DKIM1; p="]],
  [false, ["v=DKIM1; p=MIGfMA1"]],
  [false, []],
])("the DKIM key is published: %s for %j", (matches, texts) => {
  expect(dkimMatches(texts, "v=DKIM1; k=rsa; p=MIGfMA0")).toBe(matches);
});

test.each<[string | undefined, string[]]>([
  ["none", ["v=DMARC1; p=none"]],
  ["reject", ["other", "v=DMARC1 ;p=Reject; rua=mailto:d@example.org"]],
  [undefined, ["v=DMARC1; sp=none"]],
  [undefined, ["v=DMARC1; p=maybe"]],
  [undefined, ["v=DMARC1; p=none", "v=DMARC1; p=none"]],
  [undefined, ["v=DMARC12; p=none"]],
  [undefined, []],
])("the DMARC policy is %s for %j", (policy, texts) => {
  expect(dmarcPolicy(texts)).toBe(policy);
});

test("a domain without a DMARC record has that of the domains above it", () => {
  expect(dmarcNames("a.b.example.org")).toEqual([
    ...["_dmarc.a.b.example.org", "_dmarc.b.example.org", "_dmarc.example.org"],
  ]);
});
