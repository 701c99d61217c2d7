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
        expect(cell).not.toMatch(/^(?:[\t\r\n]|[\s\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20])/);
        for (const piece of cell.split(/[;\r\n]/).slice(1)) {
          expect(piece).not.toMatch(/^["\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]/);
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
