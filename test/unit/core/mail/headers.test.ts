import { describe, expect, test } from "vitest";
import { type EmailAddress, validateAddress } from "../../../../services/core/mail/address.ts";
import {
  headerDate,
  isHeaderSafe,
  mailboxField,
  plainField,
  textField,
  toHeaderText,
} from "../../../../services/core/mail/headers.ts";

function address(text: string): EmailAddress {
  const result = validateAddress(text, { allowSmtputf8: true });
  if (!result.ok) throw new Error(result.error.message);
  return result.value;
}

describe("text fields", () => {
  test.each([
    ["plain ASCII stays", "Your order", "Subject: Your order\r\n"],
    ["an empty subject", "", "Subject: \r\n"],
    ["mostly ASCII becomes Q", "Confirmación de compra", "Subject: =?UTF-8?Q?Confirmaci=C3=B3n_de_compra?=\r\n"],
    ["mostly other becomes B", "Привет", "Subject: =?UTF-8?B?0J/RgNC40LLQtdGC?=\r\n"],
    ["what looks encoded is encoded", "=?UTF-8?Q?a?=", "Subject: =?UTF-8?Q?=3D=3FUTF-8=3FQ=3Fa=3F=3D?=\r\n"],
    ["double spaces survive", "a  b", "Subject: =?UTF-8?Q?a__b?=\r\n"],
    ["a tab survives", "a\tb", "Subject: =?UTF-8?Q?a=09b?=\r\n"],
  ])("%s", (_, text, field) => {
    expect(textField("Subject", text)).toBe(field);
  });

  test("long ASCII folds between words", () => {
    const field = textField("Subject", "word ".repeat(40).trim());
    expect(field.split("\r\n").every((line) => line.length <= 76)).toBe(true);
    expect(field.replaceAll("\r\n ", " ")).toBe(`Subject: ${"word ".repeat(40).trim()}\r\n`);
  });

  test.each(["x".repeat(2000), "ñ".repeat(500), "中".repeat(300), "😀".repeat(100), "añ ".repeat(200).trim()])(
    "lines with encoded words have 76 characters at most: %#",
    (text) => {
      const lines = textField("Subject", text).trimEnd().split("\r\n");
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(76);
      const decoded = lines
        .map((line) => /=\?UTF-8\?([QB])\?(.*)\?=$/.exec(line) as RegExpExecArray)
        .map(([, encoding, body = ""]) =>
          encoding === "B"
            ? Buffer.from(body, "base64").toString("utf8")
            : decodeURIComponent(body.replaceAll("_", " ").replaceAll("%", "%25").replace(/=(..)/g, "%$1")),
        );
      expect(decoded.join("")).toBe(text);
      expect(decoded.every((word) => !word.includes("\uFFFD"))).toBe(true);
    },
  );

  test.each(["a\r\nBcc: eve@example.net", "a\nb", "a\rb", "a\0b"])("%j cannot be written", (text) => {
    expect(isHeaderSafe(text)).toBe(false);
    expect(() => textField("Subject", text)).toThrow(RangeError);
    expect(() => plainField("X-Id", text)).toThrow(RangeError);
    expect(() => mailboxField("To", [{ name: text, address: address("ana@example.org") }])).toThrow(RangeError);
  });
});

describe("mailbox fields", () => {
  test.each([
    ["", "To: ana@example.org\r\n"],
    ["Ana Gomez", "To: Ana Gomez <ana@example.org>\r\n"],
    ["Gomez, Ana", 'To: "Gomez, Ana" <ana@example.org>\r\n'],
    ['Ana "la jefa" \\', 'To: "Ana \\"la jefa\\" \\\\" <ana@example.org>\r\n'],
    ["eve@example.net", 'To: "eve@example.net" <ana@example.org>\r\n'],
    ["a@b.example>, <eve@example.net", 'To: "a@b.example>, <eve@example.net" <ana@example.org>\r\n'],
    ["Ana Gómez", "To: =?UTF-8?Q?Ana_G=C3=B3mez?= <ana@example.org>\r\n"],
    ["Gómez, Ana", "To: =?UTF-8?Q?G=C3=B3mez=2C_Ana?= <ana@example.org>\r\n"],
  ])("name %j", (name, field) => {
    expect(mailboxField("To", [{ name, address: address("ana@example.org") }])).toBe(field);
  });

  test("a list is parted by commas and folded between mailboxes", () => {
    const mailboxes = Array.from({ length: 8 }, (_, i) => ({
      name: "",
      address: address(`recipient${i}@example.org`),
    }));
    const field = mailboxField("Cc", mailboxes);
    expect(field.split("\r\n").every((line) => line.length <= 76)).toBe(true);
    expect(field.replaceAll("\r\n ", " ")).toBe(`Cc: ${mailboxes.map((m) => m.address.text).join(", ")}\r\n`);
  });

  test("the domain goes as A-labels, unless the local part needs SMTPUTF8 anyway", () => {
    expect(mailboxField("To", [{ name: "", address: address("ana@bücher.example") }])).toBe(
      "To: ana@xn--bcher-kva.example\r\n",
    );
    expect(mailboxField("To", [{ name: "", address: address("añá@bücher.example") }])).toBe(
      "To: añá@bücher.example\r\n",
    );
  });
});

test("dates are in UTC with a numeric zone", () => {
  expect(headerDate(new Date("2026-03-01T09:05:07.999Z"))).toBe("Sun, 01 Mar 2026 09:05:07 +0000");
});

test("a contact's data is made fit for a header", () => {
  expect(toHeaderText(" Ana\r\nBcc: eve@example.net\0\u2028")).toBe("Ana Bcc: eve@example.net");
});
