import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { compileDomainGroups, type DomainGroups, providerNamed } from "../../../../services/core/mail/address-group.ts";

const data: unknown = JSON.parse(
  readFileSync(new URL("../../../../config/domain-groups.json", import.meta.url), "utf8"),
);

function compile(rows: unknown): DomainGroups {
  const groups = compileDomainGroups(rows);
  if (!groups.ok) throw new Error(groups.error);
  return groups.value;
}

test.each([
  ["gmail.com", 1],
  ["hotmail.com", 2],
  ["outlook.com", 2],
  ["yahoo.com.ar", 3],
  ["example.org", 0],
  ["notgmail.com", 0],
  ["sub.gmail.com", 0],
])("the shipped table puts %s into group %i", (domain, id) => {
  expect(compile(data).ofDomain(domain)).toBe(id);
});

test.each([
  ["aspmx.l.google.com", 1],
  ["ALT1.ASPMX.L.GOOGLE.COM.", 1],
  ["example-org.mail.protection.outlook.com", 2],
  ["mx-eu.mail.am0.yahoodns.net", 3],
  ["mx.example.org", 0],
  ["mail.notgoogle.com", 0],
  ["", 0],
])("the shipped table puts the exchanger %s into group %i", (host, id) => {
  expect(compile(data).ofMxHost(host)).toBe(id);
});

test.each([
  ["gmail", "gmail"],
  ["GMAIL", "gmail"],
  ["googlemail.com", "gmail"],
  ["Hotmail.com", "outlook"],
  ["Example.ORG", "example.org"],
  ["ñandu.example", "xn--andu-fqa.example"],
  ["default", undefined],
  ["gmial", undefined],
  ["not a domain", undefined],
  ["a@gmail.com", undefined],
  ["", undefined],
])("what is paced as %j is %j", (text, provider) => {
  expect(providerNamed(compile(data), text)).toBe(provider);
});

test("groups have names", () => {
  expect(compile(data).nameOf(1)).toBe("gmail");
  expect(compile(data).nameOf(0)).toBe("default");
  expect(compile(data).nameOf(99)).toBe("default");
});

const row = { id: 1, name: "one", domains: ["example.org"], mxDomains: [] };
test.each([
  { not: "a list" },
  [null],
  [{ ...row, id: 0 }],
  [{ ...row, id: 100 }],
  [{ ...row, id: 1.5 }],
  [row, { ...row, name: "two" }],
  [{ ...row, name: "" }],
  [{ ...row, domains: ["Example.org"] }],
  [{ ...row, mxDomains: undefined }],
])("%j is refused", (rows) => {
  expect(compileDomainGroups(rows).ok).toBe(false);
});

test("no domain stands in two groups of the shipped table", () => {
  const groups = data as { domains: string[]; mxDomains: string[] }[];
  for (const key of ["domains", "mxDomains"] as const) {
    const all = groups.flatMap((group) => group[key]);
    expect(new Set(all).size).toBe(all.length);
  }
});
