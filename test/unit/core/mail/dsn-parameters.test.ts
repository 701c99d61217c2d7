import { describe, expect, test } from "vitest";
import {
  askedOfNextHop,
  decodeXtext,
  encodeUtf8Address,
  isNotified,
  readOriginalRecipient,
  takeDsnParameters,
  toAsciiOriginalRecipient,
} from "../../../../services/core/mail/dsn-parameters.ts";

describe("commands", () => {
  test.each([
    [
      "MAIL",
      "MAIL FROM:<a@example.org> SIZE=1 RET=FULL BODY=7BIT ENVID=x+2By",
      "MAIL FROM:<a@example.org> SIZE=1 BODY=7BIT",
      { returns: "full", envelopeId: "x+2By" },
    ],
    ["MAIL", "mail from: <> ret=hdrs", "mail from: <>", { returns: "headers" }],
    ["RCPT", "RCPT TO:<a@example.org> NOTIFY=NEVER", "RCPT TO:<a@example.org>", { notify: [] }],
    [
      "RCPT",
      "RCPT TO:<a@example.org> NOTIFY=delay,SUCCESS",
      "RCPT TO:<a@example.org>",
      { notify: ["success", "delay"] },
    ],
    [
      "RCPT",
      "RCPT TO:<a@example.org> ORCPT=rfc822;a+3Db@example.org",
      "RCPT TO:<a@example.org>",
      { originalRecipient: "rfc822;a+3Db@example.org" },
    ],
    ["RCPT", "RCPT TO:<a@example.org>", "RCPT TO:<a@example.org>", undefined],
    // Not this command's: the library refuses them.
    ["RCPT", "RCPT TO:<a@example.org> RET=FULL", "RCPT TO:<a@example.org> RET=FULL", undefined],
    ["MAIL", "MAIL FROM a@example.org RET=FULL", "MAIL FROM a@example.org RET=FULL", undefined],
  ])("%s %s", (verb, line, rest, dsn) => {
    expect(takeDsnParameters(verb, line)).toEqual({ ok: true, value: { line: rest, dsn } });
  });

  test.each(["ENVID=", "ENVID", "ENVID=a b=c ENVID=d", "ENVID=+0A", "ENVID=+4", "ENVID=+e9", "ENVID=+20", "RET=BOTH"])(
    "MAIL FROM:<> %s is refused",
    (parameters) => {
      expect(takeDsnParameters("MAIL", `MAIL FROM:<> ${parameters}`).ok).toBe(false);
    },
  );
});

test.each([
  ["a+20b", "a b"],
  ["a+2Bb", "a+b"],
  ["a+2bb", undefined],
  ["a=b", undefined],
  ["a+0Ab", undefined],
  ["", undefined],
])("xtext %j is %j", (text, decoded) => {
  expect(decodeXtext(text)).toBe(decoded);
});

test.each([
  ["rfc822;a+40b@example.org", { type: "rfc822", address: "a@b@example.org" }],
  ["RFC822;a@example.org", { type: "rfc822", address: "a@example.org" }],
  ["x400;/c=gb", undefined],
  ["x400;/c+3Dgb", { type: "x400", address: "/c=gb" }],
  ["utf-8;ren\\x{E9}@example.org", { type: "utf-8", address: "rené@example.org" }],
  ["utf-8;rené@example.org", { type: "utf-8", address: "rené@example.org" }],
  ["utf-8;\\x{1F600}@example.org", { type: "utf-8", address: "😀@example.org" }],
  ["utf-8;\\x{D800}@example.org", undefined],
  ["utf-8;\\x{110000}@example.org", undefined],
  ["utf-8;\\x{0A}@example.org", undefined],
  ["utf-8;\\x{00E9}@example.org", undefined],
  ["utf-8;a+b@example.org", undefined],
  ["rfc822;rené@example.org", undefined],
])("ORCPT=%s", (text, read) => {
  expect(readOriginalRecipient(text)).toEqual(read);
});

test("an address in ASCII reads back as it was", () => {
  for (const address of ["rené+tag@example.org", "a=b\\c@example.org", "😀@example.org", "日本@example.org"]) {
    expect(readOriginalRecipient(`utf-8;${encodeUtf8Address(address)}`)).toEqual({ type: "utf-8", address });
  }
  expect(toAsciiOriginalRecipient("utf-8;rené@example.org")).toBe("utf-8;ren\\x{E9}@example.org");
  expect(toAsciiOriginalRecipient("rfc822;a+2Bb@example.org")).toBe("rfc822;a+2Bb@example.org");
});

test("who says nothing hears of failures and delays, and who says NEVER of nothing", () => {
  expect((["failure", "delay", "success"] as const).map((kind) => isNotified({}, kind))).toEqual([true, true, false]);
  expect((["failure", "delay", "success"] as const).map((kind) => isNotified({ notify: [] }, kind))).toEqual([
    false,
    false,
    false,
  ]);
});

test.each([
  [undefined, undefined],
  [[], ["failure"]],
  [["success"], ["success", "failure"]],
  [["failure"], ["failure"]],
  [
    ["success", "failure", "delay"],
    ["success", "failure", "delay"],
  ],
] as const)("a next hop is asked to tell of failures, whatever the sender wants: %j", (notify, asked) => {
  const original = { originalRecipient: "rfc822;a@example.org" };
  expect(askedOfNextHop({ ...original, ...(notify && { notify }) })).toEqual({
    ...original,
    ...(asked && { notify: asked }),
  });
});
