import { z } from "zod";
import { toCsvLine } from "../../core/mail/csv-cell.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { Place } from "../../store/mail/explorer/candidates.ts";
import { messageJson, toMessageJson } from "./message-json.ts";
import { type MessageSearch, planSearch, searchMessages } from "./message-search.ts";

/** A place as callers carry it; they read nothing in it. */
export function writePlace(place: Place | undefined): string | null {
  return place === undefined ? null : Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** As PostgreSQL writes a moment, which is read again by it: a day that there is, and a zone that it takes. */
const MOMENT = /^([1-9]\d{3}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)[+-](?:0\d|1[0-4])(?::[0-5]\d)?$/;
const dayAndTime = z.iso.datetime();
const number = z.int().nonnegative();

const placeParts = z.union([
  z.tuple([number]),
  z.tuple([number, number]),
  z.tuple([
    z
      .string()
      .regex(MOMENT)
      .refine((text) => dayAndTime.safeParse(text.replace(MOMENT, "$1T$2Z")).success),
    number,
  ]),
]);

/** @returns undefined for what `writePlace` did not write */
export function readPlace(text: string): Place | undefined {
  try {
    const read = placeParts.safeParse(JSON.parse(Buffer.from(text, "base64url").toString("utf8")));
    return read.success ? read.data : undefined;
  } catch {
    return undefined;
  }
}

const CSV_PAGE = 1_000;
const CSV_COLUMNS = Object.keys(messageJson.shape) as (keyof z.infer<typeof messageJson>)[];

/**
 * Everything that fits as CSV, some lines at a time.
 * @param inTurn does what asks the database, when it may
 * @param signal ends it, at the next portion of what is looked through
 */
export async function* exportMessages(
  db: Db,
  instanceId: number,
  search: MessageSearch,
  { inTurn, signal }: { readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>; readonly signal: AbortSignal },
): AsyncGenerator<string> {
  yield toCsvLine(CSV_COLUMNS);
  const plan = await inTurn(async () => (signal.aborted ? undefined : planSearch(db, instanceId, search)));
  for (let after: Place | undefined; ; ) {
    const from = { after, limit: CSV_PAGE };
    const page = await inTurn(async () => (signal.aborted ? undefined : searchMessages(db, instanceId, plan, from)));
    if (page === undefined) return;
    const lines = page.messages
      .map(toMessageJson)
      .map((row) => toCsvLine(CSV_COLUMNS.map((name) => String(row[name] ?? ""))));
    if (lines.length > 0) yield lines.join("");
    if (page.next === undefined) return;
    after = page.next;
  }
}
