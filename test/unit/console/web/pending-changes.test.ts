import { describe, expect, it } from "vitest";
import {
  countChanges,
  editorRows,
  NO_CHANGES,
  type PendingChanges,
  toBatch,
  withChanged,
  withCreated,
  withDeleted,
  withUndone,
} from "../../../../services/console/web/src/dns/pending-changes.ts";
import type { StoredRecord } from "../../../../services/console/web/src/dns/record.ts";

const stored: readonly StoredRecord[] = [
  { rr_id: 1, name: "@", type: "A", ttl: 300, rr_prio: null, value: "192.0.2.1" },
  { rr_id: 2, name: "@", type: "MX", ttl: 300, rr_prio: "10", value: "mail.example.org." },
];
const draft = { name: "www", type: "A", value: "192.0.2.2" };

const rowOf = (changes: PendingChanges, key: string) => editorRows(stored, changes).find((row) => row.key === key)!;

describe("pending changes of a zone", () => {
  it("begin with what is stored", () => {
    expect(countChanges(NO_CHANGES)).toBe(0);
    expect(editorRows(stored, NO_CHANGES).map(({ key, state }) => [key, state])).toEqual([
      ["1", "stored"],
      ["2", "stored"],
    ]);
    expect(toBatch(NO_CHANGES)).toEqual({ create: [], modify: [], delete: [] });
  });

  it("hold new records, which come first, and forget them again", () => {
    const once = withCreated(NO_CHANGES, draft);
    const twice = withCreated(once, { ...draft, value: "192.0.2.3" });
    expect(editorRows(stored, twice).map(({ key }) => key)).toEqual(["new-1", "new-2", "1", "2"]);
    expect(toBatch(twice).create).toHaveLength(2);
    expect(toBatch(withUndone(twice, rowOf(twice, "new-1"))).create).toEqual([{ ...draft, value: "192.0.2.3" }]);
    expect(countChanges(withDeleted(once, rowOf(once, "new-1")))).toBe(0);
  });

  it("change a new record in its place", () => {
    const created = withCreated(NO_CHANGES, draft);
    const changed = withChanged(created, rowOf(created, "new-1"), { ...draft, ttl: 60 });
    expect(toBatch(changed)).toEqual({ create: [{ ...draft, ttl: 60 }], modify: [], delete: [] });
  });

  it("change a stored record, and count none when it is what it was", () => {
    const wanted = { name: "@", type: "A", ttl: 300, value: "192.0.2.9" };
    const changed = withChanged(NO_CHANGES, rowOf(NO_CHANGES, "1"), wanted);
    expect(toBatch(changed).modify).toEqual([{ rr_id: 1, ...wanted }]);
    expect(rowOf(changed, "1")).toMatchObject({ state: "modified", record: wanted, stored: stored[0] });
    const back = withChanged(changed, rowOf(changed, "1"), { ...wanted, value: "192.0.2.1" });
    expect(countChanges(back)).toBe(0);
    const { rr_id: _id, rr_prio, ...mx } = stored[1]!;
    expect(countChanges(withChanged(NO_CHANGES, rowOf(NO_CHANGES, "2"), { ...mx, rr_prio: rr_prio! }))).toBe(0);
  });

  it("delete a stored record rather than change it, and restore it", () => {
    const changed = withChanged(NO_CHANGES, rowOf(NO_CHANGES, "1"), draft);
    const deleted = withDeleted(changed, rowOf(changed, "1"));
    expect(toBatch(deleted)).toEqual({ create: [], modify: [], delete: [1] });
    expect(rowOf(deleted, "1").state).toBe("deleted");
    expect(countChanges(withUndone(deleted, rowOf(deleted, "1")))).toBe(0);
  });

  it("stay in sight where a search, or a page not read yet, leaves their records out", () => {
    const changed = withChanged(NO_CHANGES, rowOf(NO_CHANGES, "1"), draft);
    const both = withDeleted(changed, rowOf(changed, "2"));
    const states = (read: readonly StoredRecord[]) => editorRows(read, both).map(({ key, state }) => [key, state]);
    expect(states([])).toEqual([
      ["1", "modified"],
      ["2", "deleted"],
    ]);
    expect(states([stored[1]!])).toEqual([
      ["1", "modified"],
      ["2", "deleted"],
    ]);
    expect(editorRows([], withUndone(both, rowOf(both, "1"))).map(({ key }) => key)).toEqual(["2"]);
  });
});
