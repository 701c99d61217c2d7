import type { Readable } from "node:stream";
import { type CsvError, type Parser, parse } from "csv-parse";
import { restoreCell } from "../../core/mail/csv-cell.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { Turn } from "../../platform/turns.ts";
import type { RejectedLines } from "./rejected-lines.ts";

export function columnMissing(column: string): Sentence {
  return sentence("column-missing", { column });
}

/** What was found, and the line it begins on, counted from 1. */
interface CsvRecord {
  readonly line: number;
  readonly record: readonly string[];
}

/** Of one record. A contact's fields and groups are less; more of it would be held until a quote is closed, or for good. */
const MOST_RECORD_MEBIBYTES = 4;

/**
 * Records but those of blanks, in turns with whatever else there is to do; what is no CSV goes to `errors`. Of a file in
 * UTF-16 all is unreadable. A record that is too long is the last one that is read.
 */
export async function* readRecords(csv: Readable, errors: RejectedLines): AsyncGenerator<CsvRecord> {
  // Where the record before ends.
  let before: Counted = { lines: 0, empty_lines: 0 };
  const reading = { isUtf16: false, isCut: false };
  // The record that cannot be read is the first behind the one before, and the empty lines between them.
  const reject = (emptyLines: number) => {
    const reason = reading.isCut
      ? sentence("csv-record-too-long", { mebibytes: MOST_RECORD_MEBIBYTES })
      : sentence("csv-invalid");
    errors.push({ line: before.lines + emptyLines - before.empty_lines + 1, reason });
    return undefined;
  };
  const parser = parse({
    bom: true,
    info: true,
    on_record: (record, { lines, empty_lines }) => {
      if (reading.isCut) return reject(empty_lines);
      before = { lines, empty_lines };
      return record;
    },
    relax_column_count: true,
    // A stray quote is part of its cell: otherwise it would swallow the lines up to the next one.
    relax_quotes: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    // A quote that nobody closes.
    on_skip: (error: CsvError | undefined) => reject(Number(error?.empty_lines ?? 0)),
  });
  feed(parser, csv, reading).catch((error) => parser.destroy(error));
  const turn = new Turn();
  try {
    for await (const { info, record } of parser as AsyncIterable<{ info: Counted; record: string[] }>) {
      if (turn.isOver) await turn.next();
      if (record.every((cell) => cell.trim() === "")) continue;
      // The parser counts lines at the end of a record; quoted line breaks lie within it.
      const breaks = record.reduce((sum, cell) => sum + (cell.match(/\r\n|\n|\r/g)?.length ?? 0), 0);
      yield { line: info.lines - breaks, record: reading.isUtf16 ? [UNREADABLE] : record.map(restoreCell) };
    }
  } finally {
    // Whoever stops reading leaves the rest of it: an uploaded file would stay open.
    csv.destroy();
  }
}

/**
 * Gives a parser its octets, up to a record that is too long. The parser's own bound counts no separators, and goes on
 * amidst the record.
 */
async function feed(
  parser: Parser,
  csv: AsyncIterable<Buffer | string>,
  reading: { isUtf16: boolean; isCut: boolean },
): Promise<void> {
  let ended = -1;
  let octets = 0;
  for await (const chunk of csv) {
    // The parser would take it by its byte order mark, and the ends of quoted cells amiss.
    if (ended < 0) reading.isUtf16 = /^(?:\xff\xfe|\xfe\xff)/.test(Buffer.from(chunk).toString("latin1", 0, 2));
    await new Promise<void>((resolve, reject) => {
      parser.write(chunk, (error) => (error ? reject(error) : resolve()));
    });
    const { records, empty_lines } = parser.info;
    octets = records + empty_lines > ended ? 0 : octets + chunk.length;
    ended = records + empty_lines;
    reading.isCut = octets > MOST_RECORD_MEBIBYTES * 2 ** 20;
    if (reading.isCut) break;
  }
  parser.end();
}

interface Counted {
  readonly lines: number;
  readonly empty_lines: number;
}

/** The names of the columns, without the blanks around them; empty of those that have none. */
export function readHeader(record: readonly string[]): readonly string[] {
  return record.map((name) => name.trim());
}

/** More than an export of contacts has, whose custom fields are columns. */
const MOST_COLUMNS = 10_000;

/**
 * What is wrong with a header.
 * @param needed the column that there must be
 * @param fieldOf what a column is of: two of one field are one too many
 */
export function findHeaderFault(
  header: readonly string[],
  needed: string,
  fieldOf: (name: string) => string = (name) => name,
): Sentence | undefined {
  if (header.length > MOST_COLUMNS) return sentence("csv-header-too-long", { most: MOST_COLUMNS });
  if (!isReadable(header)) return sentence("csv-not-utf8");
  if (!header.includes(needed)) {
    return isOtherwiseParted(header) ? sentence("column-missing-commas", { column: needed }) : columnMissing(needed);
  }
  const fields = new Set<string>();
  for (const name of header.filter(Boolean)) {
    const field = fieldOf(name);
    if (fields.has(field)) return sentence("column-invalid", { column: name });
    fields.add(field);
  }
  return undefined;
}

/** As spreadsheets write them where the comma stands in numbers, or with a line that names the separator. */
function isOtherwiseParted(header: readonly string[]): boolean {
  return header.some((name) => /[;\t]/.test(name)) || /^sep=/i.test(header[0] ?? "");
}

/** What octets that are no UTF-8 become. */
const UNREADABLE = "\uFFFD";

function isReadable(record: readonly string[]): boolean {
  return !record.some((cell) => cell.includes(UNREADABLE) || cell.includes("\0"));
}

/** The cells of a record by the names of their columns, without those that it lacks; cells without a name are empty. */
export function nameCells(header: readonly string[], record: readonly string[]): Result<Map<string, string>, Sentence> {
  const stray = record.findIndex((cell, index) => !header[index] && cell.trim() !== "");
  if (stray >= 0) {
    // Behind the last name nobody sees how many columns there are.
    const isWithin = header.slice(stray).some((name) => name !== "");
    return refuse(isWithin ? sentence("csv-column-unnamed", { place: stray + 1 }) : sentence("csv-too-many-columns"));
  }
  if (!isReadable(record)) return refuse(sentence("csv-line-invalid"));
  return ok(new Map(record.flatMap((cell, index) => (header[index] ? [[header[index], cell]] : []))));
}
