import { expect, test } from "vitest";
import { plainWords } from "../../../../../services/core/mail/reports/report.ts";

test("a stranger's words are one line of text, and are not cut amidst a character", () => {
  expect(plainWords("a\r\nb\u0000c\ud83dd")).toBe("a b c d");
  expect(plainWords(`${"a".repeat(254)}😀`)).toBe("a".repeat(254));
  expect(plainWords(`${"a".repeat(253)}😀`)).toBe(`${"a".repeat(253)}😀`);
});
