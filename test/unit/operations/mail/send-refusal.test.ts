import { expect, test } from "vitest";
import { type Sentence, sentence } from "../../../../services/core/sentences.ts";
import { sendRefusal } from "../../../../services/operations/mail/send-refusal.ts";

const wordsOf = (reason: Sentence) => sendRefusal({ kind: "held", reason }, 0);

test.each([
  [sentence("guard-complaints", { wrong: 5, tried: 100, limit: 0.3 }), "quejas: 5 de 100 destinatarios (tope 0.3 %)"],
  [sentence("content-unseen"), "el filtro de contenido no responde"],
  [sentence("guard-by-hand", { reason: "stolen key" }), "stolen key"],
])("why sending is held is said in the mail API's language: %j", (reason, words) => {
  expect(wordsOf(reason)).toMatchObject({
    kind: "forbidden",
    message: `envios retenidos: ${words}`,
    values: { reason: { code: reason.code, values: reason.values } },
  });
});
