import { describe, expect, test } from "vitest";
import {
  readReportPlaces,
  reportIdOf,
  type SessionRow,
  tlsReportDocument,
} from "../../../../../services/core/mail/reports/sent-tls-report.ts";
import { readTlsReport } from "../../../../../services/core/mail/reports/tls-report.ts";

const SUBJECT = { day: "2026-01-31", destination: "example.net", submitter: "bounces.example.org" };
const NOW = new Date("2026-02-01T06:00:00Z");

const row = (changes: Partial<SessionRow> = {}): SessionRow => ({
  ...{ policyType: "no-policy-found", policy: [], policyExchangers: [], exchanger: "mx.example.net" },
  ...{ address: "192.0.2.1", source: "192.0.2.2", result: "", reason: "", sessions: 1 },
  ...changes,
});

describe("where reports go", () => {
  const uris = (...texts: string[]) => readReportPlaces(texts).map(({ uri }) => uri);
  test.each([
    ["an address", "v=TLSRPTv1; rua=mailto:tls@example.net", ["mailto:tls@example.net"]],
    [
      "both ways",
      "v=TLSRPTv1;rua=mailto:a@example.net , https://r.example.net/v1",
      ["mailto:a@example.net", "https://r.example.net/v1"],
    ],
    ["twice the same", "v=TLSRPTv1; rua=mailto:a@example.net,mailto:a@example.net", ["mailto:a@example.net"]],
    ["in clear", "v=TLSRPTv1; rua=http://r.example.net/", []],
    ["with a password", "v=TLSRPTv1; rua=https://a:b@r.example.net/", []],
    ["no address", "v=TLSRPTv1; rua=mailto:%0d%0aa@example.net", []],
    ["no place", "v=TLSRPTv1;", []],
    ["another record", "v=spf1 -all", []],
    ["a record that begins otherwise", " v=TLSRPTv1; rua=mailto:a@example.net", []],
  ])("%s", (_, text, expected) => {
    expect(uris(text)).toEqual(expected);
  });

  test("of several records none counts, and of many places the first four", () => {
    const text = "v=TLSRPTv1; rua=mailto:a@example.net";
    expect(uris(text, text)).toEqual([]);
    const many = Array.from({ length: 9 }, (_, index) => `mailto:a${index}@example.net`);
    expect(uris(`v=TLSRPTv1; rua=${many.join(",")}`)).toEqual(many.slice(0, 4));
  });
});

test("a report that we send is one that we read, and its sums are those of the sessions", () => {
  const rows = [
    row({ sessions: 900 }),
    row({ policyType: "sts", policy: ["mode: testing"], policyExchangers: ["mx.example.net"], sessions: 50 }),
    row({ policyType: "sts", policy: ["mode: testing"], result: "certificate-expired", sessions: 7 }),
    row({ result: "starttls-not-supported", sessions: 3 }),
  ];
  const document = JSON.stringify(tlsReportDocument(SUBJECT, rows));
  const read = readTlsReport(document, NOW);
  expect(read.ok && read.value.rows).toEqual([
    { policyDomain: "example.net", policyType: "no-policy-found", exchanger: "", result: "", sessions: 900 },
    {
      policyDomain: "example.net",
      policyType: "no-policy-found",
      exchanger: "mx.example.net",
      result: "starttls-not-supported",
      sessions: 3,
    },
    { policyDomain: "example.net", policyType: "sts", exchanger: "", result: "", sessions: 50 },
    {
      policyDomain: "example.net",
      policyType: "sts",
      exchanger: "mx.example.net",
      result: "certificate-expired",
      sessions: 7,
    },
  ]);
  expect(read.ok && read.value.reportId).toBe(`${reportIdOf(SUBJECT)}@bounces.example.org`);
});

test("a domain with more failures and policies than anybody reads gets a bounded report with exact sums", () => {
  const rows = Array.from({ length: 5_000 }, (_, index) =>
    row({
      policyType: "tlsa",
      policy: [`3 1 1 ${index}`],
      result: "validation-failure",
      address: `192.0.2.${index % 250}`,
    }),
  );
  const document = JSON.stringify(tlsReportDocument(SUBJECT, rows));
  expect(document.length).toBeLessThan(250_000);
  const read = readTlsReport(document, NOW);
  expect(read.ok && read.value.rows.reduce((sum, { sessions }) => sum + sessions, 0)).toBe(5_000);
});

test("a report has one name for a day, a domain and a deployment", () => {
  const names = [
    SUBJECT,
    { ...SUBJECT, day: "2026-02-01" },
    { ...SUBJECT, destination: "example.com" },
    { ...SUBJECT, submitter: "bounces.example.com" },
  ].map(reportIdOf);
  expect(new Set(names).size).toBe(4);
  expect(reportIdOf({ ...SUBJECT })).toBe(names[0]);
});
