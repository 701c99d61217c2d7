import { expect, test } from "vitest";
import { type DomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { type ResourceRecord, recordIdentity, rrsetKey } from "../../services/core/dns/record.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import {
  differenceBetween,
  editRecords,
  exactKey,
  type RecordDraft,
  type RecordEdits,
  type StoredRecord,
} from "../../services/core/dns/zone-edit.ts";
import { ok } from "../../services/core/result.ts";
import { fc } from "../support/property.ts";

const zone = { apex: name("example.org"), ttl: 3600 };

function name(text: string): DomainName {
  const parsed = parseDomainName(text);
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
}

/** Few names and addresses, so that records meet. */
const draft: fc.Arbitrary<RecordDraft> = fc.record({
  owner: fc.constantFrom("a", "b", "A").map((label) => name(`${label}.example.org`)),
  type: fc.constantFrom(TYPE.A, TYPE.TXT),
  ttl: fc.option(fc.constantFrom(60, 300), { nil: undefined }),
  rdata: fc.constantFrom(1, 2, 3, 4).map((octet) => Uint8Array.of(3, octet, 1, 1)),
});

const ns = { owner: zone.apex, type: TYPE.NS, ttl: 3600, rdata: name("ns1.example.net").wire, id: 1 };

/** A lawful zone: records each once, RRsets with one TTL. */
const current: fc.Arbitrary<StoredRecord[]> = fc
  .uniqueArray(draft, { selector: (record) => recordIdentity({ ...record, ttl: 0 }), maxLength: 8 })
  .map((drafts) => {
    const ttls = new Map<string, number>();
    const records = drafts.map((record, index) => {
      const key = rrsetKey(record.owner, record.type);
      const ttl = ttls.get(key) ?? record.ttl ?? zone.ttl;
      ttls.set(key, ttl);
      return { ...record, ttl, id: index + 2 };
    });
    return [ns, ...records];
  });

const edits: fc.Arbitrary<RecordEdits> = fc.record({
  creations: fc.array(draft, { maxLength: 3 }),
  modifications: fc
    .uniqueArray(fc.record({ id: fc.integer({ min: 2, max: 10 }), to: draft }), {
      selector: ({ id }) => id,
      maxLength: 3,
    })
    .map((changes) => changes.map(({ id, to }) => ({ id, newOwner: to.owner, draft: () => ok(to) }))),
  deletionIds: fc.uniqueArray(fc.integer({ min: 2, max: 10 }), { maxLength: 2 }),
});

function applyRows(before: readonly StoredRecord[], rows: ReturnType<typeof rowsOf>): ResourceRecord[] {
  const updated = new Map(rows.updated.map((record) => [record.id, record]));
  const kept = before
    .filter(({ id }) => !rows.deletedIds.includes(id))
    .map((record) => updated.get(record.id) ?? record);
  return [...kept, ...rows.created];
}

function rowsOf(before: readonly StoredRecord[], wanted: RecordEdits) {
  const edited = editRecords(zone, before, wanted);
  if (!edited.ok) throw new Error("refused");
  return edited.value.rows;
}

test("what edits come to is a lawful zone, and the journal's difference leads there", () => {
  let accepted = 0;
  fc.assert(
    fc.property(current, edits, (before, wanted) => {
      const edited = editRecords(zone, before, wanted);
      if (!edited.ok) return;
      accepted += 1;
      const { rows, difference, changeCount, touched } = edited.value;
      const after = applyRows(before, rows);

      expect(new Set(after.map(recordIdentity)).size).toBe(after.length);
      const ttls = new Map<string, number>();
      for (const { owner, type, ttl } of after) {
        const key = rrsetKey(owner, type);
        expect(ttls.get(key) ?? ttl).toBe(ttl);
        ttls.set(key, ttl);
      }
      for (const [key, records] of touched) {
        expect(
          after
            .filter(({ owner }) => owner.key === key)
            .map(exactKey)
            .sort(),
        ).toEqual(records.map(exactKey).sort());
      }

      const replayed = new Set(before.map(exactKey));
      for (const record of difference.deleted) expect(replayed.delete(exactKey(record))).toBe(true);
      for (const record of difference.added) replayed.add(exactKey(record));
      expect([...replayed].sort()).toEqual(after.map(exactKey).sort());

      expect(changeCount).toBeLessThanOrEqual(
        wanted.creations.length + wanted.modifications.length + wanted.deletionIds.length,
      );
      if (changeCount === 0) expect(after.map(exactKey)).toEqual(before.map(exactKey));
    }),
    { numRuns: 2_000 },
  );
  expect(accepted).toBeGreaterThan(200);
});

test("the difference of two zones turns one into the other", () => {
  fc.assert(
    fc.property(current, current, (before, after) => {
      const { deleted, added } = differenceBetween(before, after);
      const gone = new Set(deleted.map(exactKey));
      const result = [...before.filter((record) => !gone.has(exactKey(record))), ...added];
      expect(result.map(exactKey).sort()).toEqual(after.map(exactKey).sort());
    }),
  );
});
