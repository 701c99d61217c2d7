import { groupBy } from "../groups.ts";
import { type Refusal, unacceptable } from "../refusal.ts";
import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";
import { type DomainName, formatDomainName } from "./name.ts";
import { canonicalRdata, rrsetKey } from "./record.ts";
import { typeMnemonic } from "./rr-types.ts";
import type { Modification, RecordDraft, RecordEdits, StoredRecord } from "./zone-edit.ts";

/**
 * A change of one RRset: put others in its place, add some, take one out, or delete all of it.
 * Each is as if nothing had happened where there is nothing to be done.
 */
export interface RrsetChange {
  readonly owner: DomainName;
  readonly type: number;
  readonly verb: "replace" | "extend" | "prune" | "delete";
  /** Seconds; undefined: as it is, else as the zone's. */
  readonly ttl: number | undefined;
  /** RDATA in wire form. */
  readonly rdatas: readonly Uint8Array[];
}

/** An RRset on its way through changes. */
interface Line {
  readonly owner: DomainName;
  readonly type: number;
  readonly stored: readonly StoredRecord[];
  ttl: number | undefined;
  /** By canonical RDATA. */
  readonly rdatas: Map<string, Uint8Array>;
}

/**
 * What changes of RRsets come to, made one after the other.
 * @param current all records at their owners
 * @returns refused when records would have another TTL than the rest of their RRset (RFC 2181 §5.2)
 */
export function editsOfRrsets(
  current: readonly StoredRecord[],
  changes: readonly RrsetChange[],
): Result<RecordEdits, Refusal> {
  const lines = new Map<string, Line>();
  const stored = groupBy(current, ({ owner, type }) => rrsetKey(owner, type));
  for (const change of changes) {
    const key = rrsetKey(change.owner, change.type);
    const line = lines.get(key) ?? lineOf(stored.get(key) ?? [], change);
    lines.set(key, line);
    const problem = apply(line, change);
    if (problem) return refuse(ofRrset(change, problem));
  }
  const edits = [...lines.values()].map(editsOf);
  return ok({
    creations: edits.flatMap(({ creations }) => creations),
    modifications: edits.flatMap(({ modifications }) => modifications),
    deletionIds: edits.flatMap(({ deletionIds }) => deletionIds),
  });
}

/** What is wrong, with the RRset that it is wrong about. */
export function ofRrset(
  { owner, type }: { readonly owner: DomainName; readonly type: number },
  reason: Sentence,
): Refusal {
  return unacceptable("rrset", { name: formatDomainName(owner), type: typeMnemonic(type), reason });
}

function lineOf(stored: readonly StoredRecord[], { owner, type }: RrsetChange): Line {
  const rdatas = new Map(stored.map(({ rdata }) => [identity(type, rdata), rdata]));
  return { owner, type, stored, ttl: stored[0]?.ttl, rdatas };
}

function apply(line: Line, { verb, ttl, rdatas }: RrsetChange): Sentence | undefined {
  const given = rdatas.map((rdata) => [identity(line.type, rdata), rdata] as const);
  if (verb === "replace" || verb === "delete") line.rdatas.clear();
  if (verb === "extend" && line.rdatas.size > 0 && ttl !== undefined && ttl !== line.ttl)
    return sentence("rrset-other-ttl");
  for (const [key, rdata] of given) {
    if (verb === "prune") line.rdatas.delete(key);
    else if (!line.rdatas.has(key)) line.rdatas.set(key, rdata);
  }
  if (verb === "replace" || verb === "extend") line.ttl = ttl ?? line.ttl;
  return undefined;
}

function editsOf({ owner, type, stored, ttl, rdatas }: Line): RecordEdits {
  const kept = stored.filter(({ rdata }) => rdatas.has(identity(type, rdata)));
  const has = new Set(kept.map(({ rdata }) => identity(type, rdata)));
  const draft = (rdata: Uint8Array): RecordDraft => ({ owner, type, ttl, rdata });
  const retimed = kept.filter((record) => record.ttl !== ttl);
  return {
    creations: [...rdatas].filter(([key]) => !has.has(key)).map(([, rdata]) => draft(rdata)),
    modifications: retimed.map(
      ({ id }): Modification => ({ id, newOwner: undefined, draft: ({ rdata }) => ok(draft(rdata)) }),
    ),
    deletionIds: stored.filter(({ rdata }) => !rdatas.has(identity(type, rdata))).map(({ id }) => id),
  };
}

function identity(type: number, rdata: Uint8Array): string {
  return Buffer.from(canonicalRdata(type, rdata)).toString("latin1");
}
