import { expect, test } from "vitest";
import { fieldsOf, valuesOf } from "../../../../services/console/web/src/dns/zone/pool-form.ts";

const form = { ...valuesOf(undefined), type: "http", members: "192.0.2.1 3 1\nwww.example.net\n" };

test("a pool's form asks for what was typed", () => {
  expect(fieldsOf(form)).toEqual({
    rule: "all",
    members: [{ value: "192.0.2.1", weight: 3, priority: 1 }, { value: "www.example.net" }],
    check: { type: "http", port: 80, interval: 10, path: "/" },
  });
});

test.each([
  [{ port: "8O80" }, { check: { port: "8O80" } }],
  [{ port: "" }, { check: { port: "" } }],
  [{ interval: "10s" }, { check: { interval: "10s" } }],
  [{ members: "192.0.2.1 1O0 1" }, { members: [{ weight: "1O0", priority: 1 }] }],
  [{ members: "192.0.2.1 1 1 1" }, { members: [{ weight: 1, priority: "1 1" }] }],
])("what is no number goes to the API as it is: %j", (typed, expected) => {
  expect(fieldsOf({ ...form, ...typed })).toMatchObject(expected);
});
