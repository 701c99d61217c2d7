import { describe, expect, test } from "vitest";
import {
  attachmentPart,
  encodeBase64Lines,
  encodeQuotedPrintable,
  encodeQuotedPrintableSteps,
  isAttachmentSafe,
  parameter,
  prefersBase64,
  toCrlf,
} from "../../../../services/core/mail/mime.ts";

describe("quoted-printable", () => {
  test.each([
    ["plain", "plain"],
    ["", ""],
    ["a=b", "a=3Db"],
    ["ñ", "=C3=B1"],
    ["a \r\nb\t\r\n", "a=20\r\nb=09\r\n"],
    ["ends with space ", "ends with space=20"],
    [".\r\n..a", "=2E\r\n=2E.a"],
    ["From here\r\nFrom there, Fro", "=46rom here\r\n=46rom there, Fro"],
    ["a\0b", "a=00b"],
  ])("%j", (text, encoded) => {
    expect(encodeQuotedPrintable(text).octets.toString("latin1")).toBe(encoded);
  });

  test("long lines get soft breaks and never exceed 76 characters", () => {
    const encoded = encodeQuotedPrintable(`${"x".repeat(200)}${"ñ".repeat(100)}\r\n.${"=".repeat(90)}`);
    const lines = encoded.octets.toString("latin1").split("\r\n");
    expect(Math.max(...lines.map((line) => line.length))).toBe(76);
    expect(encoded.endColumn).toBe(lines.at(-1)?.length);
  });

  test("every kind of line break becomes CRLF", () => {
    expect(encodeQuotedPrintable("a \nb\rc\r\n\n\r.d\r").octets.toString("latin1")).toBe(
      "a=20\r\nb\r\nc\r\n\r\n\r\n=2Ed\r\n",
    );
  });

  test("a text of megabytes is encoded in steps, and becomes the same, wherever they part it", () => {
    for (const piece of ["a \r\n.From ñ=\n", "x", "From here\r", "\n", "é \t"]) {
      for (const before of ["", "a", "ab"]) {
        const text = before + piece.repeat(300_000 / piece.length);
        const steps = encodeQuotedPrintableSteps(text, 3);
        let count = 0;
        let step = steps.next();
        for (; !step.done; step = steps.next()) count += 1;
        expect(count).toBeGreaterThan(3);
        const whole = encodeQuotedPrintable(text, 3);
        expect(step.value.endColumn).toBe(whole.endColumn);
        expect(step.value.octets.equals(whole.octets)).toBe(true);
      }
    }
  });

  test("goes on in the column where an earlier chunk ended", () => {
    expect(encodeQuotedPrintable("xy", 74).octets.toString("latin1")).toBe("x=\r\ny");
    expect(encodeQuotedPrintable(".", 1).octets.toString("latin1")).toBe(".");
  });
});

test("every kind of line break becomes CRLF", () => {
  expect(toCrlf("a\nb\r\nc\rd\n\re\r\r\n")).toBe("a\r\nb\r\nc\r\nd\r\n\r\ne\r\n\r\n");
});

test("base64 lines have 76 characters and end with CRLF", () => {
  expect(encodeBase64Lines(Buffer.alloc(0)).toString()).toBe("");
  expect(encodeBase64Lines(Buffer.alloc(58)).toString()).toBe(`${"A".repeat(76)}\r\nAA==\r\n`);
});

test("base64 is for texts that are mostly beyond ASCII", () => {
  expect(prefersBase64("Confirmación de su pedido, señor Muñoz")).toBe(false);
  expect(prefersBase64("Привет")).toBe(true);
});

describe("parameters", () => {
  test.each([
    ["invoice.pdf", 'filename="invoice.pdf"'],
    ['a "b" \\.txt', 'filename="a \\"b\\" \\\\.txt"'],
    ["=?utf-8?q?x?=.txt", "filename*=UTF-8''%3D%3Futf-8%3Fq%3Fx%3F%3D.txt"],
    ["año.pdf", "filename*=UTF-8''a%C3%B1o.pdf"],
    ["报告.pdf", "filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf"],
    ["a'b\u00F1%;.txt", "filename*=UTF-8''a%27b%C3%B1%25%3B.txt"],
  ])("%j", (value, expected) => {
    expect(parameter("filename", value)).toBe(expected);
  });

  test("a long value is cut into sections, never within a character", () => {
    const value = `${"ñ".repeat(60)}.pdf`;
    const sections = parameter("filename", value).split("; ");
    expect(sections[0]).toMatch(/^filename\*0\*=UTF-8''/);
    expect(sections[1]).toMatch(/^filename\*1\*=%C3%B1/);
    const joined = sections.map((section) => section.replace(/^[^=]+=(UTF-8'')?/, "")).join("");
    expect(decodeURIComponent(joined)).toBe(value);
    for (const section of sections) expect(() => decodeURIComponent(section.split("=")[1] ?? "")).not.toThrow();
  });
});

describe("attachments", () => {
  const part = (filename: string, contentType?: string, content = Buffer.from("x")) =>
    attachmentPart({ filename, content, ...(contentType && { contentType }) }).toString("latin1");

  test("a whole part", () => {
    expect(part("a.pdf")).toBe(
      "Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n" +
        'Content-Disposition: attachment; filename="a.pdf"\r\n\r\neA==\r\n',
    );
  });

  test.each([
    ["a.PNG", undefined, "image/png"],
    ["noextension", undefined, "application/octet-stream"],
    ["a.constructor", undefined, "application/octet-stream"],
    ["a.bin", "text/calendar", "text/calendar; charset=utf-8"],
    ["a.txt", "text/plain; charset=iso-8859-1", "text/plain; charset=iso-8859-1"],
    ["a.eml", undefined, "application/octet-stream"],
    ["a.bin", "multipart/mixed", "application/octet-stream"],
  ])("%s given as %s is %s", (filename, contentType, expected) => {
    expect(part(filename, contentType)).toMatch(new RegExp(`^Content-Type: ${expected}\r\n`));
  });

  const calendar = (lines: string) => `BEGIN:VCALENDAR\r\n${lines}SUMMARY:Reunión\r\nEND:VCALENDAR\r\n`;
  test.each<[string, string | undefined, Buffer | string, string]>([
    ["a.txt", undefined, "niño", "text/plain; charset=utf-8"],
    ["a.html", undefined, "<p>niño", "text/html; charset=utf-8"],
    ["a.csv", undefined, "niño", "text/csv; charset=utf-8"],
    ["a.csv", 'text/csv; header="x; charset=y"', "niño", 'text/csv; header="x; charset=y"; charset=utf-8'],
    ["a.txt", "text/plain;Charset=utf-8", "niño", "text/plain;Charset=utf-8"],
    ["a.txt", undefined, Buffer.from("niño", "latin1"), "text/plain"],
    ["a.txt", undefined, "nino", "text/plain"],
    ["a.json", undefined, "niño", "application/json"],
    ["a.ics", undefined, calendar(""), "text/calendar; charset=utf-8"],
    ["a.ics", undefined, calendar("METHOD:REQUEST\r\n"), "text/calendar; method=REQUEST; charset=utf-8"],
    ["a.ics", undefined, calendar("METHOD;X=y:REQ\r\n UEST\r\n"), "text/calendar; method=REQUEST; charset=utf-8"],
    ["a.ics", undefined, calendar("METHOD:A;b=c\r\n"), "text/calendar; charset=utf-8"],
    ["a.ics", undefined, calendar("DESCRIPTION:x\\n\r\n METHOD:REPLY\r\n"), "text/calendar; charset=utf-8"],
    ["a.ics", undefined, calendar("METHOD:ADD\n") + calendar("METHOD:REPLY\n"), "text/calendar; charset=utf-8"],
    ["a.ics", "text/calendar; method=REPLY", calendar("METHOD:ADD\n"), "text/calendar; method=REPLY; charset=utf-8"],
  ])("%s given as %s, %j: %s", (filename, contentType, content, expected) => {
    expect(part(filename, contentType, Buffer.from(content)).split("\r\n", 1)).toEqual([`Content-Type: ${expected}`]);
  });

  test.each([
    ["../../etc/passwd", "passwd"],
    ["C:\\temp\\x.exe", "x.exe"],
    ["folder/", "folder"],
    ["..", "attachment"],
    ["/", "attachment"],
    ["..hidden", "..hidden"],
  ])("the name %s is %s", (filename, expected) => {
    expect(part(filename)).toContain(`Content-Disposition: attachment; filename="${expected}"\r\n`);
  });

  test.each([
    [{ filename: "a.pdf" }, true],
    [{ filename: "" }, false],
    [{ filename: "a\r\nX: y" }, false],
    [{ filename: "a.pdf", contentType: "text/html\r\nX: y" }, false],
    [{ filename: "a.pdf", contentType: "nonsense" }, false],
    [{ filename: "a.txt", contentType: 'text/plain;charset=utf-8; name="a \\" b"' }, true],
    [{ filename: "a.txt", contentType: "text/plain; charset" }, false],
    [{ filename: "a.txt", contentType: 'text/plain; name="a\r\nX: y"' }, false],
  ])("%j may stand in a header: %s", (attachment, safe) => {
    expect(isAttachmentSafe({ content: Buffer.alloc(0), ...attachment })).toBe(safe);
  });
});
