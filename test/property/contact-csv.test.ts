import { parse } from "csv-parse/sync";
import { describe, expect, test } from "vitest";
import { neutraliseCell, restoreCell } from "../../services/core/mail/csv-cell.ts";
import { fc } from "../support/property.ts";

/** What spreadsheets evaluate, or take off before they do. */
const pieces = [
  "=",
  "+",
  "-",
  "@",
  "'",
  "\t",
  "\r",
  "\n",
  " ",
  "\ufeff",
  "\u200b",
  "\u{e0001}",
  "\uff1d",
  '"',
  ",",
  ";",
  "1",
  "a",
  "cmd|' /C calc'!A0",
];
const values = fc.array(fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3 })), { maxLength: 8 });

describe("cells of an export", () => {
  test("are no formulas, and give the same values again", () => {
    fc.assert(
      fc.property(values, (parts) => {
        const value = parts.join("");
        const cell = neutraliseCell(value);
        expect(cell).not.toMatch(/^(?:[\t\r\n]|[\s\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20])/u);
        for (const piece of cell.split(/[;\r\n]/).slice(1)) {
          expect(piece).not.toMatch(/^["\s\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20]/u);
        }
        expect(restoreCell(cell)).toBe(value);
        const line = `"${cell.replaceAll('"', '""')}"\r\n`;
        const [[read]] = parse(line, { skip_empty_lines: false }) as [[string]];
        expect(restoreCell(read)).toBe(value);
      }),
      { numRuns: 2_000 },
    );
  });

  test.each([
    ["=1+1", "'=1+1"],
    ["+34600123123", "'+34600123123"],
    ["-5", "'-5"],
    ["@SUM(A1)", "'@SUM(A1)"],
    ["\t=1", "'\t=1"],
    ["\ufeff =1", "'\ufeff =1"],
    ["\u200b=1", "'\u200b=1"],
    ["\u00ad\u2060 @x", "'\u00ad\u2060 @x"],
    ["\u{e0001}+1", "'\u{e0001}+1"],
    ["a;\u200d=1", "a;'\u200d=1"],
    ["\u200ba=1", "\u200ba=1"],
    [`a;${"\ufeff".repeat(100)}b`, `a;${"\ufeff".repeat(100)}b`],
    ["\rx", "'\rx"],
    ["'=1", "''=1"],
    ["''=1", "'''=1"],
    ["'quoted'", "'quoted'"],
    ["a;=1+1", "a;'=1+1"],
    ['a; "=1', "a;' \"=1"],
    ["a;'=1", "a;''=1"],
    ["a\n=1;b", "a\n'=1;b"],
    ["a;b", "a;b"],
    ["O'Neill", "O'Neill"],
    ["a=b", "a=b"],
    ["", ""],
  ])("%j is written as %j", (value, cell) => {
    expect(neutraliseCell(value)).toBe(cell);
    expect(restoreCell(cell)).toBe(value);
  });
});
