import { describe, expect, test } from "vitest";
import { DSN_ACTIONS } from "../../services/core/mail/bounce/dsn.ts";
import { BOUNCE_REASONS } from "../../services/core/mail/bounce/reason.ts";
import { type Finding, interpret } from "../../services/operations/mail/interpret.ts";
import { processorMs } from "../support/processor-time.ts";
import { fc } from "../support/property.ts";

const HARD_REASONS = ["userunknown", "hostunknown", "hasmoved", "notaccept"];

/** What holds for every finding, whatever the octets were. */
function expectLawful({ kind, results }: Finding): void {
  expect(["dsn", "arf", "vacation", "not-bounce"]).toContain(kind);
  if (kind === "vacation" || kind === "not-bounce") expect(results).toEqual([]);
  for (const result of results) {
    expect(DSN_ACTIONS).toContain(result.action);
    expect(BOUNCE_REASONS).toContain(result.reason);
    expect(result.status ?? "5.0.0").toMatch(/^[245]\.\d{1,3}\.\d{1,3}$/);
    expect(result.replycode ?? "550").toMatch(/^[45]\d\d$/);
    if (result.hard) expect([HARD_REASONS.includes(result.reason), result.action]).toEqual([true, "failed"]);
  }
}

const header = "From: MAILER-DAEMON@example.net\r\nSubject: Undelivered Mail Returned to Sender\r\n";
const pieces = [
  "\r\n",
  "\n",
  "\r",
  "--b\r\n",
  "--b--\r\n",
  "Content-Type: multipart/report; boundary=b\r\n",
  "Content-Type: message/rfc822\r\n",
  "Content-Type: message/delivery-status\r\n",
  "Content-Type: message/feedback-report\r\n",
  "Content-Type: text/html; charset=utf-16\r\n",
  "Content-Transfer-Encoding: base64\r\n",
  "Final-Recipient: rfc822; <u@example.org>\r\n",
  "Action: failed\r\n",
  "Status: 5.1.1\r\n",
  "Diagnostic-Code: smtp; 550 5.1.1 user unknown\r\n",
  "Feedback-Type: abuse\r\n",
  "User-Agent: x\r\n",
  "<u@example.org>: 550 no such user\r\n",
  "could not be delivered",
  "=?utf-8?b?////?=",
  "\u0000",
  "\xff\xfe",
  '{"notificationType":"Bounce"',
];

describe("any octets", () => {
  test("random ones", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 2000 }), async (octets) => expectLawful(await interpret(octets))),
      { numRuns: 300 },
    );
  });

  test("pieces of reports in any order", async () => {
    const messages = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 20 })), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(messages, fc.boolean(), async (parts, isDaemon) => {
        expectLawful(await interpret(Buffer.from((isDaemon ? header : "") + parts.join(""), "latin1")));
      }),
      { numRuns: 500 },
    );
  });
});

describe("hostile messages cost bounded time", () => {
  const filled = (head: string, filler: string, sizeOctets: number) =>
    Buffer.concat([Buffer.from(head, "latin1"), Buffer.alloc(sizeOctets, filler, "latin1")]);
  const status =
    "\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nFinal-Recipient: rfc822; u@example.org\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n--b--\r\n";
  const multipart = `${header}Content-Type: multipart/report; boundary=b\r\n\r\n`;
  const nested = Array.from(
    { length: 1000 },
    (_, depth) => `Content-Type: multipart/mixed; boundary=b${depth}\r\n\r\n--b${depth}\r\n`,
  );
  const html = `${header}Content-Type: text/html\r\n\r\n`;
  const fields = `${header}Content-Type: message/delivery-status\r\n\r\n`;
  const blanks = " ".repeat(200_000);
  const json = `${header}\r\n{"notificationType":`;
  const quotedPrintable = `${header}Content-Transfer-Encoding: quoted-printable\r\n\r\n`;

  test.each<[string, () => Buffer]>([
    ["multiparts nested 1,000 deep", () => Buffer.from(header + nested.join(""))],
    ["messages nested 1,000 deep", () => filled(header, "Content-Type: message/rfc822\r\n\r\n", 32_000)],
    [
      "the same boundary 1,000 deep",
      () => filled(header, "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n", 50_000),
    ],
    ["a body of 50 MB", () => filled(`${header}\r\n`, "a", 50_000_000)],
    ["50 MB of base64", () => filled(`${header}Content-Transfer-Encoding: base64\r\n\r\n`, "QUFB", 50_000_000)],
    ["50 MB of header fields", () => filled("", "X-A: b\r\n", 50_000_000)],
    ["one header field of 50 MB", () => filled("Subject: ", "a ", 50_000_000)],
    ["a million empty parts", () => filled(multipart, "--b\r\n\r\n", 7_000_000)],
    ["a million delimiters that are none", () => filled(multipart, "--bX\r\n", 6_000_000)],
    ["soft line breaks with blanks", () => filled(quotedPrintable, "=          ", 2_000_000)],
    ["open encoded words", () => filled("Subject: ", "=?", 200_000)],
    ["open parameters", () => filled("Content-Type: text/plain", '; a="', 200_000)],
    ["at signs", () => filled(`${header}\r\n`, "@", 500_000)],
    ["rulers", () => filled(`${header}\r\n`, "-", 500_000)],
    ["blank lines", () => filled(`${header}\r\n`, " \n", 500_000)],
    [
      "words that half match",
      () => filled(`${header}\r\n`, "account user mailbox recipient address host is not ", 500_000),
    ],
    [
      "ten thousand recipients",
      () => filled(`${header}\r\nThe following failed:\r\n`, "<u@example.org>: 550 no\r\n", 250_000),
    ],
    [
      "a recipient repeated a thousand times, beside a notice that half matches",
      () =>
        Buffer.from(
          `${multipart}--b\r\n\r\nu@example.org ${"quota mailbox over by a ".repeat(700)}\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n${"Final-Recipient: rfc822; u@example.org\r\nAction: failed\r\n\r\n".repeat(1000)}--b--\r\n`,
        ),
    ],
    [
      "a word of 16 KB below eight hundred recipients",
      () =>
        Buffer.from(
          `${header}\r\nThe following failed:\r\n${Array.from({ length: 800 }, (_, index) => `<u${index}@b.example>:\r\n`).join("")}${"a".repeat(16_000)}\r\n`,
        ),
    ],
    ["nested HTML", () => filled(html, "<div>", 500_000)],
    ["open HTML tags", () => filled(html, "<a <!--", 500_000)],
    ["deep JSON", () => filled(`${header}\r\n{"notificationType":`, "[", 200_000)],
    [
      "a diagnostic without end",
      () =>
        filled(
          `${header}Content-Type: message/delivery-status\r\n\r\nFinal-Recipient: rfc822; u@example.org\r\nDiagnostic-Code: `,
          "550 ",
          200_000,
        ),
    ],
    [
      "stars before an address, and blanks behind it",
      () => Buffer.from(`${header}\r\n${"*".repeat(127)}@b${" ".repeat(15_000)}x`),
    ],
    [
      "a sentence said again and again, a name, and blanks that no letter follows",
      () => Buffer.from(`${header}\r\n${"following".repeat(44)}\n abc${" ".repeat(15_000)}\u2003x`),
    ],
    ["a field of blanks that ends in a line separator", () => Buffer.from(`${fields}X-A:${blanks}\u2028x`)],
    ["an open bracket and blanks", () => Buffer.from(`${fields}Final-Recipient: rfc822;<${blanks}x`)],
    ["a recipient with blanks inside", () => Buffer.from(`${fields}Final-Recipient: rfc822;a${blanks}b`)],
    ["a recipient of quotes", () => Buffer.from(`${fields}Final-Recipient: rfc822;${'"'.repeat(200_000)}b`)],
    [
      "a notice that names each of hundreds of recipients in each of its characters",
      () =>
        Buffer.from(
          `${multipart}--b\r\n\r\n${"a".repeat(16_000)}\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n${Array.from({ length: 320 }, (_, index) => `Final-Recipient: rfc822; ${"a".repeat(index + 1)}\r\nAction: failed\r\n\r\n`).join("")}--b--\r\n`,
        ),
    ],
    ["JSON nested where a word is expected", () => Buffer.from(`${json}${"[".repeat(60_000)}${"]".repeat(60_000)}}`)],
    ["JSON that is no text and says so", () => Buffer.from(`${json}{"toString":1,"valueOf":1}}`)],
  ])("%s", async (_, make) => {
    const octets = make();
    const startedMs = processorMs();
    expectLawful(await interpret(octets));
    expect(processorMs() - startedMs).toBeLessThan(4000);
  });

  test("a report behind a part of 50 MB is still read", async () => {
    const octets = Buffer.concat([filled(`${multipart}--b\r\n\r\n`, "a", 50_000_000), Buffer.from(status)]);
    expect((await interpret(octets)).results).toMatchObject([
      { recipient: "u@example.org", reason: "userunknown", hard: true },
    ]);
  });
});
