import { describe, expect, test } from "vitest";
import { z } from "zod";
import { cleanFields, validateFields } from "../../../../services/platform/http/fields.ts";

const fields = z.object({
  contacts: z.array(z.object({ email: z.string(), tags: z.array(z.string()).optional() })).min(1),
  name: z.string().optional(),
});
const clean = (input: unknown) => cleanFields(input, ([first]) => first === "kept");

describe("cleanFields", () => {
  test("takes nulls for missing, but for those that are claimed", () => {
    const cleaned = clean({ a: null, kept: null, list: [{ b: null, c: 1 }] });
    expect(cleaned).toEqual({ ok: true, value: { kept: null, list: [{ c: 1 }] } });
  });

  test("names the field of text that cannot be stored", () => {
    expect(clean({ list: [{ b: "x" }, { b: "\0" }] })).toMatchObject({ error: { kind: "invalid-field", field: "b" } });
    expect(clean({ texts: ["\ud800"] })).toMatchObject({ error: { kind: "invalid-field", field: "texts" } });
  });

  test("leaves out a member that would be a prototype, and takes a text that says so", () => {
    const cleaned = clean(JSON.parse('{"__proto__":{"a":1},"b":[{"\\u005f_proto__":{"c":1},"d":2}]}')) as {
      value: object;
    };
    expect(JSON.stringify(cleaned)).toBe('{"ok":true,"value":{"b":[{"d":2}]}}');
    expect(Object.getPrototypeOf(cleaned.value)).toBe(Object.prototype);
    expect(clean({ name: "__proto__" })).toEqual({ ok: true, value: { name: "__proto__" } });
  });

  test("bounds levels and values", () => {
    const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);
    expect(clean(nested(64))).toMatchObject({ ok: true });
    expect(clean(nested(65))).toMatchObject({ error: { kind: "malformed-json" } });
    expect(clean({ list: Array(999_998).fill(1) })).toMatchObject({ ok: true });
    expect(clean({ list: Array(1_000_000).fill(1) })).toMatchObject({ error: { kind: "too-large" } });
  });
});

describe("validateFields", () => {
  test("gives back what is sound, without what nobody asked for", () => {
    const contacts = [{ email: "a", tags: ["x"] }, { email: "b" }];
    expect(validateFields(fields, { contacts, name: "n", other: 1 })).toEqual({
      ok: true,
      value: { contacts, name: "n" },
    });
  });

  test.each([
    [{ contacts: [{ email: "a" }, { email: 1 }, {}] }, { kind: "invalid-field", field: "email" }],
    [{ contacts: [{ email: "a" }, {}, { email: 1 }] }, { kind: "missing-field", field: "email" }],
    [{ contacts: [{ email: "a", tags: ["x", 1, null] }] }, { kind: "invalid-field", field: "tags" }],
    [{ contacts: [] }, { kind: "invalid-field", field: "contacts" }],
    [{ contacts: {} }, { kind: "invalid-field", field: "contacts" }],
    [{}, { kind: "missing-field", field: "contacts" }],
    [[], { kind: "malformed-json" }],
    ["x", { kind: "malformed-json" }],
  ])("refuses %j by its first problem", (input, error) => {
    expect(validateFields(fields, input)).toMatchObject({ ok: false, error });
  });

  test.each([
    ["role", "boss", "must be operator, reseller or company"],
    ["role", 7, "must be operator, reseller or company"],
    ["kind", "b", "must be a"],
    ["email", "nobody", "is not acceptable"],
    ["count", 5, "is not acceptable"],
    ["address", "x", "must be address:port, such as 192.0.2.1:53"],
    ["text", "", "must not be empty"],
    ["list", [], "must not be empty"],
  ])("says in words of its own why %s may not be %j", (field, value, message) => {
    const schema = z.object({
      role: z.enum(["operator", "reseller", "company"]).optional(),
      kind: z.literal("a").optional(),
      email: z.email().optional(),
      count: z.number().multipleOf(2).optional(),
      address: z.string().regex(/:/, "address-port").optional(),
      text: z.string().min(1).optional(),
      list: z.array(z.string()).min(1).optional(),
    });
    expect(validateFields(schema, { [field]: value })).toMatchObject({ error: { field, reason: { message } } });
  });

  test("judges long lists to their end", () => {
    const contacts = Array.from({ length: 2_500 }, (_, index) => ({ email: String(index) }));
    expect(validateFields(fields, { contacts })).toEqual({ ok: true, value: { contacts } });
    const withFault = { contacts: [...contacts, {}] };
    expect(validateFields(fields, withFault)).toMatchObject({ error: { kind: "missing-field", field: "email" } });
    const plain = z.object({ names: z.array(z.object({ name: z.string() })) });
    const names = contacts.map(({ email: name }) => ({ name }));
    expect(validateFields(plain, { names })).toEqual({ ok: true, value: { names } });
    expect(validateFields(plain, { names: [...names, { name: 1 }] })).toMatchObject({
      error: { kind: "invalid-field", field: "name" },
    });
  });

  // Each of these would cost minutes, or all memory, if every problem were described.
  test.each([
    ["items", { contacts: Array(900_000).fill(1) }, "contacts"],
    ["items of items", { contacts: [{ email: "a", tags: Array(900_000).fill(1) }] }, "tags"],
  ])("looks no further than the first of many bad %s", (_, input, field) => {
    expect(validateFields(fields, input)).toMatchObject({ error: { kind: "invalid-field", field } });
  });
});
