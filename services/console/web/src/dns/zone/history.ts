import type { Texts } from "../../texts/en/index.ts";
import { type ChangedFollower, formatRecord, type ZoneChange, type ZoneRecord } from "../record.ts";

/** One change of the zone. */
export interface HistoryEntry extends ZoneChange {
  /** The zone's serial after it. */
  readonly serial: number;
  readonly timestamp: string;
  readonly actor: string;
  readonly signing?: "begun" | "ended" | "renewed";
}

/** What a change did beside records, in words; nothing where records are all. */
export function describeChange(
  { deleted, added, followers, signing }: HistoryEntry,
  { kinds: words }: Texts["dns"]["history"],
): string[] {
  const before = new Set(followers?.deleted.map(({ name }) => name));
  const after = new Set(followers?.added.map(({ name }) => name));
  const said = [
    ...(followers?.added ?? []).map(({ kind, name }) => words[before.has(name) ? "changed" : "added"](kind, name)),
    ...(followers?.deleted ?? [])
      .filter(({ name }) => !after.has(name))
      .map(({ kind, name }) => words.deleted(kind, name)),
  ];
  // Every change of a signed zone renews signatures.
  const hasRecords = deleted.length + added.length > 0;
  if (signing && (signing !== "renewed" || (!hasRecords && said.length === 0))) said.push(words.signing[signing]);
  return hasRecords || said.length > 0 ? said : [words.serial];
}

/** A change line by line: records, and aliases and pools with what they follow. */
export function changeLines(entry: ZoneChange, side: "deleted" | "added", words: Texts["dns"]["history"]): string[] {
  const follows = ({ name, kind, target, members = [] }: ChangedFollower) =>
    [name, words.kinds.of[kind], target ?? members.map(({ value }) => value).join(", ")].join(" ");
  return [...entry[side].map(formatRecord), ...(entry.followers?.[side] ?? []).map(follows)];
}

/**
 * The serials whose records, SOA, aliases and pools are those of now: the way back to them would change nothing.
 * @param entries all changes from the newest on
 */
export function sameAsNow(entries: readonly HistoryEntry[]): ReadonlySet<number> {
  const same = new Set<number>();
  // How often each thing came since then, less how often it went.
  const balance = new Map<string, number>();
  const count = (thing: string, by: number) => {
    const sum = (balance.get(thing) ?? 0) + by;
    if (sum === 0) balance.delete(thing);
    else balance.set(thing, sum);
  };
  for (const entry of entries) {
    if (balance.size === 0) same.add(entry.serial);
    for (const [side, by] of [
      ["added", 1],
      ["deleted", -1],
    ] as const) {
      for (const record of entry[side]) count(formatRecord(withoutSerial(record)), by);
      for (const follower of entry.followers?.[side] ?? []) count(JSON.stringify(follower), by);
    }
  }
  return same;
}

/** A SOA but for its serial, which every change alters. */
function withoutSerial(record: ZoneRecord): ZoneRecord {
  if (record.type !== "SOA") return record;
  return { ...record, value: record.value.split(" ").toSpliced(2, 1).join(" ") };
}
