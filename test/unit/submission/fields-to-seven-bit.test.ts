import { simpleParser } from "mailparser";
import { describe, expect, it } from "vitest";
import { joinMessage, splitMessage } from "../../../services/core/mail/message.ts";
import { toSevenBit } from "../../../services/submission/to-seven-bit.ts";
import { processorMs } from "../../support/processor-time.ts";

const encode = (...lines: readonly string[]) => {
  const octets = joinMessage(toSevenBit(splitMessage(Buffer.from(lines.join("\r\n")))));
  return octets.toString("latin1");
};
const encodeField = (field: string | Buffer) => {
  const message = Buffer.concat([Buffer.from(field as string), Buffer.from("\r\n\r\nx\r\n")]);
  return joinMessage(toSevenBit(splitMessage(message)))
    .toString("latin1")
    .replace("\r\n\r\nx\r\n", "");
};

describe("header fields beyond ASCII", () => {
  it.each([
    ["Subject: El año", "Subject: El =?UTF-8?B?YcOxbw==?="],
    ["SUBJECT:  ñu y ñu ñu", "SUBJECT: =?UTF-8?B?w7F1?= y =?UTF-8?B?w7F1IMOxdQ==?="],
    [
      "Subject: =?utf-8?q?=C3=B1?= ñ =?utf-8?q?=C3=B1?=",
      "Subject: =?utf-8?q?=C3=B1?= =?UTF-8?B?IMOxIA==?= =?utf-8?q?=C3=B1?=",
    ],
    ["To: José Ñ <a@example.net>, b@example.net", "To: =?UTF-8?B?Sm9zw6kgw5E=?= <a@example.net>, b@example.net"],
    ['To: "Ñu, \\"q\\""<a@example.net>', "To: =?UTF-8?B?w5F1LCAicSI=?= <a@example.net>"],
    ["Cc: a@example.net (Ñ u)", "Cc: a@example.net (=?UTF-8?B?w5E=?= u)"],
    ["To: Ñus: a@example.net;", "To: =?UTF-8?B?w5F1cw==?= : a@example.net;"],
    ["Reply-To: <a@BÜCHER.example>", "Reply-To: <a@xn--bcher-kva.example>"],
    ["To: a@bücher.example", "To: a@xn--bcher-kva.example"],
    ["List-Id: Boletín <news.example.org>", "List-Id: =?UTF-8?B?Qm9sZXTDrW4=?= <news.example.org>"],
    ['Content-Type: text/plain; name="año.txt"', "Content-Type: text/plain; name*=UTF-8''a%C3%B1o.txt"],
    [
      "Content-Disposition: inline; filename=mi año; size=1",
      "Content-Disposition: inline; filename*=UTF-8''mi%20a%C3%B1o; size=1",
    ],
  ])("%s", (given, expected) => expect(encodeField(given)).toBe(expected));

  it.each([
    ["Subject: A\xf1o \x80 5", "", "Subject: =?UTF-8?B?QcOxbyDigqw=?= 5"],
    ["Subject: A\xf1o", "; charset=utf-8", "Subject: =?UTF-8?B?QcOxbw==?="],
    ["Subject: A\xf1os", "; charset=utf-16", "Subject: =?UTF-8?B?QcOxb3M=?="],
    ["Subject: \xb1", '; charset="ISO-8859-2"', "Subject: =?UTF-8?B?xIU=?="],
    ["Subject: \x93\xfa\x96{", "; charset=shift_jis", "Subject: =?UTF-8?B?5pel5pys?="],
    ['To: "\xf1u" <a@example.net>', "; charset=shift_jis", "To: =?UTF-8?B?w7F1?= <a@example.net>"],
  ])("read %j beside a Content-Type %j by its charset, else as Latin-1", (given, parameters, expected) => {
    const field = Buffer.from(`Content-Type: text/plain${parameters}\r\n${given}`, "latin1");
    expect(encodeField(field)).toBe(`Content-Type: text/plain${parameters}\r\n${expected}`);
  });

  it.each([
    ["what is plain", "Subject:  El  =?x?="],
    ["addresses that need SMTPUTF8", "From: Ñ <ñu@example.org>"],
    ["identifiers", "Message-ID: <ñ@example.org>"],
    ["URLs", "List-Unsubscribe: <https://example.org/ñ>"],
    ["identifiers that are not UTF-8", Buffer.from("Message-ID: <\xf1@example.org>", "latin1")],
    ["what the author's domain signed", "DKIM-Signature: v=1\r\nSubject: año"],
  ])("leave %s as it is", (_what, field) => {
    expect(encodeField(field)).toBe(Buffer.from(field as string).toString("latin1"));
  });

  it("read as they were meant, however long", async () => {
    const subject = "Año nuevo ☃ en España, ".repeat(40).trim();
    const octets = encode(`From: Íñigo <a@example.org>`, `Subject: ${subject}`, "", "x", "");
    expect(octets).toMatch(/^[\x00-\x7f]*$/);
    for (const line of octets.split("\r\n")) expect(line.length).toBeLessThanOrEqual(76);
    const message = await simpleParser(octets);
    expect(message.subject).toBe(subject);
    expect(message.from?.value).toEqual([{ name: "Íñigo", address: "a@example.org" }]);
  });

  it("of parts are encoded like the message's own", async () => {
    const octets = encode(
      ...["MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=b", "", "--b", ""],
      ...["text", "--b", 'Content-Disposition: attachment; filename="año.txt"', "", "x", "--b--", ""],
    );
    expect(octets).toMatch(/^[\x00-\x7f]*$/);
    expect((await simpleParser(octets)).attachments[0]?.filename).toBe("año.txt");
  });

  it("of what the author signed stay as they are", () => {
    const lines = ['Content-Type: multipart/signed; boundary="b"', "", "--b", "Subject: ñ", "", "x", "--b--", ""];
    expect(encode(...lines)).toBe(Buffer.from(lines.join("\r\n")).toString("latin1"));
  });

  it.each([
    ["words", "Subject: ", "é a "],
    ["mailboxes", "To: ", "é <a@example.org>, "],
    ["quotes that do not end", 'To: "', 'é\\"'],
    ["brackets that do not end", "To: ", "é<"],
    ["parameters", "Content-Type: text/plain", '; a="\\"é'],
  ])("cost no more than their length: %s", (_what, name, piece) => {
    const field = name + piece.repeat(50_000);
    const startedMs = processorMs();
    encodeField(field);
    expect(processorMs() - startedMs).toBeLessThan(5_000);
  });
});
