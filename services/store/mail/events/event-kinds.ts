import type { EventKind, ToldKind } from "../../../core/mail/event-kind.ts";

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

/** How `webhook_events` and `webhooks.kinds` hold what is told: events as above, what became of a delivery, and of a source. */
export const TOLD_KINDS: Readonly<Record<ToldKind, number>> = {
  ...EVENT_KINDS,
  delivered: 12,
  deferred: 13,
  cancelled: 14,
  "source-passes": 15,
  "source-fails": 16,
};

/** What streams tell where nobody chooses: all that is of a contact or a delivery. */
export const USUAL_STREAM_KINDS: readonly number[] = Object.values(TOLD_KINDS).filter(
  (kind) => kind !== TOLD_KINDS["source-passes"] && kind !== TOLD_KINDS["source-fails"],
);

const TOLD_BY_NUMBER = new Map(Object.entries(TOLD_KINDS).map(([kind, number]) => [number, kind as ToldKind]));

/** @throws as `eventKindOf` does */
export function toldKindOfNumber(number: number): ToldKind {
  const kind = TOLD_BY_NUMBER.get(number);
  if (kind === undefined) throw new Error(`unknown kind ${number} of what is told`);
  return kind;
}

const KINDS_BY_NUMBER = new Map(Object.entries(EVENT_KINDS).map(([kind, number]) => [number, kind as EventKind]));

/** @throws on a number that was never given out: the database is newer than this release */
export function eventKindOf(number: number): EventKind {
  const kind = KINDS_BY_NUMBER.get(number);
  if (kind === undefined) throw new Error(`unknown event kind ${number}`);
  return kind;
}

/** What shows that somebody reads at an address, where no machine did it. */
export const TOUCHES: readonly number[] = [EVENT_KINDS.viewed, EVENT_KINDS.clicked, EVENT_KINDS.converted];

/** What machines do as well as people. */
const MACHINE_KINDS = ["viewed", "clicked"] as const satisfies readonly EventKind[];

/** Columns of the count tables: one for each kind as people did it, and one for each that machines did. */
export const COUNT_COLUMNS: readonly string[] = [
  ...Object.keys(EVENT_KINDS).map(countColumn),
  ...MACHINE_KINDS.map(machineColumn),
];

/** Where the count tables keep a kind. */
export function countColumn(kind: string): string {
  return kind.replaceAll("-", "_");
}

function machineColumn(kind: string): string {
  return `machine_${countColumn(kind)}`;
}

/** The count columns, as they are summed up from rows of `events`. */
export const COUNT_AGGREGATES: string = [
  ...Object.entries(EVENT_KINDS).map(([kind, number]) => {
    const isPersons = (MACHINE_KINDS as readonly string[]).includes(kind) ? " and not machine" : "";
    return `count(*) filter (where kind = ${number}${isPersons}) as ${countColumn(kind)}`;
  }),
  ...MACHINE_KINDS.map((kind) => {
    return `count(*) filter (where kind = ${EVENT_KINDS[kind]} and machine) as ${machineColumn(kind)}`;
  }),
].join(", ");

/** What it changes in the counts when rows of `events` turn out to be a machine's. */
export const MACHINE_CORRECTIONS: string = COUNT_COLUMNS.map((column) => {
  const isMachines = column.startsWith("machine_");
  const kind = MACHINE_KINDS.find((one) => column === (isMachines ? machineColumn(one) : countColumn(one)));
  return kind === undefined ? "0" : `${isMachines ? "" : "-"}count(*) filter (where kind = ${EVENT_KINDS[kind]})`;
}).join(", ");
