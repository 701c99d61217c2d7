import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { DmarcAggregateReader } from "../../../../../services/core/mail/reports/dmarc-aggregate.ts";
import { fullBudget, type ReportRefusal } from "../../../../../services/core/mail/reports/report.ts";
import { readReport, readReportMessage } from "../../../../../services/operations/mail/reports/read-report.ts";
import { processorMs } from "../../../../support/processor-time.ts";
import { aggregateXml, gzipped, reportMessage, tlsReportJson } from "../../../../support/sender-reports.ts";
import { settledMemory } from "../../../../support/settled-memory.ts";
import { zipOf } from "../../../../support/zip.ts";

const XML = aggregateXml({
  records: [
    { source: "2001:DB8::1", count: 3, dkim: "pass", spf: "fail", returnPath: "bounces.example.net" },
    { source: "192.0.2.9", count: 2, dkim: "fail", spf: "fail", disposition: "quarantine", reason: "mailing_list" },
  ],
});
const ROWS = [
  {
    ...{ source: "2001:db8::1", messages: 3, headerFrom: "sender.example.org", dkim: true, spf: false },
    ...{ disposition: "none", overridden: "", dkimDomain: "sender.example.org", spfDomain: "bounces.example.net" },
  },
  {
    ...{ source: "192.0.2.9", messages: 2, headerFrom: "sender.example.org", dkim: false, spf: false },
    ...{ disposition: "quarantine", overridden: "mailing_list" },
    ...{ dkimDomain: "sender.example.org", spfDomain: "sender.example.org" },
  },
];
const NOW = new Date();
const readMessage = (message: string) => readReportMessage(Buffer.from(message, "latin1"), NOW);

describe("a DMARC aggregate is read", () => {
  const twice = Buffer.from(gzipped(XML).toString("base64"));
  const forms: readonly (readonly [string, string])[] = [
    ["gzip", reportMessage(gzipped(XML))],
    ["zip", reportMessage(zipOf({ "a.xml": XML }), { type: "application/zip" })],
    ["zip, beside an archiver's notes", reportMessage(zipOf({ "__MACOSX/._a.xml": "x", "a.xml": XML }))],
    ["gzip that calls itself zip", reportMessage(gzipped(XML), { type: "application/zip" })],
    ["plain", reportMessage(XML, { type: "text/xml", encoding: "8bit" })],
    ["base64 within base64", reportMessage(twice, { type: "application/octet-stream" })],
    ["base64 that nothing tells of", reportMessage(twice, { type: "text/plain", encoding: "7bit" })],
    ["UTF-16", reportMessage(Buffer.from(`\ufeff${XML}`, "utf16le"), { type: "text/xml" })],
    ["with a byte order mark", reportMessage(`\ufeff${XML}`, { type: "text/xml" })],
    [
      "a body that is the archive",
      `Content-Type: application/gzip\r\nContent-Transfer-Encoding: base64\r\n\r\n${gzipped(XML).toString("base64")}`,
    ],
    ["forwarded", `Content-Type: message/rfc822\r\n\r\n${reportMessage(gzipped(XML))}`],
  ];
  test.each(forms)("%s", async (_form, message) => {
    expect(await readMessage(message)).toMatchObject({
      ok: true,
      value: {
        kind: "dmarc",
        reporter: "Receiver",
        reportId: "1",
        policy: { domain: "sender.example.org", p: "none" },
        rows: ROWS,
      },
    });
  });

  test("in the form of RFC 9990, with prefixed names and with elements that nobody knows", async () => {
    const modern = aggregateXml({ modern: true, policy: "reject", records: [{ disposition: "pass" }] });
    const prefixed = modern
      .replace("xmlns=", "xmlns:d=")
      .replace(/<(\/?)([a-z])/g, "<$1d:$2")
      .replace("</d:feedback>", "<d:extension><d:x>1</d:x></d:extension></d:feedback>");
    for (const xml of [modern, prefixed]) {
      expect(await readReport(Buffer.from(xml), NOW)).toMatchObject({
        ok: true,
        value: { policy: { p: "reject", testing: "n" }, rows: [{ disposition: "none", messages: 1 }] },
      });
    }
  });

  test.each(["dmarc@Receiver.example.net", "Reports &lt;dmarc@receiver.example.net&gt;"])(
    "of a reporter without a name, that is reached at %s",
    async (email) => {
      const xml = XML.replace("dmarc@receiver.example.net", email).replace("Receiver", " ");
      expect(await readReport(Buffer.from(xml), NOW)).toMatchObject({
        ok: true,
        value: { reporter: "receiver.example.net", rows: ROWS },
      });
    },
  );

  test.each([
    ["is not closed", '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">', ""],
    ["is closed", "<envelope><note>x</note><record/>", "<record></record></envelope>"],
  ])("within an element that nobody knows and that %s", async (_how, before, after) => {
    const xml = XML.replace("<feedback>", `${before}<feedback>`) + after;
    expect(await readReport(Buffer.from(xml), NOW)).toMatchObject({ ok: true, value: { rows: ROWS } });
  });

  test("with rows that say the same counted together", async () => {
    const xml = aggregateXml({ records: [{ count: 2 }, { count: 3 }, { count: 0 }] });
    expect(await readReport(Buffer.from(xml), NOW)).toMatchObject({ value: { rows: [{ messages: 5 }] } });
  });
});

test("a report about TLS is read, with what its details leave unexplained", async () => {
  const json = tlsReportJson({ failures: [{ mx: "MX1.example.org", result: "certificate-expired", count: 2 }] });
  const unexplained = json.replace('"total-failure-session-count":2', '"total-failure-session-count":5');
  const read = await readMessage(reportMessage(gzipped(unexplained), { type: "application/tlsrpt+gzip" }));
  const row = { policyDomain: "sender.example.org", policyType: "sts" };
  expect(read).toMatchObject({
    value: {
      kind: "tls",
      rows: [
        { ...row, exchanger: "", result: "", sessions: 10 },
        { ...row, exchanger: "mx1.example.org", result: "certificate-expired", sessions: 2 },
        { ...row, exchanger: "", result: "validation-failure", sessions: 3 },
      ],
    },
  });
});

describe("what would do harm is refused, in bounded time and memory", () => {
  const laughs = `<!DOCTYPE lolz [<!ENTITY lol "lol">${Array.from({ length: 9 }, (_, i) => `<!ENTITY lol${i + 1} "${`&lol${i || ""};`.repeat(10)}">`).join("")}]>`;
  const bomb = gzipSync(Buffer.concat([Buffer.from("<feedback>"), Buffer.alloc(128 * 2 ** 20, " ")]));
  const hostile: readonly (readonly [string, string | Buffer, ReportRefusal])[] = [
    ["a billion laughs", XML.replace("<feedback", `${laughs}<feedback`).replace("Receiver", "&lol9;"), "document-type"],
    [
      "an external entity",
      XML.replace("<feedback", `<!DOCTYPE f SYSTEM "file:///etc/passwd"><feedback`),
      "document-type",
    ],
    ["a gzip bomb", bomb, "too-large"],
    [
      "a zip bomb",
      zipOf({ "a.xml": Buffer.concat([Buffer.from("<feedback>"), Buffer.alloc(64 * 2 ** 20, " ")]) }),
      "too-large",
    ],
    ["an archive in an archive", gzipSync(gzipped(XML)), "nested-archive"],
    ["a zip in a zip", zipOf({ "a.zip": zipOf({ "a.xml": XML }) }), "nested-archive"],
    ["a broken archive", gzipped(XML).subarray(0, 200), "corrupt-archive"],
    ["an archive of nothing", zipOf({ "folder/": "" }), "corrupt-archive"],
    [
      "an archive of many files",
      zipOf(Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`__MACOSX/${i}`, ""]))),
      "corrupt-archive",
    ],
    ["a name of megabytes", `<feedback><${"n".repeat(2 * 2 ** 20)}>${"<a/>".repeat(20_000)}`, "malformed"],
    ["elements in elements", `<feedback>${"<a>".repeat(100_000)}`, "too-deep"],
    ["an element without an end", `<feedback${" a".repeat(2_000_000)}`, "malformed"],
    ["a million records", `<feedback>${"<record></record>".repeat(1_000_000)}</feedback>`, "malformed"],
    ["a report that is cut off", XML.slice(0, -12), "malformed"],
    ["one that is cut off by what is around it", `<a>${XML.replace("</feedback>", "</a>")}`, "malformed"],
    ["one that is deep within others", `${"<a>".repeat(10)}${XML}`, "too-deep"],
    ["a reporter without name and address", XML.replace("Receiver", "").replace(/<email>.*<.email>/, ""), "malformed"],
    ["another document", "<html><body>Hello</body></html>", "malformed"],
    ["a count that is none", XML.replace("<count>3", "<count>-3"), "malformed"],
    ["an address that is none", XML.replace("192.0.2.9", "localhost"), "malformed"],
    ["a time to come", aggregateXml({ daysAgo: -30 }), "bad-period"],
    ["a time long ago", aggregateXml({ daysAgo: 400 }), "bad-period"],
    ["deep JSON", "[".repeat(2_000_000), "no-report"],
    ["deep JSON in an object", `{"a":${"[".repeat(2_000_000)}`, "too-deep"],
    ["JSON of megabytes", `{"a":"${"x".repeat(5 * 2 ** 20)}"}`, "too-large"],
    ["JSON that is no report", '{"hello":1}', "malformed"],
    ["nothing at all", "", "no-report"],
  ];
  test.each(hostile)("%s", async (_what, content, refusal) => {
    const startedAt = processorMs();
    expect(await readReport(Buffer.from(content), NOW)).toEqual({ ok: false, error: refusal });
    expect(processorMs() - startedAt).toBeLessThan(10_000);
  });

  test("more records than a report may have", async () => {
    const record = aggregateXml().match(/ {2}<record>[\s\S]*<\/record>\n/)![0];
    const xml = aggregateXml({ records: [] }).replace("</feedback>", `${record.repeat(20_001)}</feedback>`);
    expect(await readReport(Buffer.from(xml), NOW)).toEqual({ ok: false, error: "too-many-records" });
  });

  test("a message of many archives, each as large as a report may be", async () => {
    const archive = gzipSync(`<feedback>${"<a/>".repeat(4 * 2 ** 20 - 100)}</feedback>`);
    const part = reportMessage(archive).match(/--cut\r\nContent-Type: application\/gzip[\s\S]*?(?=--cut--)/)![0];
    const message = reportMessage(archive).replace("--cut--", `${part.repeat(100)}--cut--`);
    let turnsOfOthers = 0;
    const others = setInterval(() => turnsOfOthers++, 5);
    const startedAt = processorMs();
    expect(await readMessage(message)).toEqual({ ok: false, error: "too-large" });
    clearInterval(others);
    expect(processorMs() - startedAt).toBeLessThan(20_000);
    expect(turnsOfOthers).toBeGreaterThan(20);
  });

  test("text for people that begins like a report, again and again, within one budget", async () => {
    const text = `--cut\r\nContent-Type: text/plain\r\n\r\n<feedback>${"<a/>".repeat(60_000)}\r\n`;
    const message = reportMessage(gzipped(XML)).replace("--cut\r\n", `${text.repeat(20)}--cut\r\n`);
    expect(await readMessage(message)).toEqual({ ok: false, error: "too-large" });
    const few = reportMessage(gzipped(XML)).replace("--cut\r\n", `${text.repeat(2)}--cut\r\n`);
    expect(await readMessage(few)).toMatchObject({ ok: true });
  });

  test("what takes longer to read than a message may", async () => {
    const budget = { ...fullBudget(), readingMs: 0 };
    expect(await readReport(Buffer.from(XML), NOW, budget)).toEqual({ ok: false, error: "too-slow" });
  });

  test("names that are all different, of which none is kept", async () => {
    const names = Array.from({ length: 900_000 }, (_, i) => `<a${i.toString(16)}>x</a${i.toString(16)}>`);
    const keptBy = (reader: DmarcAggregateReader) => {
      const before = settledMemory().heapUsed;
      for (const name of names) reader.write(name);
      return settledMemory().heapUsed - before;
    };
    const reader = new DmarcAggregateReader();
    reader.write(XML.slice(0, XML.indexOf("</feedback>")));
    expect(keptBy(reader)).toBeLessThan(8 * 2 ** 20);
    reader.write("</feedback>");
    expect(reader.end(NOW)).toMatchObject({ ok: true, value: { rows: ROWS } });
  });

  test("JSON whose entries are all wrong", async () => {
    const startedAt = processorMs();
    const json = `{"policies":[${"{},".repeat(1_000_000)}{}]}`;
    expect(await readReport(Buffer.from(json), NOW)).toEqual({ ok: false, error: "too-many-records" });
    expect(processorMs() - startedAt).toBeLessThan(5_000);
  });

  test("blanks that could be base64", async () => {
    const startedAt = processorMs();
    expect(await readMessage(reportMessage(`${"A ".repeat(1_000_000)}!`, { encoding: "8bit" }))).toEqual({
      ok: false,
      error: "no-report",
    });
    expect(processorMs() - startedAt).toBeLessThan(5_000);
  });
});
