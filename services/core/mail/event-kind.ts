/** What can happen to a contact or a message, and what the API calls it. */
export const EVENT_NAMES = {
  sent: "envio",
  viewed: "vista",
  clicked: "click",
  "hard-bounce": "rebote_hard",
  "soft-bounce": "rebote-soft",
  unsubscribed: "desuscripcion",
  converted: "conversion",
  invalidated: "invalidacion",
  "not-sent": "unknown",
  revalidated: "revalidacion",
  complained: "queja",
} as const;

export type EventKind = keyof typeof EVENT_NAMES;

/** What webhooks and streams may be told: events, what became of each delivery, and what sources of sender domains do. */
export const TOLD_NAMES = {
  ...EVENT_NAMES,
  delivered: "entregado",
  deferred: "diferido",
  cancelled: "cancelado",
  "source-passes": "origen_pasa",
  "source-fails": "origen_falla",
} as const;

export type ToldKind = keyof typeof TOLD_NAMES;

const KINDS_BY_NAME: ReadonlyMap<string, ToldKind> = new Map(
  Object.entries(TOLD_NAMES).map(([kind, name]) => [name, kind as ToldKind]),
);

/** The kind that the API calls so. */
export function toldKindOf(name: string): ToldKind | undefined {
  return KINDS_BY_NAME.get(name);
}
