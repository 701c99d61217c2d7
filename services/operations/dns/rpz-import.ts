import type { DomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { ImportedLine, ImportedRule } from "../../core/dns/rpz/import.ts";
import { compareRule } from "../../core/dns/rpz/rule-conflict.ts";
import { formatRpzAction, formatRpzTrigger, showRpzRecord } from "../../core/dns/rpz/rules.ts";
import type { SafeNames } from "../../core/dns/rpz/safe-names.ts";
import { addSerial } from "../../core/dns/serial.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db, Transaction } from "../../platform/postgres/db.ts";
import { copyRecords, readRecordsAt } from "../../store/dns/records.ts";
import { addTriggers, countRules, writeFeedVersion } from "../../store/dns/rpz-feeds.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { changeFeed, withLockedFeed } from "./rpz-feeds.ts";
import { obstacleTo, ruleRecord } from "./rpz-rules.ts";
import { readSafeNames } from "./rpz-safe-names.ts";

/** A line that wants another action than its trigger has. */
export interface ImportConflict {
  readonly line: number;
  readonly trigger: string;
  readonly has: string;
  readonly wanted: string;
}

/** What an import came to; what is neither in conflict nor rejected is kept. */
export interface ImportReport {
  readonly feed: Zone;
  /** Rules added. */
  readonly added: number;
  /** Lines of which every rule was there already. */
  readonly duplicates: number;
  readonly conflicts: readonly ImportConflict[];
  readonly rejected: readonly { readonly line: number; readonly reason: Sentence }[];
}

export interface ImportOptions {
  readonly actor: string;
  /** Told how many lines have been read, every now and then. */
  readonly onProgress: (lines: number) => void;
}

/** Lines that are looked up and written together. */
const LINES_A_CHUNK = 10_000;
/** Up to so many new rules go into the journal; more of them make the whole zone the better transfer. */
const MOST_JOURNALLED = 50_000;

/** Adds the rules of a file to a feed, as one change. @param readLines reads the file, from its first line each time */
export function importRules(
  db: Db,
  apex: DomainName,
  readLines: () => Iterable<ImportedLine>,
  options: ImportOptions,
): Promise<Result<ImportReport, Refusal>> {
  return withLockedFeed(db, apex, async (transaction, feed) => {
    const importer = new Importer(transaction, feed, {
      safeNames: await readSafeNames(transaction),
      isEmpty: (await countRules(transaction, feed)) === 0,
    });
    let read = 0;
    for (const chunk of inChunks(readLines(), LINES_A_CHUNK)) {
      await importer.add(chunk);
      read += chunk.length;
      options.onProgress(read);
    }
    return ok(await importer.finish(options.actor));
  });
}

/** A rule on its way into the feed. */
interface Candidate {
  readonly line: number;
  readonly rule: ImportedRule;
  readonly record: ResourceRecord;
}

class Importer {
  readonly #transaction: Transaction;
  readonly #feed: Zone;
  readonly #safeNames: SafeNames;
  readonly #conflicts: ImportConflict[] = [];
  readonly #rejected: { line: number; reason: Sentence }[] = [];
  /** New rules that are not written yet, for the journal; what is beyond it has been written. */
  #unwritten: ResourceRecord[] = [];
  /** The owners written so far, while these are all that the feed has: others need not be looked up. */
  readonly #owners: Set<string> | undefined;
  /** The database takes rules in while the next ones are read. */
  #writing: Promise<void> = Promise.resolve();
  #added = 0;
  #triggers = 0;
  #duplicates = 0;

  /** @param known.isEmpty whether the feed has no rules yet */
  constructor(
    transaction: Transaction,
    feed: Zone,
    known: { readonly safeNames: SafeNames; readonly isEmpty: boolean },
  ) {
    this.#transaction = transaction;
    this.#feed = feed;
    this.#safeNames = known.safeNames;
    this.#owners = known.isEmpty ? new Set() : undefined;
  }

  async add(lines: readonly ImportedLine[]): Promise<void> {
    const candidates = lines.map((line) => this.#candidatesOf(line));
    await this.#writing;
    const existing = await this.#existingAt(candidates.flat());
    const accepted: ResourceRecord[] = [];
    for (const ofLine of candidates) {
      const duplicates = ofLine.filter((candidate) => {
        const outcome = this.#judge(candidate, existing);
        if (outcome === "new") accepted.push(candidate.record);
        return outcome === "duplicate";
      });
      if (ofLine.length > 0 && duplicates.length === ofLine.length) this.#duplicates += 1;
    }
    this.#added += accepted.length;
    this.#unwritten.push(...accepted);
    if (this.#added > MOST_JOURNALLED) await this.#write();
  }

  async finish(actor: string): Promise<ImportReport> {
    await this.#writing;
    return {
      feed: await this.#publish(actor),
      added: this.#added,
      duplicates: this.#duplicates,
      conflicts: this.#conflicts,
      rejected: this.#rejected,
    };
  }

  /** The rules of a line, or none when it is rejected. */
  #candidatesOf(line: ImportedLine): Candidate[] {
    if ("reason" in line) return this.#reject(line.line, line.reason);
    const candidates: Candidate[] = [];
    for (const rule of line.rules) {
      const obstacle = obstacleTo(rule.trigger, this.#safeNames);
      if (obstacle !== undefined) return this.#reject(line.line, obstacle);
      const record = ruleRecord(rule.trigger, rule.action, this.#feed.apex);
      if (!record.ok) return this.#reject(line.line, record.error);
      candidates.push({ line: line.line, rule, record: record.value });
    }
    return candidates;
  }

  #reject(line: number, reason: Sentence): Candidate[] {
    this.#rejected.push({ line, reason });
    return [];
  }

  /** The records at the candidates' owners: those of the database, and those that are still to be written. */
  async #existingAt(candidates: readonly Candidate[]): Promise<Map<string, ResourceRecord[]>> {
    const owners = candidates.map(({ record }) => record.owner);
    const existing = new Map<string, ResourceRecord[]>(owners.map(({ key }) => [key, []]));
    const stored = this.#owners ? owners.filter(({ key }) => this.#owners?.has(key)) : owners;
    for (const record of await readRecordsAt(this.#transaction, this.#feed.id, stored)) {
      existing.get(record.owner.key)?.push(record);
    }
    for (const record of this.#unwritten) existing.get(record.owner.key)?.push(record);
    return existing;
  }

  #judge({ line, rule, record }: Candidate, existing: Map<string, ResourceRecord[]>): "new" | "duplicate" | "conflict" {
    const siblings = existing.get(record.owner.key)!;
    const comparison = compareRule(siblings, record);
    if (comparison.kind === "conflict") {
      this.#conflicts.push({
        line,
        trigger: formatRpzTrigger(rule.trigger),
        has: showRpzRecord(comparison.with, this.#feed.apex).action,
        wanted: formatRpzAction(rule.action),
      });
    } else if (comparison.kind === "new") {
      if (siblings.length === 0) this.#triggers += 1;
      siblings.push(record);
    }
    return comparison.kind;
  }

  async #write(): Promise<void> {
    for (const { owner } of this.#unwritten) this.#owners?.add(owner.key);
    const records = this.#unwritten;
    this.#unwritten = [];
    ({ finished: this.#writing } = await copyRecords(this.#transaction, this.#feed.id, records));
  }

  /** One change of the zone for the whole file: with a journal entry when that is worth it. */
  async #publish(actor: string): Promise<Zone> {
    if (this.#added === 0) return this.#feed;
    if (this.#added <= MOST_JOURNALLED) {
      const rows = { created: this.#unwritten, deleted: [], triggers: this.#triggers };
      return (await changeFeed(this.#transaction, this.#feed, rows, actor)).feed;
    }
    await addTriggers(this.#transaction, this.#feed, this.#triggers);
    const serial = addSerial(this.#feed.soa.serial, 1);
    await writeFeedVersion(this.#transaction, this.#feed, serial);
    return { ...this.#feed, version: this.#feed.version + 1, soa: { ...this.#feed.soa, serial } };
  }
}

function* inChunks<T>(items: Iterable<T>, size: number): Generator<T[]> {
  let chunk: T[] = [];
  for (const item of items) {
    chunk.push(item);
    if (chunk.length === size) {
      yield chunk;
      chunk = [];
    }
  }
  if (chunk.length > 0) yield chunk;
}
