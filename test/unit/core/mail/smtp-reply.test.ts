import { describe, expect, test } from "vitest";
import { describeSmtpReply, formatSmtpReply, parseSmtpReply } from "../../../../services/core/mail/smtp-reply.ts";
import { processorMs } from "../../../support/processor-time.ts";

describe("reading a reply", () => {
  test("one line with an enhanced status", () => {
    expect(parseSmtpReply("550 5.1.1 No such user\r\n")).toEqual({
      code: 550,
      enhancedStatus: "5.1.1",
      lines: ["No such user"],
    });
  });

  test("several lines, the status on each", () => {
    expect(parseSmtpReply("550-5.7.1 Refused:\r\n550-5.7.1 see\r\n550 5.7.1 https://example.org/")).toEqual({
      code: 550,
      enhancedStatus: "5.7.1",
      lines: ["Refused:", "see", "https://example.org/"],
    });
  });

  test("a status of another class is text", () => {
    expect(parseSmtpReply("250 4.9.3 is our version")).toEqual({ code: 250, lines: ["4.9.3 is our version"] });
  });

  test.each([
    ["250", { code: 250, lines: [""] }],
    ["421 4.3.2", { code: 421, enhancedStatus: "4.3.2", lines: [""] }],
    ["250-first\nsecond", { code: 250, lines: ["first", "second"] }],
  ])("%j", (text, reply) => {
    expect(parseSmtpReply(text)).toEqual(reply);
  });

  test.each(["", "hello", "999 odd", "5501 odd", "-550"])("%j is no reply", (text) => {
    expect(parseSmtpReply(text)).toBeUndefined();
  });

  test("a megabyte of blanks costs what its length does", () => {
    const startedMs = processorMs();
    expect(parseSmtpReply(`550 a${" ".repeat(2 ** 20)}b`)?.code).toBe(550);
    expect(processorMs() - startedMs).toBeLessThan(4000);
  });
});

describe("writing a reply", () => {
  test.each([
    [{ code: 250, enhancedStatus: "2.0.0" as const, lines: ["Ok"] }, "250 2.0.0 Ok\r\n"],
    [{ code: 250, lines: ["mx.example.org", "SIZE 100"] }, "250-mx.example.org\r\n250 SIZE 100\r\n"],
    [{ code: 354, lines: [] }, "354\r\n"],
  ])("%j", (reply, text) => {
    expect(formatSmtpReply(reply)).toBe(text);
  });

  test("no text can add a line", () => {
    expect(formatSmtpReply({ code: 550, lines: ["no\r\n250 yes\0"] })).toBe("550 no 250 yes\r\n");
  });

  test.each([
    ["clave robada ñ, Ångström", "clave robada n, Angstrom"],
    ["one\u2028two\u2029three\u00a0four\u0085five", "one two three four?five"],
    ["ﬁn… 密 😀", "fin... ? ?"],
  ])("%j is written in ASCII", (text, written) => {
    expect(formatSmtpReply({ code: 451, lines: [text] })).toBe(`451 ${written}\r\n`);
  });

  test("what is written reads as the same reply", () => {
    const reply = { code: 452, enhancedStatus: "4.2.2" as const, lines: ["Mailbox", "full"] };
    expect(parseSmtpReply(formatSmtpReply(reply))).toEqual(reply);
  });
});

test("a reply on one line", () => {
  expect(describeSmtpReply({ code: 550, enhancedStatus: "5.7.1", lines: ["Refused", "see below"] })).toBe(
    "550 5.7.1 Refused see below",
  );
});
