import { describe, expect, test } from "vitest";
import { EVENT_NAMES } from "../../services/core/mail/event-kind.ts";
import { FILTER_FIELDS, type FilterCondition, filterCondition } from "../../services/core/mail/filter-condition.ts";
import { readConditionJson, toConditionJson } from "../../services/core/mail/filter-json.ts";
import { bareTagName } from "../../services/core/mail/personalise.ts";
import { StatementValues } from "../../services/platform/postgres/db.ts";
import { compileCondition } from "../../services/store/mail/contacts/filter-conditions.ts";
import { fc } from "../support/property.ts";

const hostile = fc.oneof(
  fc.string(),
  fc.constantFrom("'; drop table contacts; --", "?", "??", "$1", "\\", '" or 1=1', "contact.instance_id", "%"),
);
const textComparison = fc.record({ is: fc.constantFrom("=", "!=", "contains", "starts-with"), value: hostile });
const numberComparison = fc.record({
  is: fc.constantFrom("=", "!=", "<", "<=", ">", ">="),
  value: fc.double({ noNaN: true, noDefaultInfinity: true }),
});
const fieldsOf = (type: string) =>
  fc.constantFrom(
    ...Object.keys(FILTER_FIELDS).filter((name) => FILTER_FIELDS[name as keyof typeof FILTER_FIELDS] === type),
  );
/** Inside, names have no wrapping. */
const customName = hostile.filter((name) => name !== "" && bareTagName(name) === name);
const both = (...parts: fc.Arbitrary<object>[]) => fc.tuple(...parts).map((objects) => Object.assign({}, ...objects));

const { condition } = fc.letrec<{ condition: FilterCondition }>((tie) => ({
  condition: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    both(fc.record({ field: fieldsOf("text") }), textComparison),
    both(fc.record({ field: fieldsOf("number") }), numberComparison),
    both(fc.record({ customField: customName }), fc.oneof(textComparison, numberComparison)),
    fc.record({ group: hostile.filter((name) => name !== "") }),
    fc.record({ invalid: fc.boolean() }),
    fc.record(
      {
        event: fc.constantFrom(...Object.keys(EVENT_NAMES)),
        campaignNumid: fc.integer({ min: 1 }),
        withinDays: fc.integer({ min: 1, max: 36_500 }),
      },
      { requiredKeys: ["event"] },
    ),
    fc.record({ all: fc.array(tie("condition"), { maxLength: 4 }) }),
    fc.record({ any: fc.array(tie("condition"), { maxLength: 4 }) }),
    fc.record({ not: tie("condition") }),
  ) as fc.Arbitrary<FilterCondition>,
}));

const scope = { instance: "$1", now: new Date("2026-01-01T00:00:00Z") };

/** Every word that compiled SQL may consist of. */
const WORDS = new RegExp(
  `^(?:${[
    "any|count|cardinality|not|and|or|true|false|exists|select|1|from|join|on|where|case|when|then|end|is|distinct|coalesce|strpos|starts_with|lower|text|numeric|0",
    "contact|contacts|contact_groups|groups|group_id|contact_id|id|instance_id|name|events|kind|machine|campaign_numid|at|fields|invalid",
    "email|first_name|last_name|age|sex|profession|locality|country_code|region_code|city|device|device_subtype_id|domain_group_id",
  ].join("|")})$`,
);

describe("compiled conditions", () => {
  test("no input is ever SQL: the text consists of the compiler's own words, with a place for each value", () => {
    fc.assert(
      fc.property(condition, (given) => {
        const values = new StatementValues(1);
        const sql = compileCondition(given, scope, values);
        const places = new Set(["$1", ...(sql.match(/\$\d+/g) ?? [])]);
        expect(places).toEqual(new Set(values.all.map((_, index) => `$${index + 1}`)));
        const literals = sql.replaceAll("''", "");
        expect(literals).not.toContain("'");
        for (const word of literals.replaceAll(/\$\d+/g, "").match(/\w+/g) ?? []) expect(word).toMatch(WORDS);
        expect(literals.replaceAll(/[\w\s]/g, "").replaceAll(/[().,=<>!$:~[\]-]/g, "")).toBe("");
      }),
      { numRuns: 500 },
    );
  });

  test("groups and events are the contact's own instance's", () => {
    for (const given of [{ group: "x" }, { event: "viewed" }] as FilterCondition[]) {
      expect(compileCondition(given, scope, new StatementValues(1))).toMatch(/\.instance_id = contact\.instance_id/);
    }
  });

  test("what the compiler takes is what the schema takes", () => {
    fc.assert(
      fc.property(condition, (given) => {
        expect(filterCondition.parse(JSON.parse(JSON.stringify(given)))).toBeDefined();
      }),
    );
  });
});

describe("conditions in the API's words", () => {
  test("are read back as what they were written from", () => {
    fc.assert(
      fc.property(condition, (given) => {
        const json = JSON.parse(JSON.stringify(toConditionJson(given)));
        // JSON has no negative zero.
        expect(readConditionJson(json)).toEqual({ ok: true, value: JSON.parse(JSON.stringify(given)) });
      }),
    );
  });

  test("whatever JSON is no condition is refused with its place, and never throws", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        const read = readConditionJson(json);
        if (read.ok) expect(filterCondition.safeParse(read.value).success).toBe(true);
        else expect(read.error).toMatch(/^condiciones/);
      }),
    );
  });

  test.each([
    [{ todas: [{ grupo: "a" }, { campo: "edad", es: "contiene", valor: "1" }] }, "condiciones.todas[1]"],
    [{ no: { alguna: [{ evento: "opened" }] } }, "condiciones.no.alguna[0]"],
    [{ todas: {} }, "condiciones.todas"],
    [{ todas: [], alguna: [] }, "condiciones"],
    [{ all: [] }, "condiciones"],
    [{ field: "age", is: "=", value: 3 }, "condiciones"],
    [{ campo: "age", es: "=", valor: 3 }, "condiciones"],
    [{ campo: "nombre", es: "contains", valor: "x" }, "condiciones"],
    [{ campo: "COLOR", es: "=", valor: "x" }, "condiciones"],
    [{ grupo: "a", more: 1 }, "condiciones"],
    [{ todas: Array.from({ length: 200 }, () => ({ invalido: true })) }, "condiciones"],
  ])("%j is refused at %s", (json, place) => {
    expect(readConditionJson(json)).toEqual({ ok: false, error: place });
  });

  test("parts are counted as they are read: none beyond 200 is looked at", () => {
    const read = new Set<number>();
    const parts = Array.from({ length: 1000 }, (_, index) => ({
      get invalido() {
        read.add(index);
        return true;
      },
    }));
    expect(readConditionJson({ todas: parts })).toEqual({ ok: false, error: "condiciones" });
    expect(read.size).toBe(199);
    expect(readConditionJson({ todas: parts.slice(0, 199) }).ok).toBe(true);
  });

  test("parts in one another are counted too", () => {
    const nested = (levels: number) => JSON.parse(`${'{"no":'.repeat(levels)}{"invalido":true}${"}".repeat(levels)}`);
    expect(readConditionJson(nested(199)).ok).toBe(true);
    expect(readConditionJson(nested(200))).toEqual({ ok: false, error: "condiciones" });
    expect(readConditionJson(nested(5_000))).toEqual({ ok: false, error: "condiciones" });
  });
});

test.each([
  {},
  [],
  null,
  { field: "password", is: "=", value: "x" },
  { field: "age", is: "=", value: "30" },
  { field: "email", is: "<", value: 3 },
  { field: "email", is: "; drop table contacts", value: "x" },
  { field: "email", is: "=", value: "x", or: 1 },
  { all: [{}] },
  { not: [] },
  { event: "opened" },
  { event: "viewed", withinDays: -1 },
])("%j is no condition", (given) => {
  expect(filterCondition.safeParse(given).success).toBe(false);
});
