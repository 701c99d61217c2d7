import { EVENT_NAMES, type EventKind } from "../../../../core/mail/event-kind.ts";
import type { Texts } from "../texts/en/index.ts";

/** What an event of a contact or a message is called. @param kind as the console's API has it */
export function eventWords(kind: string, { events }: Texts["mail"]): string {
  return events[EVENT_NAMES[kind as EventKind]] ?? kind;
}

/** Why it happened. @param reason a bounce's, or one of what is done to contacts; '' gives '' */
export function eventReasonWords(reason: string, { bounceReasons, eventReasons }: Texts["mail"]): string {
  const words: Readonly<Record<string, string>> = { ...bounceReasons, ...eventReasons };
  return words[reason] ?? reason;
}
