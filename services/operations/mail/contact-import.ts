import type { Readable } from "node:stream";
import { z } from "zod";
import {
  type ContactChange,
  contactFields,
  contactOversized,
  MAX_LIST_ITEMS,
  PROFILE_COLUMNS,
  toContactChange,
} from "../../core/mail/contact-input.ts";
import { splitGroupNames } from "../../core/mail/group-list.ts";
import { wrappedTagName } from "../../core/mail/personalise.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import {
  findKnownKeys,
  findOversized,
  judgeContactAddress,
  type SavedContacts,
  saveContacts,
} from "../../store/mail/contacts/contact-profiles.ts";
import { columnMissing, findHeaderFault, nameCells, readHeader, readRecords } from "./csv-records.ts";
import { type ImportError, RejectedLines } from "./rejected-lines.ts";

export interface ImportOptions {
  /** Says what would become of the lines, and does nothing. */
  readonly dryRun: boolean;
  /** Told at each line how many have been done. */
  readonly onProgress?: (lines: number) => void;
  /** That are told; all unless given. */
  readonly mostErrors?: number;
}

export interface ImportReport {
  readonly created: number;
  readonly updated: number;
  readonly rejected: number;
  /** The first of the lines that were left out. */
  readonly errors: readonly ImportError[];
}

const LINES_PER_WRITE = 1_000;
const CHARACTERS_PER_WRITE = 2 ** 22;
const MISSING_EMAIL = columnMissing("email");

/**
 * Reads contacts from CSV: UTF-8, commas, a header of API field names; columns of other names are custom fields. An
 * empty cell keeps what is there. Groups are parted by `|` (`splitGroupNames`). Bad lines are reported and do not stop
 * good ones. The apostrophe that an export puts before what a spreadsheet would take for a formula is taken off again.
 */
export async function importContacts(
  db: Db,
  instanceId: number,
  csv: Readable,
  options: ImportOptions,
): Promise<ImportReport> {
  const { dryRun, onProgress = () => {} } = options;
  const write = dryRun ? makeRehearsal(db, instanceId) : makeWriter(db, instanceId);
  const errors = new RejectedLines(options.mostErrors);
  let created = 0;
  let updated = 0;
  const waiting = new Map<string, { readonly line: number; readonly change: ContactChange }>();
  let waitingCharacters = 0;
  const flush = async () => {
    const saved = await write([...waiting.values()].map(({ change }) => change));
    created += saved.created;
    updated += waiting.size - saved.created - saved.oversized.size;
    for (const [key, what] of saved.oversized) {
      errors.push({ line: waiting.get(key)!.line, reason: contactOversized(what) });
    }
    waiting.clear();
    waitingCharacters = 0;
  };
  let header: readonly string[] | undefined;
  for await (const { line, record } of readRecords(csv, errors)) {
    if (header === undefined) {
      header = readHeader(record);
      const fault = findHeaderFault(header, "email", fieldOf);
      if (fault !== undefined) return withoutHeader(line, fault);
      continue;
    }
    onProgress(line - 2);
    const change = await readLine({ db, instanceId }, header, record);
    if (!change.ok) errors.push({ line, reason: change.error });
    else {
      const { key } = change.value.address;
      // A later line about the same address has to find the earlier one done.
      if (waiting.has(key) || waiting.size >= LINES_PER_WRITE || waitingCharacters >= CHARACTERS_PER_WRITE)
        await flush();
      waiting.set(key, { line, change: change.value });
      waitingCharacters += record.reduce((sum, cell) => sum + cell.length, 0);
    }
  }
  // Nothing at all, not even the line that names the columns.
  if (header === undefined && errors.count === 0) return withoutHeader(1, MISSING_EMAIL);
  await flush();
  return { created, updated, rejected: errors.count, errors: errors.first() };
}

/** Takes the changes of some lines. @returns how many of their contacts are new, and which were left out */
type Write = (changes: readonly ContactChange[]) => Promise<SavedContacts>;

function makeWriter(db: Db, instanceId: number): Write {
  return (changes) => saveContacts(db, instanceId, changes, "imported");
}

/** Locks nothing, however long it takes: who writes to the contacts meanwhile does not wait. */
function makeRehearsal(db: Db, instanceId: number): Write {
  const added = new Set<string>();
  return async (changes) => {
    const keys = changes.map(({ address }) => address.key);
    const known = await findKnownKeys(db, instanceId, keys);
    const oversized = await findOversized(db, instanceId, changes);
    const created = keys.filter((key) => !known.has(key) && !added.has(key) && !oversized.has(key));
    for (const key of created) added.add(key);
    return { created: created.length, oversized };
  };
}

/** Why a file was refused as a whole, where it was. */
export function wholeRefusal({ rejected, errors }: ImportReport): Sentence | undefined {
  return rejected === 0 ? errors[0]?.reason : undefined;
}

/** Without the names of the columns no line can be read, so none counts. */
function withoutHeader(line: number, reason: Sentence): ImportReport {
  return { created: 0, updated: 0, rejected: 0, errors: [{ line, reason }] };
}

const profile = z.object(contactFields);
const NUMBER_COLUMNS = new Set(["edad", "subtipo_dispositivo_id"]);
/** Blanks say nothing around numbers and booleans. */
const TRIMMED_COLUMNS = new Set([...NUMBER_COLUMNS, "invalido"]);
/** As JSON has them; spreadsheets write them in capitals. */
const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);

async function readLine(
  { db, instanceId }: { readonly db: Db; readonly instanceId: number },
  header: readonly string[],
  record: readonly string[],
): Promise<Result<ContactChange, Sentence>> {
  const named = nameCells(header, record);
  if (!named.ok) return named;
  const cells = named.value;
  const email = cells.get("email") ?? "";
  if (email === "") return refuse(MISSING_EMAIL);
  const address = await judgeContactAddress(db, instanceId, email);
  if (!address.ok) return refuse(sentence("email-invalid", { reason: address.error }));
  cells.delete("email");
  const fields = profile.safeParse(toFields(cells));
  if (fields.success) return ok(toContactChange(address.value, fields.data));
  const path = fields.error.issues[0]!.path;
  return refuse(sentence("column-invalid", { column: String(path.findLast((key) => typeof key === "string")) }));
}

/** Custom fields have a column with or without their wrapping, those of the profile without. */
function fieldOf(column: string): string {
  return column === "email" || PROFILE_COLUMNS.has(column) ? column : wrappedTagName(column);
}

/** Cells as the API's JSON would have them; empty ones are left out. */
function toFields(cells: ReadonlyMap<string, string>): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  const campos: { nombre: string; valor: string }[] = [];
  for (const [name, given] of cells) {
    const cell = TRIMMED_COLUMNS.has(name) ? given.trim() : given;
    if (cell === "") continue;
    if (name === "grupos") fields.grupos = splitGroupNames(cell, MAX_LIST_ITEMS);
    else if (name === "invalido") fields[name] = BOOLEANS.get(cell.toLowerCase()) ?? cell;
    else if (NUMBER_COLUMNS.has(name)) fields[name] = /^-?\d{1,10}$/.test(cell) ? Number(cell) : cell;
    else if (PROFILE_COLUMNS.has(name)) fields[name] = cell;
    else campos.push({ nombre: name, valor: cell });
  }
  return { ...fields, campos };
}
