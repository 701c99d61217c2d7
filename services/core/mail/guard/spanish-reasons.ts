import type { Sentence, SentenceCode } from "../../sentences.ts";

/** Why an instance or a campaign is held, as the mail API and notices say it: without accents, as that API's words are. */
const WORDS: { readonly [Code in SentenceCode]?: string } = {
  "guard-complaints": "quejas: {wrong} de {tried} destinatarios (tope {limit} %)",
  "guard-hard-bounces": "rebotes duros: {wrong} de {tried} destinatarios (tope {limit} %)",
  "guard-unknown-addresses": "direcciones desconocidas: {wrong} de {tried} destinatarios (tope {limit} %)",
  "guard-rise": "{sent} destinatarios en una hora; la hora de mayor actividad anterior tuvo {busiest}",
  "guard-new-country": "{credential} se usa desde {country}; antes desde {known}",
  "content-judged": "el filtro de contenido le da una puntuacion de {score}",
  "content-unseen": "el filtro de contenido no responde",
};

/** The reason with Spanish words; what somebody gave for one by hand stays. */
export function inSpanish(reason: Sentence): Sentence {
  const message = WORDS[reason.code]?.replace(/\{(\w+)\}/g, (_, gap: string) => String(reason.values[gap]));
  return message === undefined ? reason : { ...reason, message };
}
