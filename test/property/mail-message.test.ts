import { simpleParser } from "mailparser";
import { expect, test } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { toCrlf } from "../../services/core/mail/mime.ts";
import type { PersonalValues } from "../../services/core/mail/personalise.ts";
import { compileTemplate, renderMessage } from "../../services/core/mail/template.ts";
import { fc } from "../support/property.ts";

function address(text: string) {
  const result = validateAddress(text, { allowSmtputf8: false });
  if (!result.ok) throw new Error(result.error.message);
  return result.value;
}

const from = address("ventas@example.org");
const to = address("ana@example.net");

/** Text of every script; lone surrogates are no Unicode, and UTF-8 cannot carry them. */
const unicode = fc.string({ unit: "grapheme", maxLength: 200 });
const awkward = fc
  .array(
    fc.constantFrom(
      " ",
      "  ",
      "\t",
      "\r\n",
      "\n",
      "\r",
      ".",
      "From ",
      "=",
      "=3D",
      "=\r\n",
      "--=_alternative",
      "XYZAXYZ",
      "XYZBXYZ",
      "XYZ",
      "ñ",
      "中文",
      "<b>",
      "&amp;",
      "\0",
      "x".repeat(70),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(""));
const body = fc.oneof(unicode, awkward);
const headerText = unicode.map((text) => text.replace(/[\x00-\x1F\x7F\u2028\u2029]/g, ""));

function personal(a: string, b: string): PersonalValues {
  return {
    system: new Map(),
    customFields: new Map([
      ["A", a],
      ["B", b],
    ]),
    builtIns: new Map(),
    globals: new Map(),
  };
}

function filledIn(text: string, a: string, b: string): string {
  // Each piece has its own line breaks: a CR before a value that begins with LF is two.
  return toCrlf(text).replace(/XYZ([\p{L}\p{N}_-]+?)XYZ/gu, (_, name) =>
    name === "A" ? toCrlf(a) : name === "B" ? toCrlf(b) : "",
  );
}

/** A parser may add one line break at the end of a part, and may show CRLF as LF. */
function comparable(text: string): string {
  return toCrlf(text).replaceAll("\r\n", "\n").replace(/\n$/, "");
}

test("what is put into a message comes out of it, in lines that any relay takes", async () => {
  await fc.assert(
    fc.asyncProperty(body, body, body, headerText, headerText, async (text, a, b, name, filename) => {
      const attachments = filename.trim() === "" ? [] : [{ filename, content: Buffer.from(text, "utf8") }];
      const compiled = compileTemplate({
        from: { name, address: from },
        subject: name,
        html: "<p>-</p>",
        text,
        attachments,
      });
      if (!compiled.ok) throw new Error(compiled.error);
      const message = renderMessage(compiled.value, {
        to: [{ name, address: to }],
        messageId: "<a@example.org>",
        date: new Date(0),
        values: personal(a, b),
      });

      expect(message.toString("latin1").replaceAll("\r\n", "")).not.toMatch(/[\r\n\0\x80-\xFF]/);
      for (const line of message.toString("latin1").split("\r\n")) expect(line.length).toBeLessThanOrEqual(78);
      const parsed = await simpleParser(message);
      expect(comparable(parsed.text ?? "")).toBe(comparable(filledIn(text, a, b)));
      expect(parsed.from?.value).toHaveLength(1);
      expect(parsed.from?.value[0]?.address).toBe("ventas@example.org");
      expect(parsed.from?.value[0]?.name.trim()).toBe(name.trim());
      expect(parsed.attachments.map(({ filename, content }) => ({ filename, content }))).toEqual(
        attachments.map(({ content }) => ({ filename: withoutFolders(filename), content })),
      );
    }),
    { numRuns: 500 },
  );
});

test("a subject comes out as it went in", async () => {
  await fc.assert(
    fc.asyncProperty(headerText, async (subject) => {
      fc.pre(!/XYZ/.test(subject));
      const compiled = compileTemplate({ from: { name: "", address: from }, subject, html: "" });
      if (!compiled.ok) throw new Error(compiled.error);
      const message = renderMessage(compiled.value, {
        to: [{ name: "", address: to }],
        messageId: "<a@example.org>",
        date: new Date(0),
        values: personal("", ""),
      });
      const parsed = await simpleParser(message);
      expect(parsed.subject ?? "").toBe(subject.trim());
    }),
    { numRuns: 500 },
  );
});

/** A name is no path; one that would be a folder's is none. */
function withoutFolders(filename: string): string {
  const last = filename.split(/[/\\]/).findLast((part) => part !== "") ?? "";
  return last.replaceAll(".", "") === "" ? "attachment" : last;
}
