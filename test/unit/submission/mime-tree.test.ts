import { describe, expect, test } from "vitest";
import { joinMessage, splitMessage } from "../../../services/core/mail/message.ts";
import { runAtOnce } from "../../../services/core/steps.ts";
import { partsOf } from "../../../services/submission/mime-tree.ts";
import { toSevenBit } from "../../../services/submission/to-seven-bit.ts";
import { trackMessage } from "../../../services/submission/track-message.ts";

describe("the parts of an entity", () => {
  test.each([
    ["plain text", "text/plain; boundary=b", "--b\r\n\r\nx\r\n--b--\r\n", []],
    ["a multipart that names no boundary", "multipart/mixed", "--b\r\n\r\nx\r\n--b--\r\n", []],
    ["a multipart without delimiters", "multipart/mixed; boundary=b", "x\r\n", []],
    [
      "a multipart",
      'MULTIPART/x; boundary="b"',
      "before\r\n--b\r\none\r\n--b \r\ntwo\r\n--b--\r\nafter",
      ["one", "two"],
    ],
    ["a multipart that does not end", "multipart/mixed; boundary=b", "--b\r\none\r\n--bb\r\n", ["one\r\n--bb\r\n"]],
    ["delimiters in a row", "multipart/mixed; boundary=b", "--b\r\n--b\r\n--b--", ["", ""]],
    ["an enclosed message", "message/rfc822", "Subject: a\r\n\r\nx", ["Subject: a\r\n\r\nx"]],
  ])("%s", (_what, type, body, expected) => {
    const entity = splitMessage(Buffer.from(`Content-Type: ${type}\r\n\r\n${body}`));
    const parts = partsOf(entity, 0).map(({ start, end }) => entity.body.toString("latin1", start, end));
    expect(parts).toEqual(expected);
  });

  test.each([
    [20, true],
    [21, false],
  ])("within %i others are read, encoded and tracked alike: %s", (levels, isRead) => {
    const nested = (text: string) => {
      let message = text;
      for (let level = 0; level < levels; level++) {
        message = `Content-Type: multipart/mixed; boundary=b${level}\r\n\r\n--b${level}\r\n${message}\r\n--b${level}--\r\n`;
      }
      return Buffer.from(`MIME-Version: 1.0\r\n${message}`);
    };
    const encoded = joinMessage(toSevenBit(splitMessage(nested("Content-Type: text/plain\r\n\r\nñ"))));
    expect(/^[\x00-\x7f]*$/.test(encoded.toString("latin1"))).toBe(isRead);
    const html = nested("Content-Type: text/html\r\n\r\n<p>x</p>");
    expect(runAtOnce(trackMessage(html, { tracking: true, unsubscribe: false })) !== undefined).toBe(isRead);
  });
});
