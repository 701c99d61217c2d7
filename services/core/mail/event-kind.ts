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
