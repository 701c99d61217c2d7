import { texts } from "../texts.ts";

const EVENT_NAMES: Readonly<Record<string, keyof ReturnType<typeof texts>["mail"]["events"]>> = {
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
};

/** An event of a message or a contact; one that these pages do not know by its own name. */
export function describeEvent(kind: string): string {
  const name = EVENT_NAMES[kind];
  return name === undefined ? kind : texts().mail.events[name];
}

/** Why an event came about: what a bounce says, or from what somebody unsubscribed. */
export function describeCause(reason: string): string {
  const { bounceReasons, fromEverything } = texts().mail;
  if (reason === "all") return fromEverything;
  return (bounceReasons as Readonly<Record<string, string>>)[reason] ?? reason;
}
