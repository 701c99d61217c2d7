import type { Steps } from "../../steps.ts";
import { recordWireLength } from "../record.ts";
import { TYPE } from "../rr-types.ts";
import { recordOctets } from "../zone-octets.ts";
import type { TextPosition } from "./lexer.ts";
import { type MasterFileOptions, MasterFileReader } from "./reader.ts";

/** What a change makes at most: records, and octets of the zone database. */
export interface ChangeBounds {
  readonly records: number;
  readonly octets: number;
}

/** What a master file comes to, told without making its records. */
export interface ZoneFileSize {
  /** How many records it makes, duplicates included. */
  readonly records: number;
  /** Octets of the zone database: no less than `least`, no more than `most`. */
  readonly octets: { readonly least: number; readonly most: number };
  /** Octets of the records on the wire, uncompressed: no less than these. */
  readonly leastWireOctets: number;
  /** Where it certainly passes the bounds, and which of them; what follows is not counted. */
  readonly excess?: { readonly position: TextPosition; readonly of: keyof ChangeBounds };
}

/** Of a line without `$GENERATE`: a record needs four characters and its line end, and what it says once. */
const LEAST_RECORD_CHARACTERS = 5;

/** Sections in which a `$GENERATE` is measured: numbers of a section differ in few digits. */
const SECTIONS = 16;

/**
 * Tells what a master file comes to before anything is made of it. A file without `$GENERATE` makes no more records than
 * it has lines, so its lines are counted; with one, its entries are read, and of each range the ends of some sections:
 * numbers grow in length with their value, so each section lies between its ends.
 * Stops at the first entry that is wrong: whoever reads the file then says so.
 */
export function* measureZoneFile(text: string, options: MasterFileOptions, bounds: ChangeBounds): Steps<ZoneFileSize> {
  const apexOctets = options.origin.wire.length;
  if (!/\$GENERATE/i.test(text)) return measureLines(text, apexOctets);
  let records = 0;
  let leastWireOctets = 0;
  let excess: ZoneFileSize["excess"];
  const octets = { least: 0, most: 0 };
  for (const next of new MasterFileReader(text, { ...options, sections: SECTIONS }).records()) {
    // A directive that is too much is counted to its end.
    if (!next.ok || (excess && !isSamePosition(excess.position, next.value.position))) break;
    const { record, section, position } = next.value;
    yield;
    if (record.type === TYPE.SOA) continue;
    const { count, last } = section ?? { count: 1, last: record };
    const [one, other] = [record, last].map(
      ({ owner, rdata }) => recordOctets(owner.wire, Math.min(apexOctets, owner.wire.length), rdata.length) * count,
    ) as [number, number];
    records += count;
    leastWireOctets += Math.min(recordWireLength(record), recordWireLength(last)) * count;
    octets.least += Math.min(one, other);
    octets.most += Math.max(one, other);
    // Plain records may be duplicates, which count once; the reader sees those.
    if (section === undefined) continue;
    if (records > bounds.records) excess ??= { position, of: "records" };
    else if (octets.least > bounds.octets) excess ??= { position, of: "octets" };
  }
  return { records, octets, leastWireOctets, ...(excess ? { excess } : {}) };
}

function isSamePosition(a: TextPosition, b: TextPosition): boolean {
  return a.line === b.line && a.column === b.column;
}

function measureLines(text: string, apexOctets: number): ZoneFileSize {
  let lines = 1;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) lines += 1;
  const records = Math.min(lines, Math.ceil(text.length / LEAST_RECORD_CHARACTERS));
  const root = new Uint8Array(1);
  const most = text.length + records * (recordOctets(root, 1, 0) + apexOctets);
  return { records, octets: { least: 0, most }, leastWireOctets: 0 };
}
