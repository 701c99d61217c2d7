import type { Readable } from "node:stream";
import { type CsvError, parse } from "csv-parse";
import { restoreCell } from "../../core/mail/csv-cell.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { Turn } from "../../platform/turns.ts";
import type { RejectedLines } from "./rejected-lines.ts";

export function columnMissing(column: string): Sentence {
  return sentence("column-missing", { column });
}

/** Records with the lines they begin on, in turns with whatever else there is to do; what is no CSV goes to `errors`. */
export async function* readRecords(
  csv: Readable,
  errors: RejectedLines,
): AsyncGenerator<{ readonly line: number; readonly record: readonly string[] }> {
  const parser = parse({
    bom: true,
    info: true,
    relax_column_count: true,
    // A stray quote is part of its cell: otherwise it would swallow the lines up to the next one.
    relax_quotes: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    on_skip: (error: CsvError | undefined) => {
      errors.push({ line: Number(error?.lines ?? 0), reason: sentence("csv-invalid") });
      return undefined;
    },
  });
  csv.on("error", (error) => parser.destroy(error));
  const turn = new Turn();
  try {
    for await (const { info, record } of csv.pipe(parser) as AsyncIterable<{
      info: { lines: number };
      record: string[];
    }>) {
      if (turn.isOver) await turn.next();
      // The parser counts lines at the end of a record; quoted line breaks lie within it.
      const breaks = record.reduce((sum, cell) => sum + (cell.match(/\r\n|\n|\r/g)?.length ?? 0), 0);
      yield { line: info.lines - breaks, record: record.map(restoreCell) };
    }
  } finally {
    // Whoever stops reading leaves the rest of it: an uploaded file would stay open.
    csv.destroy();
  }
}

/** What is wrong with a header. @param needed the column that there must be */
export function findHeaderFault(header: readonly string[], needed: string): Sentence | undefined {
  if (!isReadable(header)) return LINE_INVALID;
  if (!header.includes(needed)) return columnMissing(needed);
  const repeated = header.find((name, index) => header.indexOf(name) < index);
  return repeated === undefined ? undefined : sentence("column-invalid", { column: repeated });
}

const LINE_INVALID = sentence("csv-line-invalid");

/** U+FFFD is what octets that are no UTF-8 have become. */
function isReadable(record: readonly string[]): boolean {
  return !record.some((cell) => /[\0\uFFFD]/.test(cell));
}

/** The cells of a record by the names of their columns; those that it lacks are empty. */
export function nameCells(header: readonly string[], record: readonly string[]): Result<Map<string, string>, Sentence> {
  if (record.length > header.length) return refuse(sentence("csv-too-many-columns"));
  if (!isReadable(record)) return refuse(LINE_INVALID);
  return ok(new Map(header.map((name, index) => [name, record[index] ?? ""])));
}
