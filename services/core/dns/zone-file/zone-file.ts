import { ok, type Result, refuse } from "../../result.ts";
import { onlySentence, type Sentence, type SentenceCode, sentence } from "../../sentences.ts";
import { runAtOnce, type Steps } from "../../steps.ts";
import { FaultList, type FirstFault } from "../fault-list.ts";
import { type DomainName, formatDomainName, isSubdomain } from "../name.ts";
import { type ResourceRecord, recordIdentity, recordWireLength, rrsetKey } from "../record.ts";
import { TYPE, typeMnemonic } from "../rr-types.ts";
import { WarningList } from "../warning-list.ts";
import type { TextPosition } from "./lexer.ts";
import { type MasterFileError, type MasterFileOptions, MasterFileReader, type PlacedRecord } from "./reader.ts";

export type { TextPosition } from "./lexer.ts";
export { formatRecordLines, formatZoneFile, formatZoneFileHead } from "./writer.ts";

/** Why a master file was refused, and where: the first fault, and the others that are told. */
export type ZoneFileError = FirstFault<MasterFileError>;

/** What a zone may come to. Short lines below a long `$ORIGIN` make ten times their own size. */
export interface ZoneBounds {
  /** Records but the SOA. */
  readonly records: number;
  /** Octets of all of them on the wire, uncompressed. */
  readonly octets: number;
}

/** How to read a zone's master file; `origin` is also the apex that every owner must be at or below. */
export interface ZoneFileOptions extends MasterFileOptions {
  /** None unless given. */
  readonly bounds?: ZoneBounds | undefined;
}

/** What a master file holds. */
export interface ZoneFile {
  readonly soa: ResourceRecord | undefined;
  /** All records but the SOA, in the file's order, each once, one TTL per RRset. */
  readonly records: readonly ResourceRecord[];
  /** The first `$TTL`, seconds. */
  readonly ttlSeconds: number | undefined;
  readonly warnings: readonly Sentence[];
  /** Where each record stands, the SOA too, for whoever refuses one later. */
  readonly positions: ReadonlyMap<ResourceRecord, TextPosition>;
}

/**
 * Reads a zone's master file: all of it, or what is wrong with it.
 * @see RFC 1035 §5, RFC 2181 §5 (an RRset has no duplicates, and one TTL)
 */
export function parseZoneFile(text: string, options: ZoneFileOptions): Result<ZoneFile, ZoneFileError> {
  return runAtOnce(parseZoneFileSteps(text, options));
}

/** As {@link parseZoneFile}, in steps: a file of a hundred thousand records takes most of a second. */
export function* parseZoneFileSteps(text: string, options: ZoneFileOptions): Steps<Result<ZoneFile, ZoneFileError>> {
  const reader = new MasterFileReader(text, options);
  const collector = new ZoneCollector(options.origin, options.bounds);
  const faults = new FaultList<MasterFileError>();
  for (const next of reader.records()) {
    const problem = next.ok ? collector.add(next.value) : next.error;
    const { line, column } = next.ok ? next.value.position : next.error;
    if (problem !== undefined && !(faults.first() && MAY_FOLLOW.includes(problem.code))) {
      faults.add({ line, column, ...onlySentence(problem) });
    }
    if (reader.isAstray || collector.isFull || faults.isFull) break;
    yield;
  }
  const fault = faults.first();
  if (fault) return refuse(fault);
  const { soa, records, warnings, positions } = collector;
  return ok({ soa, records, warnings: warnings.sentences(), positions, ttlSeconds: reader.firstTtlSeconds });
}

/** What may be wrong with entries because of one before them that was refused, and is not told then. */
const MAY_FOLLOW: readonly SentenceCode[] = ["record-without-owner", "record-without-ttl"];

/** An RRset as far as it has been read. */
interface CollectedRrset {
  readonly first: ResourceRecord;
  /** What identifies its records; most RRsets have one record and need no set. */
  identities?: Set<string>;
}

/** Gathers the records of one zone. */
class ZoneCollector {
  soa: ResourceRecord | undefined;
  readonly records: ResourceRecord[] = [];
  readonly warnings = new WarningList();
  readonly positions = new Map<ResourceRecord, TextPosition>();
  readonly #apex: DomainName;
  readonly #bounds: ZoneBounds | undefined;
  readonly #rrsets = new Map<string, CollectedRrset>();
  #octets = 0;
  /** Whether the zone came to more than it may: nothing more of it is taken. */
  isFull = false;

  constructor(apex: DomainName, bounds: ZoneBounds | undefined) {
    this.#apex = apex;
    this.#bounds = bounds;
  }

  /** Takes a record, or gives back why the zone cannot have it. */
  add({ record, position }: PlacedRecord): Sentence | undefined {
    if (!isSubdomain(record.owner, this.#apex))
      return sentence("outside-zone", { owner: formatDomainName(record.owner) });
    if (record.type === TYPE.SOA) return this.#setSoa(record, position);
    const key = rrsetKey(record.owner, record.type);
    const rrset = this.#rrsets.get(key);
    if (rrset === undefined) this.#rrsets.set(key, { first: record });
    const added = rrset === undefined ? record : this.#addToRrset(rrset, record, position);
    if (added === undefined) return undefined;
    this.records.push(added);
    this.positions.set(added, position);
    this.#octets += recordWireLength(added);
    const problem = this.#sizeProblem();
    this.isFull = problem !== undefined;
    return problem;
  }

  #sizeProblem(): Sentence | undefined {
    if (!this.#bounds) return undefined;
    const { records, octets } = this.#bounds;
    if (this.records.length > records) return sentence("zone-too-many-records", { most: records });
    return this.#octets > octets ? sentence("zone-too-large", { most: octets }) : undefined;
  }

  /** The record as the RRset takes it; undefined when it is there already. */
  #addToRrset(rrset: CollectedRrset, record: ResourceRecord, position: TextPosition): ResourceRecord | undefined {
    rrset.identities ??= new Set([recordIdentity(rrset.first)]);
    const identity = recordIdentity(record);
    if (rrset.identities.has(identity)) {
      this.#warn(position, sentence("record-twice-in-file", { record: describe(record) }));
      return undefined;
    }
    rrset.identities.add(identity);
    const { ttl } = rrset.first;
    // RFC 2181 §5.2: an RRset has one TTL, here the first. Signatures follow what they cover (RFC 4034 §3).
    if (record.ttl === ttl || record.type === TYPE.RRSIG) return record;
    this.#warn(position, sentence("ttl-of-its-rrset", { ttl: record.ttl, record: describe(record), has: ttl }));
    return { ...record, ttl };
  }

  #setSoa(record: ResourceRecord, position: TextPosition): Sentence | undefined {
    if (record.owner.key !== this.#apex.key) return sentence("soa-not-at-apex");
    if (this.soa !== undefined) {
      if (recordIdentity(this.soa) !== recordIdentity(record)) return sentence("second-soa");
      // As at the end of what `dig AXFR` prints.
      this.#warn(position, sentence("record-twice-in-file", { record: describe(record) }));
      return undefined;
    }
    this.soa = record;
    this.positions.set(record, position);
    return undefined;
  }

  #warn({ line }: TextPosition, reason: Sentence): void {
    this.warnings.add(sentence("line", { line, reason }));
  }
}

function describe({ owner, type }: ResourceRecord): string {
  return `${formatDomainName(owner)} ${typeMnemonic(type)}`;
}
