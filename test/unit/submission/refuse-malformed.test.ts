import { describe, expect, it } from "vitest";
import { findFormFault } from "../../../services/submission/refuse-malformed.ts";

const HEADER = "From: a@example.org\r\nTo: b@example.net\r\n";
const multipart = (boundary: string) => `Content-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n`;
const judge = (message: string) => findFormFault(Buffer.from(message, "latin1"));
const refusal = (text: string) => ({ code: 550, enhancedStatus: "5.6.0", lines: [text] });

const TOO_MANY_FIELDS = refusal("the header and those of the parts have more than 20000 fields");
const TOO_LONG_HEADER = refusal("the header and those of the parts have more than 1048576 octets");
const TOO_MANY_PARTS = refusal("the message has more than 2000 parts");

/** A message whose part, or whose enclosed message, has this header. */
const WITHIN = {
  "the header": (fields: string) => `${HEADER}${fields}\r\nx\r\n`,
  "a part": (fields: string) => `${HEADER}${multipart("a")}--a\r\n${fields}\r\nx\r\n--a--\r\n`,
  "a part of a part": (fields: string) =>
    `${HEADER}${multipart("a")}--a\r\n${multipart("b")}--b\r\n${fields}\r\nx\r\n--b--\r\n--a--\r\n`,
  "an enclosed message that is 8-bit": (fields: string) =>
    `${HEADER}Content-Type: message/rfc822\r\n\r\n${fields}\r\n\xe9\r\n`,
  "parts together": (fields: string) => {
    const half = fields.slice(0, fields.indexOf("\r\n", fields.length / 2) + 2);
    const parts = [half, fields.slice(half.length)].map((some) => `--a\r\n${some}\r\nx\r\n`);
    return `${HEADER}${multipart("a")}${parts.join("")}--a--\r\n`;
  },
};

describe.each(Object.entries(WITHIN))("header fields of %s", (_, message) => {
  it("are few enough for every reader", () => {
    expect(judge(message("A:\r\n".repeat(20_001)))).toEqual(TOO_MANY_FIELDS);
    expect(judge(message("A:\r\n".repeat(19_990)))).toBeUndefined();
  });

  it("are short enough for every reader", () => {
    const long = `A: ${"x".repeat(993)}\r\n`;
    expect(judge(message(long.repeat(1_051)))).toEqual(TOO_LONG_HEADER);
    expect(judge(message(long.repeat(1_049)))).toBeUndefined();
  });
});

describe("parts", () => {
  const parts = (count: number) => "--a\r\n\r\nx\r\n".repeat(count);

  it("are few enough for every reader", () => {
    expect(judge(`${HEADER}${multipart("a")}${parts(2_001)}--a--\r\n`)).toEqual(TOO_MANY_PARTS);
    expect(judge(`${HEADER}${multipart("a")}${parts(1_999)}--a--\r\n`)).toBeUndefined();
  });

  it("of all levels count together", () => {
    const message = (count: number) =>
      `${HEADER}${multipart("b")}${parts(3)}--b\r\n${multipart("a")}${parts(count)}--a--\r\n--b--\r\n`;
    expect(judge(message(2_000))).toEqual(TOO_MANY_PARTS);
    expect(judge(message(1_990))).toBeUndefined();
  });

  it("are looked for at each line that begins as a delimiter does, and at no other", () => {
    const message = (line: string) => `${HEADER}${multipart("a")}--a\r\n\r\n${line.repeat(2_001)}\r\n--a--\r\n`;
    expect(judge(message("--ab\r\n"))).toEqual(TOO_MANY_PARTS);
    expect(judge(message("x--a\r\n"))).toBeUndefined();
    expect(judge(message("-- comment\r\n"))).toBeUndefined();
  });
});

it("a message that is enclosed in base64 has no fields", () => {
  const enclosed = `Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n${`${"x".repeat(76)}\r\n`.repeat(30_000)}`;
  expect(judge(`${HEADER}${multipart("a")}--a\r\n${enclosed}--a--\r\n`)).toBeUndefined();
});
