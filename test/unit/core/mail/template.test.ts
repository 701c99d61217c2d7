import { type AddressObject, type ParsedMail, simpleParser } from "mailparser";
import { describe, expect, test } from "vitest";
import { type EmailAddress, validateAddress } from "../../../../services/core/mail/address.ts";
import { splitMessage } from "../../../../services/core/mail/message.ts";
import type { PersonalValues } from "../../../../services/core/mail/personalise.ts";
import {
  compileTemplate,
  type MessageRecipient,
  type MessageTemplate,
  renderMessage,
  withUnsubscribeLink,
} from "../../../../services/core/mail/template.ts";
import { settledMemory } from "../../../support/settled-memory.ts";

function address(text: string): EmailAddress {
  const result = validateAddress(text, { allowSmtputf8: true });
  if (!result.ok) throw new Error(result.error.message);
  return result.value;
}

const template: MessageTemplate = {
  from: { name: "Tienda Ñandú", address: address("ventas@shop.example.org") },
  subject: "Hola XYZNOMBREXYZ",
  html: "<html><body><h1>Hola XYZNOMBREXYZ</h1>\n<p>Tu color: <b>XYZCOLORXYZ</b></p></body></html>",
};

function values(entries: Partial<Record<keyof PersonalValues, Record<string, string>>>): PersonalValues {
  const map = (key: keyof PersonalValues) => new Map(Object.entries(entries[key] ?? {}));
  return {
    system: map("system"),
    customFields: map("customFields"),
    builtIns: map("builtIns"),
    globals: map("globals"),
  };
}

const recipient: MessageRecipient = {
  to: [{ name: "Ana Gómez", address: address("ana@example.net") }],
  messageId: "<abc@shop.example.org>",
  date: new Date("2026-03-01T12:00:00Z"),
  values: values({
    system: { DESUSC: "https://t.example.org/u/token" },
    customFields: { COLOR: "rojo & <negro>" },
    builtIns: { NOMBRE: "Añá" },
  }),
};

function render(changes: Partial<MessageTemplate> = {}, recipientChanges: Partial<MessageRecipient> = {}): Buffer {
  const compiled = compileTemplate({ ...template, ...changes });
  if (!compiled.ok) throw new Error(compiled.error);
  return renderMessage(compiled.value, { ...recipient, ...recipientChanges });
}

async function parse(message: Buffer): Promise<ParsedMail> {
  return simpleParser(message, { skipTextToHtml: true });
}

function texts(addresses: AddressObject | AddressObject[] | undefined): (string | undefined)[] {
  return [addresses ?? []].flat().flatMap(({ value }) => value.map(({ address: text }) => text));
}

function expectLawfulLines(message: Buffer): void {
  expect(message.toString("latin1").replaceAll("\r\n", "")).not.toMatch(/[\r\n\0\x80-\xFF]/);
  for (const line of message.toString("latin1").split("\r\n")) expect(line.length).toBeLessThanOrEqual(78);
}

describe("a message", () => {
  test("has its fields once, and both alternatives", async () => {
    const message = render();
    expectLawfulLines(message);
    expect(splitMessage(message).fields.map(({ name }) => name)).toEqual([
      "date",
      "message-id",
      "to",
      "subject",
      "from",
      "mime-version",
      "content-type",
    ]);
    const parsed = await parse(message);
    expect(parsed.from?.value).toEqual([{ name: "Tienda Ñandú", address: "ventas@shop.example.org" }]);
    expect(texts(parsed.to)).toEqual(["ana@example.net"]);
    expect(parsed.subject).toBe("Hola Añá");
    expect(parsed.date).toEqual(recipient.date);
    expect(parsed.messageId).toBe("<abc@shop.example.org>");
    expect(parsed.html).toContain("<h1>Hola Añá</h1>\n<p>Tu color: <b>rojo &amp; &lt;negro&gt;</b></p>");
    expect(parsed.text).toContain("Hola Añá");
    expect(parsed.text).toContain("Tu color: rojo & <negro>");
  });

  test("shows the addressees of all copies where it has some, and not each copy's own", async () => {
    const to = [{ name: "Otra", address: address("otra@example.net") }];
    expect(texts((await parse(render({ to }))).to)).toEqual(["otra@example.net"]);
  });

  test("is the same octets when it is rendered again", () => {
    expect(render()).toEqual(render());
  });

  test("carries Cc and Reply-To, and never Bcc", async () => {
    const message = render({
      replyTo: { name: "", address: address("respuestas@shop.example.org") },
      cc: [{ name: "Jefe", address: address("jefe@example.net") }],
    });
    const parsed = await parse(message);
    expect(texts(parsed.to)).toEqual(["ana@example.net"]);
    expect(texts(parsed.cc)).toEqual(["jefe@example.net"]);
    expect(texts(parsed.replyTo)).toEqual(["respuestas@shop.example.org"]);
    expect(parsed.headers.has("bcc")).toBe(false);
  });

  test("a given text alternative is personalised too", async () => {
    const parsed = await parse(render({ text: "XYZNOMBREXYZ: XYZCOLORXYZ" }));
    expect(parsed.text?.trim()).toBe("Añá: rojo & <negro>");
  });

  test("attachments come back octet for octet", async () => {
    const attachments = [
      {
        filename: "factura año 2026 «final».pdf",
        content: Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256)),
      },
      { filename: "empty.txt", content: Buffer.alloc(0) },
    ];
    const message = render({ attachments });
    expectLawfulLines(message);
    const parsed = await parse(message);
    expect(parsed.attachments.map(({ filename, contentType }) => [filename, contentType])).toEqual([
      ["factura año 2026 «final».pdf", "application/pdf"],
      ["empty.txt", "text/plain"],
    ]);
    expect(parsed.attachments[0]?.content).toEqual(attachments[0]?.content);
    expect(parsed.html).toContain("rojo");
  });

  test.each([
    "",
    "a",
    "Привет, XYZNOMBREXYZ: XYZCOLORXYZ, как дела? ",
    "<p>\r\n.\r\nFrom me\r</p>  ",
    "ñ".repeat(5000),
  ])("any body survives: %#", async (html) => {
    const message = render({ html, text: "-" });
    expectLawfulLines(message);
    const expected = html
      .replace(/\r\n?/g, "\n")
      .replace("XYZNOMBREXYZ", "Añá")
      .replace("XYZCOLORXYZ", "rojo &amp; &lt;negro&gt;");
    expect(((await parse(message)).html || "").trim()).toBe(expected.trim());
  });

  test("a contact's line breaks open no header and no body line of their own", async () => {
    const nasty = "Eve\r\nBcc: eve@example.net\r\n\r\n--=_alternative--";
    const message = render(
      {},
      { to: [{ name: nasty, address: address("ana@example.net") }], values: values({ builtIns: { NOMBRE: nasty } }) },
    );
    const parsed = await parse(message);
    expect(parsed.headers.has("bcc")).toBe(false);
    expect(parsed.subject).toBe("Hola Eve Bcc: eve@example.net --=_alternative--");
    expect(parsed.html).toContain("--=_alternative--");
    expect(parsed.html).toContain("</body></html>");
  });

  test("international addresses: A-labels, or UTF-8 where the local part needs it", async () => {
    const from = { name: "", address: address("ventas@ñandú.example") };
    expect(render({ from }).toString("latin1")).toContain("From: ventas@xn--and-6ma2c.example\r\n");
    const to = [{ name: "", address: address("añá@ñandú.example") }];
    expect(render({}, { to }).toString("utf8")).toContain("To: añá@ñandú.example\r\n");
  });
});

describe("unsubscribing", () => {
  test("adds both fields and a link", async () => {
    const parsed = await parse(render({ unsubscribe: true }));
    const raw = render({ unsubscribe: true }).toString("latin1");
    expect(raw).toContain("List-Unsubscribe: <https://t.example.org/u/token>\r\n");
    expect(raw).toContain("List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n");
    expect(parsed.html).toContain('<a href="https://t.example.org/u/token">Cancelar suscripción</a></p></body></html>');
    expect(parsed.text).toContain("https://t.example.org/u/token");
  });

  test("uses the author's own link where there is one", () => {
    const html = '<a href="XYZDESUSCXYZ">baja</a>';
    expect(withUnsubscribeLink(html)).toBe(html);
    expect(withUnsubscribeLink("<p>Hola")).toMatch(/^<p>Hola<p .*XYZDESUSCXYZ.*<\/p>$/);
  });

  test("stands before the last of a page's ends, however many there are, and takes no memory for each", () => {
    const { heapUsed } = settledMemory();
    const html = withUnsubscribeLink("</body".repeat(2 ** 20));
    expect(process.memoryUsage().heapUsed - heapUsed).toBeLessThan(64 * 2 ** 20);
    expect(html).toMatch(/<\/p><\/body$/);
    expect(withUnsubscribeLink("<BODY>Hola</BODY></html>")).toMatch(/^<BODY>Hola<p .*<\/p><\/BODY><\/html>$/);
  });

  test("is absent when not asked for", () => {
    expect(render().toString("latin1")).not.toMatch(/unsubscribe/i);
  });

  test("without the recipient's URL it is a bug of the caller", () => {
    expect(() => render({ unsubscribe: true }, { values: values({}) })).toThrow(/unsubscribe URL/);
  });
});

describe("refusals", () => {
  const { address: sender } = template.from;
  test.each<[Partial<MessageTemplate>, string]>([
    [{ from: { name: "Tienda\r\nBcc: eve@example.net", address: sender } }, "from"],
    [{ replyTo: { name: "a\nb", address: sender } }, "replyTo"],
    [{ subject: "a\r\nBcc: eve@example.net" }, "subject"],
    [{ subject: "a\0b" }, "subject"],
    [{ attachments: [{ filename: "a\r\nX: y", content: Buffer.alloc(1) }] }, "attachments"],
  ])("%j", (changes, refusal) => {
    expect(compileTemplate({ ...template, ...changes })).toEqual({ ok: false, error: refusal });
  });
});
