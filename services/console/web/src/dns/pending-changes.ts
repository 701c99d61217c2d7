import type { RecordDraft, StoredRecord } from "./record.ts";

/** Edits of a zone that were not applied yet. */
export interface PendingChanges {
  /** New records by a number of the page's own. */
  readonly created: ReadonlyMap<number, RecordDraft>;
  /** What stored records are, and are to become, by `rr_id`. */
  readonly modified: ReadonlyMap<number, { readonly stored: StoredRecord; readonly draft: RecordDraft }>;
  /** What is to go, by `rr_id`. */
  readonly deleted: ReadonlyMap<number, StoredRecord>;
}

export const NO_CHANGES: PendingChanges = { created: new Map(), modified: new Map(), deleted: new Map() };

/** The body of `POST /rr/{domain}/batch`, and of the preview. */
export interface Batch {
  readonly create: readonly RecordDraft[];
  readonly modify: readonly ({ readonly rr_id: number } & RecordDraft)[];
  readonly delete: readonly number[];
}

/** A line of the record editor. */
export interface EditorRow {
  /** `rr_id`, or `new-<number>`. */
  readonly key: string;
  readonly state: "stored" | "created" | "modified" | "deleted";
  /** As it would be once the changes are applied. */
  readonly record: RecordDraft;
  /** As it is now; none of a new record. */
  readonly stored?: StoredRecord;
  /** The page's own number of a new record. */
  readonly draftId?: number;
}

/** How many records the changes touch. */
export function countChanges({ created, modified, deleted }: PendingChanges): number {
  return created.size + modified.size + deleted.size;
}

/** Adds a record. */
export function withCreated(changes: PendingChanges, draft: RecordDraft): PendingChanges {
  const draftId = Math.max(0, ...changes.created.keys()) + 1;
  return { ...changes, created: new Map(changes.created).set(draftId, draft) };
}

/** Changes the record of a row, new or stored. */
export function withChanged(changes: PendingChanges, row: EditorRow, draft: RecordDraft): PendingChanges {
  if (row.draftId !== undefined) return { ...changes, created: new Map(changes.created).set(row.draftId, draft) };
  if (!row.stored) return changes;
  const modified = new Map(changes.modified);
  if (isSame(row.stored, draft)) modified.delete(row.stored.rr_id);
  else modified.set(row.stored.rr_id, { stored: row.stored, draft });
  return { ...changes, modified };
}

/** Marks the record of a row as to be deleted; a new one just goes. */
export function withDeleted(changes: PendingChanges, row: EditorRow): PendingChanges {
  const without = withUndone(changes, row);
  if (!row.stored) return without;
  return { ...without, deleted: new Map(without.deleted).set(row.stored.rr_id, row.stored) };
}

/** Takes back what was done to a row. */
export function withUndone(changes: PendingChanges, { draftId, stored }: EditorRow): PendingChanges {
  const [created, modified, deleted] = [new Map(changes.created), new Map(changes.modified), new Map(changes.deleted)];
  if (draftId !== undefined) created.delete(draftId);
  if (stored) {
    modified.delete(stored.rr_id);
    deleted.delete(stored.rr_id);
  }
  return { created, modified, deleted };
}

/**
 * What the editor shows: new records first, then the stored ones with what is to become of them.
 * @param records those that were read: a page of them, or what a search found
 * @returns also the changed ones that are not among those, before them: what is pending stays in sight
 */
export function editorRows(records: readonly StoredRecord[], changes: PendingChanges): EditorRow[] {
  const created = [...changes.created].map(
    ([draftId, record]): EditorRow => ({ key: `new-${draftId}`, state: "created", record, draftId }),
  );
  const read = new Set(records.map(({ rr_id }) => rr_id));
  const changed = [...[...changes.modified.values()].map(({ stored }) => stored), ...changes.deleted.values()];
  const elsewhere = changed.filter(({ rr_id }) => !read.has(rr_id));
  return [...created, ...[...elsewhere, ...records].map((stored) => storedRow(stored, changes))];
}

/** The changes as one batch. */
export function toBatch({ created, modified, deleted }: PendingChanges): Batch {
  return {
    create: [...created.values()],
    modify: [...modified].map(([rr_id, { draft }]) => ({ rr_id, ...draft })),
    delete: [...deleted.keys()],
  };
}

function storedRow(stored: StoredRecord, { modified, deleted }: PendingChanges): EditorRow {
  const changed = modified.get(stored.rr_id)?.draft;
  const { rr_prio, name, type, ttl, value } = stored;
  const record = changed ?? { name, type, ttl, value, ...(rr_prio === null ? {} : { rr_prio }) };
  const state = deleted.has(stored.rr_id) ? "deleted" : changed ? "modified" : "stored";
  return { key: String(stored.rr_id), state, record, stored };
}

function isSame(stored: StoredRecord, draft: RecordDraft): boolean {
  return (
    stored.name === draft.name &&
    stored.type === draft.type &&
    stored.value === draft.value &&
    stored.rr_prio === (draft.rr_prio ?? null) &&
    (draft.ttl === undefined || stored.ttl === draft.ttl)
  );
}
