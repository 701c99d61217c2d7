import { expect, test } from "vitest";
import { findHeaderFault, nameCells } from "../../../../services/operations/mail/csv-records.ts";

test("each column is looked at once, however many there are", () => {
  const header = Array.from({ length: 10_000 }, (_, index) => `c${index}`);
  let asked = 0;
  const fieldOf = (name: string) => {
    asked += 1;
    return name.toUpperCase();
  };
  expect(findHeaderFault(header, "c0", fieldOf)).toBeUndefined();
  expect(asked).toBe(header.length);
  expect(findHeaderFault([...header.slice(0, -1), "C7"], "c0", fieldOf)?.values).toEqual({ column: "C7" });
  asked = 0;
  expect(findHeaderFault([...header, "one more"], "c0", fieldOf)?.code).toBe("csv-header-too-long");
  expect(asked).toBe(0);
});

test("cells have the names of their columns; columns without a name hold nothing, and may be repeated", () => {
  const header = ["a", "", "b", "", "c"];
  expect(findHeaderFault(header, "a")).toBeUndefined();
  expect(nameCells(header, ["1", " ", "2"])).toEqual({ ok: true, value: new Map(Object.entries({ a: "1", b: "2" })) });
  expect(nameCells(header, ["1", "x"])).toMatchObject({
    error: { code: "csv-column-unnamed", values: { place: "2" } },
  });
  expect(nameCells(header, ["1", "", "2", "", "3", "4"])).toMatchObject({ error: { code: "csv-too-many-columns" } });
  expect(nameCells(["a", "", ""], ["1", "", "x"])).toMatchObject({ error: { code: "csv-too-many-columns" } });
});
