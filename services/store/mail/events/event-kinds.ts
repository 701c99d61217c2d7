import type { EventKind } from "../../../core/mail/event-kind.ts";

export type { EventKind } from "../../../core/mail/event-kind.ts";

/** How the column `events.kind` holds what happened. Numbers are never reused. */
export const EVENT_KINDS: Readonly<Record<EventKind, number>> = {
  sent: 1,
  viewed: 2,
  clicked: 3,
  "hard-bounce": 4,
  "soft-bounce": 5,
  unsubscribed: 6,
  converted: 7,
  invalidated: 8,
  "not-sent": 9,
  revalidated: 10,
  complained: 11,
};

const KINDS_BY_NUMBER = new Map(Object.entries(EVENT_KINDS).map(([kind, number]) => [number, kind as EventKind]));

/** @throws on a number that was never given out: the database is newer than this release */
export function eventKindOf(number: number): EventKind {
  const kind = KINDS_BY_NUMBER.get(number);
  if (kind === undefined) throw new Error(`unknown event kind ${number}`);
  return kind;
}

/** Columns of the count tables: one for each kind, and one for what machines did, whatever it was. */
export const COUNT_COLUMNS: readonly string[] = [...Object.keys(EVENT_KINDS).map(countColumn), "machine"];

/** Where the count tables keep a kind. */
export function countColumn(kind: string): string {
  return kind.replaceAll("-", "_");
}

/** The count columns, as they are summed up from rows of `events`. */
export const COUNT_AGGREGATES: string = [
  ...Object.entries(EVENT_KINDS).map(([kind, number]) => {
    return `count(*) filter (where kind = ${number} and not machine) as ${countColumn(kind)}`;
  }),
  "count(*) filter (where machine) as machine",
].join(", ");
