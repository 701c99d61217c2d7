import { isAscii } from "node:buffer";
import { describe, expect, test } from "vitest";
import { validateAddress } from "../../../../services/core/mail/address.ts";
import {
  composeReport,
  type ReportContent,
  type ReportedRecipient,
  statusOf,
} from "../../../../services/core/mail/delivery-report.ts";
import { interpret } from "../../../../services/operations/mail/interpret.ts";

const addressOf = (text: string) => {
  const address = validateAddress(text, { allowSmtputf8: true });
  if (!address.ok) throw new Error(text);
  return address.value;
};
const at = new Date("2026-03-01T00:00:00Z");
const recipient = {
  action: "failed",
  recipient: "jane@example.net",
  dsn: null,
  words: "550 5.1.1 no such user",
  reported: null,
  at,
} as const;
const content: ReportContent = {
  ...{ kind: "failure", language: "en", hostname: "mx.example.org", to: addressOf("info@example.org") },
  ...{
    international: false,
    request: {},
    acceptedAt: at,
    retryUntil: at,
    recipients: [recipient],
    date: at,
    id: "0123",
  },
  returned: { octets: Buffer.from("Subject: Hi\r\nMessage-ID: <1@example.org>\r\n\r\nHi\r\n"), isWhole: true },
};

test.each([
  ["failed", "550 5.1.1 no such user", "5.1.1"],
  ["failed", "550 no such user", "5.0.0"],
  ["failed", "450 4.2.1 come again", "4.4.7"],
  ["failed", "Connection timeout", "4.4.7"],
  ["delayed", "450 4.2.1 come again", "4.2.1"],
  ["delayed", "Connection timeout", "4.4.1"],
  ["delayed", "", "4.0.0"],
  ["relayed", "250 2.6.0 queued", "2.6.0"],
  ["delivered", "250 OK", "2.0.0"],
] as const)("%s by %j has the status %s", (action, words, status) => {
  expect(statusOf({ action, words, reported: null })).toBe(status);
});

test.each([
  ["en", "It is tried until Wednesday, December 2, 2026 at 10:00 UTC."],
  ["es", "Se intenta hasta el mi=C3=A9rcoles, 2 de diciembre de 2026, 10:00 UTC."],
] as const)("a delay says in its language until when it is tried: %s", (language, words) => {
  const retryUntil = new Date("2026-12-02T10:00:00Z");
  const text = composeReport({ ...content, kind: "delay", language, retryUntil }).toString();
  expect(text.replaceAll("=\r\n", "")).toContain(words);
});

describe("what another mail system reported", () => {
  const told = (reported: ReportedRecipient["reported"], one: Partial<ReportedRecipient>) =>
    composeReport({ ...content, recipients: [{ ...recipient, ...one, reported }] }).toString();

  test("keeps the type of its Diagnostic-Code, and is no answer of ours", () => {
    const text = told({ status: "5.2.1", diagnosticType: "X-Postfix" }, { words: "account disabled" });
    expect(text).toContain("Status: 5.2.1\r\nDiagnostic-Code: X-Postfix; account disabled\r\n");
    expect(text).toContain("    Details: account disabled\r\n");
    expect(text).not.toContain("The answer was");
  });

  test("is told to people alone where it has none", () => {
    const words = "mailbox is full: retry timeout exceeded";
    const text = told({ status: null, diagnosticType: null }, { words });
    expect(text).toContain(`    Details: ${words}\r\n`);
    expect(text).toContain("Status: 5.0.0\r\n");
    expect(text).not.toContain("Diagnostic-Code");
  });

  test("is an answer where it is one", () => {
    const words = "550 5.1.1 no such user";
    expect(told({ status: "5.1.1", diagnosticType: "smtp" }, { words })).toContain(
      `Diagnostic-Code: smtp; ${words}\r\n`,
    );
    expect(told({ status: "5.1.1", diagnosticType: null }, { words })).toContain(`The answer was: ${words}\r\n`);
  });

  test.each([
    ["failed", "4.4.7", "4.4.7"],
    ["failed", "2.0.0", "5.0.0"],
    ["delayed", "5.1.1", "4.0.0"],
    ["delivered", "2.1.5", "2.1.5"],
    ["relayed", "4.0.0", "2.0.0"],
  ] as const)("%s with the status %s is told with %s", (action, status, told) => {
    expect(statusOf({ action, words: "", reported: { status, diagnosticType: null } })).toBe(told);
  });
});

test.each(["en", "es"] as const)(
  "in %s it is 7-bit, its lines are short, and our own reader understands it",
  async (language) => {
    for (const kind of ["failure", "delay", "success"] as const) {
      const action = ({ failure: "failed", delay: "delayed", success: "relayed" } as const)[kind];
      const words = { failure: "550 5.1.1 no such user", delay: "450 4.2.2 full", success: "250 2.0.0 OK" }[kind];
      const report = composeReport({ ...content, kind, language, recipients: [{ ...recipient, action, words }] });
      expect(isAscii(report)).toBe(true);
      expect(
        Math.max(
          ...report
            .toString()
            .split("\r\n")
            .map((line) => line.length),
        ),
      ).toBeLessThanOrEqual(76);
      const { kind: found, results } = await interpret(report);
      expect(found).toBe("dsn");
      expect(results).toMatchObject([{ recipient: "jane@example.net", action }]);
    }
  },
);

test("what strangers say adds no field and no line, however long it is", async () => {
  const words = `550 5.1.1 a\r\nAction: delivered\r\n\r\n--=_report_0123--\r\n${"x".repeat(5_000)} é`;
  const report = composeReport({ ...content, recipients: [{ ...recipient, words }] }).toString();
  expect(report.match(/^Action: /gm)).toEqual(["Action: "]);
  expect(report.match(/^--=_report_0123--\r$/gm)).toHaveLength(1);
  expect(Math.max(...report.split("\r\n").map((line) => line.length))).toBeLessThan(998);
});

describe("addresses beyond ASCII", () => {
  const rené = {
    ...recipient,
    recipient: "rené@bücher.example",
    dsn: { originalRecipient: "utf-8;ren\\x{E9}@example.net" },
  };

  test("are spelt in ASCII for a sender that does not speak SMTPUTF8", async () => {
    const report = composeReport({ ...content, recipients: [rené] });
    expect(report.toString()).toContain("Final-Recipient: utf-8; ren\\x{E9}@xn--bcher-kva.example\r\n");
    expect(report.toString()).toContain("Original-Recipient: utf-8; ren\\x{E9}@example.net\r\n");
    expect(report.toString()).toContain("Content-Type: message/delivery-status\r\n");
    expect((await interpret(report)).results).toMatchObject([{ recipient: "rené@xn--bcher-kva.example" }]);
  });

  test("stand as they are, in the types of RFC 6533, for one that does", async () => {
    const report = composeReport({ ...content, international: true, recipients: [rené] });
    expect(isAscii(report)).toBe(true);
    expect(report.toString()).toContain("Content-Type: message/global-delivery-status\r\n");
    expect(report.toString()).toContain("Content-Type: message/global-headers\r\n");
    expect((await interpret(report)).results).toMatchObject([
      { recipient: "rené@xn--bcher-kva.example", action: "failed" },
    ]);
  });

  test("of the sender itself stand in the header", () => {
    const to = addressOf("rené@example.org");
    const report = composeReport({ ...content, international: true, to });
    expect(report.toString("utf8")).toContain("To: rené@example.org\r\n");
  });
});

test("of a message that is not all there the header comes back, up to its last whole field", () => {
  const octets = Buffer.from("Subject: Hi\r\nX-Cut: in the mid");
  const text = composeReport({
    ...content,
    request: { returns: "full" },
    returned: { octets, isWhole: false },
  }).toString();
  expect(text).toContain("Content-Type: text/rfc822-headers\r\n");
  expect(text).toContain("Subject: Hi\r\n");
  expect(text).not.toContain("X-Cut");
});

test("of a message that was erased nothing comes back", () => {
  const text = composeReport({ ...content, returned: { octets: Buffer.alloc(0), isWhole: true } }).toString();
  expect(text).not.toMatch(/rfc822-headers|message\/rfc822/);
});
