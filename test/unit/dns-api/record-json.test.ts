import { describe, expect, test } from "vitest";
import { parseDomainName } from "../../../services/core/dns/name.ts";
import { TYPE } from "../../../services/core/dns/rr-types.ts";
import { readModification, readRecord, recordFields, showRecord } from "../../../services/dns-api/record-json.ts";

const apex = (() => {
  const parsed = parseDomainName("example.org");
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
})();

function read(fields: object) {
  const parsed = recordFields.safeParse({ name: "www", type: "A", value: "192.0.2.1", ...fields });
  if (!parsed.success) throw new Error(parsed.error.message);
  return readRecord(parsed.data, apex);
}

describe("a record of the API", () => {
  test.each([
    [{}, { name: "www", type: "A", rr_prio: null, value: "192.0.2.1" }],
    [{ name: "@" }, { name: "@" }],
    [{ name: "example.org." }, { name: "@" }],
    [{ name: "a.b.example.org." }, { name: "a.b" }],
    [
      { type: "mx", rr_prio: 7, value: "mail" },
      { type: "MX", rr_prio: "7", value: "mail.example.org." },
    ],
    [
      { type: "SRV", rr_prio: "007", value: "1 2 @" },
      { rr_prio: "7", value: "1 2 example.org." },
    ],
    [{ type: "TXT", value: "a; b" }, { value: '"a; b"' }],
  ])("%j is shown as %j", (fields, shown) => {
    const draft = read(fields);
    if (!draft.ok) throw new Error(JSON.stringify(draft.error));
    expect(showRecord({ ...draft.value, ttl: 60 }, apex)).toMatchObject({ ttl: 60, ...shown });
  });

  test.each([
    [{ value: "192.0.2.300" }, "invalid-field", "value"],
    [{ type: "MX", value: "mail" }, "missing-field", "rr_prio"],
    [{ rr_prio: 1 }, "invalid-field", "rr_prio"],
    [{ type: "AXFR" }, "invalid-field", "type"],
    [{ name: "a..b" }, "invalid-field", "name"],
  ])("%j is refused: %s %s", (fields, kind, field) => {
    expect(read(fields)).toMatchObject({ ok: false, error: { kind, field } });
  });
});

test("a modification keeps what is not given", () => {
  const current = read({ type: "MX", rr_prio: 10, value: "mail.example.net." });
  if (!current.ok) throw new Error("refused");
  const record = { ...current.value, ttl: 60 };
  const modify = (changes: Parameters<typeof readModification>[1]) => {
    const modification = readModification(1, changes, apex);
    if (!modification.ok) throw new Error("refused");
    return modification.value.draft(record);
  };
  expect(modify({})).toEqual({ ok: true, value: { ...record, ttl: undefined } });
  expect(modify({ rr_prio: "20" })).toMatchObject({ value: { type: TYPE.MX, rdata: { 1: 20 } } });
  expect(modify({ type: "A", value: "192.0.2.1" })).toMatchObject({ value: { type: TYPE.A } });
  expect(modify({ type: "A" })).toMatchObject({ ok: false, error: { field: "value" } });
  expect(modify({ type: "SRV", value: "1 2 sip" })).toMatchObject({ ok: true, value: { type: TYPE.SRV } });
});
