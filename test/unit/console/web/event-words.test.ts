import { expect, test } from "vitest";
import { eventReasonWords, eventWords } from "../../../../services/console/web/src/mail/event-words.ts";
import { en } from "../../../../services/console/web/src/texts/en/index.ts";
import { es } from "../../../../services/console/web/src/texts/es/index.ts";
import { BOUNCE_REASONS } from "../../../../services/core/mail/bounce/reason.ts";
import { BROUGHT_IN, OWN_UNSUBSCRIPTION } from "../../../../services/core/mail/suppression.ts";

test.each([
  ["complained", "complaint", "queja"],
  ["hard-bounce", "hard bounce", "rebote duro"],
  ["what-is-new", "what-is-new", "what-is-new"],
])("an event is called what the pages call it: %s", (kind, english, spanish) => {
  expect([eventWords(kind, en.mail), eventWords(kind, es.mail)]).toEqual([english, spanish]);
});

test("every reason of an event has words", () => {
  const reasons = [
    ...BOUNCE_REASONS,
    BROUGHT_IN,
    OWN_UNSUBSCRIPTION,
    "complaint",
    "request",
    "hard-bounces",
    "suppressed",
  ];
  for (const { mail } of [en, es]) {
    expect(reasons.filter((reason) => !(reason in mail.bounceReasons || reason in mail.eventReasons))).toEqual([]);
  }
  expect(eventReasonWords("userunknown", es.mail)).toBe("la casilla no existe");
  expect(eventReasonWords(OWN_UNSUBSCRIPTION, es.mail)).toBe("de todo lo del remitente");
  expect(eventReasonWords("", es.mail)).toBe("");
});
