import { type Refusal, unacceptable } from "../refusal.ts";
import { ok, type Result, refuse } from "../result.ts";
import { runAtOnce, type Steps } from "../steps.ts";
import type { FollowerChange, FollowerEdits } from "./follow/follower-edits.ts";
import type { DomainName } from "./name.ts";
import { encodeRecords, type ResourceRecord, recordIdentity, rrsetKey } from "./record.ts";
import { TYPE } from "./rr-types.ts";
import type { SoaRdata } from "./soa.ts";
import { checkTouchedNames } from "./zone-checks.ts";

/** A record with the id by which the API knows it. */
export interface StoredRecord extends ResourceRecord {
  readonly id: number;
}

/** A record as somebody wants it. Without `ttl` it gets its RRset's, else the zone's; with one, it sets the RRset's. */
export interface RecordDraft {
  readonly owner: DomainName;
  readonly type: number;
  readonly ttl: number | undefined;
  readonly rdata: Uint8Array;
}

export interface Modification {
  readonly id: number;
  /** The owner it gets, when that is to change. */
  readonly newOwner: DomainName | undefined;
  /** What the record is to become, from what it is. */
  readonly draft: (current: ResourceRecord) => Result<RecordDraft, Refusal>;
}

/** Changes that come into force together. */
export interface ZoneEdits extends RecordEdits {
  /** Refused where the zone has another serial: it was changed since it was looked at. */
  readonly atSerial?: number | undefined;
  readonly followers?: FollowerEdits | undefined;
}

/** Those of records. */
export interface RecordEdits {
  readonly creations: readonly RecordDraft[];
  readonly modifications: readonly Modification[];
  readonly deletionIds: readonly number[];
}

export const NO_RECORD_EDITS: RecordEdits = { creations: [], modifications: [], deletionIds: [] };

/** What is to be written: rows to delete, to overwrite and to add. */
export interface RecordRows {
  readonly deletedIds: readonly number[];
  readonly updated: readonly StoredRecord[];
  readonly created: readonly ResourceRecord[];
}

/** The difference that a change makes, without the SOA: what the journal keeps. */
export interface RecordDifference {
  readonly deleted: readonly ResourceRecord[];
  readonly added: readonly ResourceRecord[];
}

/** What signing adds to a change: derived records to delete, by their ids, and to add. */
export interface DerivedChange {
  readonly deleted: readonly StoredRecord[];
  readonly added: readonly ResourceRecord[];
}

/** What one change writes. */
export interface ZoneChange {
  /** The SOA from now on, its serial included. */
  readonly soa: SoaRdata;
  readonly ttl: number;
  readonly rows: RecordRows;
  readonly difference: RecordDifference;
  /** What signing adds, where the plan has it already; else it is made of the change. */
  readonly derived?: DerivedChange;
  /** What becomes of the names that follow others. */
  readonly followers?: FollowerChange | undefined;
  /** The plan has looked after derived addresses by itself: it makes them, or puts them back as they were. */
  readonly mindsDerived?: boolean;
  /** Until when caches may have data that leaves the zone, when that is longer than they keep other data. */
  readonly cachedUntil?: Date | undefined;
}

/** What edits come to. */
export interface EditedRecords {
  readonly rows: RecordRows;
  readonly difference: RecordDifference;
  /** Records created, modified or deleted on request: by so much the serial increases. */
  readonly changeCount: number;
  /** Those of them that are there afterwards. */
  readonly changed: readonly ResourceRecord[];
  /** All records at the touched names, as they will be; by `DomainName.key`. */
  readonly touched: ReadonlyMap<string, readonly ResourceRecord[]>;
}

/** One record's way through a change; `before` and `after` are undefined where it is not there. */
interface Line {
  readonly id?: number;
  readonly before?: StoredRecord;
  after: ResourceRecord | undefined;
}

/**
 * Applies edits to a zone's records: deletions, then modifications, then creations; all checks are made on the result.
 * @param current all records at the names that the edits touch (others do no harm)
 * @returns refused when an id is not there, a record would be there twice, or the zone may not be so
 */
export function editRecords(
  zone: { readonly apex: DomainName; readonly ttl: number },
  current: readonly StoredRecord[],
  edits: RecordEdits,
): Result<EditedRecords, Refusal> {
  const lines = current.map<Line>((record) => ({ id: record.id, before: record, after: record }));
  const byId = new Map(lines.map((line) => [line.id, line]));
  const edited = new Set<Line>();
  const drafts: [Line, RecordDraft][] = [];

  const named = new Set<number>();
  for (const id of edits.deletionIds) {
    const line = byId.get(id);
    if (!line) return refuse(recordDoesNotExist(id));
    if (named.has(id)) return refuse(namedTwice(id));
    named.add(id);
    edited.add(line);
    line.after = undefined;
  }
  for (const { id, draft } of edits.modifications) {
    const line = byId.get(id);
    if (!line?.before) return refuse(recordDoesNotExist(id));
    if (named.has(id)) return refuse(namedTwice(id));
    named.add(id);
    const wanted = draft(line.before);
    if (!wanted.ok) return wanted;
    if (isAlready(line.before, wanted.value)) continue;
    edited.add(line);
    drafts.push([line, wanted.value]);
  }
  for (const draft of edits.creations) {
    const line: Line = { after: undefined };
    lines.push(line);
    edited.add(line);
    drafts.push([line, draft]);
  }
  applyDrafts(zone, lines, drafts);

  const touched = touchedNames(lines);
  const problem = findDuplicate(touched) ?? checkNames(zone.apex, touched);
  if (problem) return refuse(problem);
  return ok({
    rows: rowsOf(lines),
    difference: differenceOf(lines),
    changeCount: edited.size,
    changed: drafts.map(([line]) => line.after as ResourceRecord),
    touched,
  });
}

function recordDoesNotExist(id: number): Refusal {
  return unacceptable("record-unknown", { record: id });
}

/** What only one of two sets of records has. */
export interface SetDifference<Before extends ResourceRecord> {
  readonly deleted: readonly Before[];
  readonly added: readonly ResourceRecord[];
}

/** Two sets of records by what only one of them has; TTLs and the case of names count. */
export function differenceBetween<Before extends ResourceRecord>(
  before: readonly Before[],
  after: readonly ResourceRecord[],
): SetDifference<Before> {
  return runAtOnce(differenceSteps(before, after));
}

/** As {@link differenceBetween}, in steps, for whole zones. */
export function* differenceSteps<Before extends ResourceRecord>(
  before: readonly Before[],
  after: readonly ResourceRecord[],
): Steps<SetDifference<Before>> {
  const gone = new Map<string, Before>();
  const added: ResourceRecord[] = [];
  for (const record of before) {
    gone.set(exactKey(record), record);
    yield;
  }
  const kept = new Set<string>();
  for (const record of after) {
    const key = exactKey(record);
    if (gone.delete(key)) kept.add(key);
    else if (!kept.has(key)) added.push(record);
    yield;
  }
  return { deleted: [...gone.values()], added };
}

/** A key that only records share which are the same to the last octet. */
export function exactKey(record: ResourceRecord): string {
  return Buffer.from(encodeRecords([record])).toString("latin1");
}

function namedTwice(id: number): Refusal {
  return unacceptable("record-twice", { record: id });
}

function isAlready(record: ResourceRecord, draft: RecordDraft): boolean {
  return exactKey(record) === exactKey({ ...draft, ttl: draft.ttl ?? record.ttl });
}

/** RFC 2181 §5.2: an RRset has one TTL, so the last one asked for becomes that of all its records. */
function applyDrafts(
  zone: { readonly ttl: number },
  lines: readonly Line[],
  drafts: readonly [Line, RecordDraft][],
): void {
  const drafted = new Set(drafts.map(([line]) => line));
  const rrsetTtls = new Map<string, number>();
  for (const line of lines) {
    if (line.after && !drafted.has(line)) rrsetTtls.set(rrsetKey(line.after.owner, line.after.type), line.after.ttl);
  }
  for (const [line, { owner, type, ttl, rdata }] of drafts) {
    const key = rrsetKey(owner, type);
    const chosen = ttl ?? rrsetTtls.get(key) ?? line.before?.ttl ?? zone.ttl;
    rrsetTtls.set(key, chosen);
    line.after = { owner, type, ttl: chosen, rdata };
  }
  if (drafts.length === 0) return;
  for (const line of lines) {
    // RFC 4034 §3: the TTL of a signature is that of what it covers, so those of one name differ.
    if (!line.after || line.after.type === TYPE.RRSIG) continue;
    const ttl = rrsetTtls.get(rrsetKey(line.after.owner, line.after.type)) as number;
    if (ttl !== line.after.ttl) line.after = { ...line.after, ttl };
  }
}

function touchedNames(lines: readonly Line[]): Map<string, ResourceRecord[]> {
  const touched = new Map<string, ResourceRecord[]>();
  for (const { before, after } of lines) {
    if (before === after) continue;
    if (before) touched.set(before.owner.key, []);
    if (after) touched.set(after.owner.key, []);
  }
  for (const { after } of lines) if (after) touched.get(after.owner.key)?.push(after);
  return touched;
}

function findDuplicate(touched: ReadonlyMap<string, readonly ResourceRecord[]>): Refusal | undefined {
  for (const records of touched.values()) {
    if (new Set(records.map(recordIdentity)).size < records.length) return unacceptable("record-exists");
  }
  return undefined;
}

function checkNames(apex: DomainName, touched: ReadonlyMap<string, readonly ResourceRecord[]>): Refusal | undefined {
  const checked = checkTouchedNames(apex, touched);
  return checked.ok ? undefined : unacceptable(checked.error);
}

function rowsOf(lines: readonly Line[]): RecordRows {
  const deletedIds: number[] = [];
  const updated: StoredRecord[] = [];
  const created: ResourceRecord[] = [];
  for (const { id, before, after } of lines) {
    if (before === after) continue;
    if (id === undefined) created.push(after as ResourceRecord);
    else if (after === undefined) deletedIds.push(id);
    else updated.push({ ...after, id });
  }
  return { deletedIds, updated, created };
}

function differenceOf(lines: readonly Line[]): RecordDifference {
  const changed = lines.filter(({ before, after }) => before !== after);
  return differenceBetween(
    changed.flatMap(({ before }) => before ?? []),
    changed.flatMap(({ after }) => after ?? []),
  );
}
