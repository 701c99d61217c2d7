import { type IncomingHttpHeaders, type IncomingMessage, STATUS_CODES } from "node:http";
import accepts from "accepts";
import { z } from "zod";
import { type Refusal, sentenceOf } from "../../core/refusal.ts";
import { onlySentence, type Sentence } from "../../core/sentences.ts";

/** RFC 9457 §3: what a refusal is told in to whoever names this type in Accept, instead of the API's own body. */
export const PROBLEM_TYPE = "application/problem+json";

const value: z.ZodType<Sentence["values"][string]> = z.lazy(() => z.union([z.string(), sentenceJson]));

/** A sentence with what it is made of, so that it can be said in other languages. */
export const sentenceJson = z.object({
  code: z.string() as unknown as z.ZodType<Sentence["code"]>,
  values: z.record(z.string(), value).meta({ description: "what fills the gaps; some are sentences themselves" }),
  message: z.string(),
});

/** RFC 9457 §3.1, with the sentence's code and values as extension members (§3.2). */
export const problemJson = z
  .object({ title: z.string(), status: z.int(), detail: z.string(), ...sentenceJson.omit({ message: true }).shape })
  .meta({ id: "Problem" });

/** Whether who asks wants sentences with what they are made of: its Accept names {@link PROBLEM_TYPE} (RFC 9110 §12.5.1). */
export function wantsProblems({ accept }: Pick<IncomingHttpHeaders, "accept">): boolean {
  const types = accepts({ headers: { accept } } as IncomingMessage).types();
  return [types].flat().some((type) => String(type).toLowerCase() === PROBLEM_TYPE);
}

/** @param detail the refusal in the words of the API that refuses */
export function problemOf(refusal: Refusal, status: number, detail: string): z.input<typeof problemJson> {
  const { code, values } = sentenceOf(refusal);
  return { title: STATUS_CODES[status] ?? "", status, detail, code, values };
}

/** A sentence in words, or with what it is made of. */
export const toldSentence = z.union([z.string(), sentenceJson]);

/** Doubtful but lawful data, in words; absent when there is nothing to say. */
export const warnings = z
  .array(toldSentence)
  .meta({ description: `in words; with what they are made of when Accept names ${PROBLEM_TYPE}` })
  .optional();

/** Warnings as whoever sent these headers reads them. */
export function tellWarnings(
  found: readonly Sentence[],
  headers: Pick<IncomingHttpHeaders, "accept">,
): (string | Sentence)[] {
  return found.map((one) => tellSentence(one, headers));
}

/** A sentence as whoever sent these headers reads it. */
export function tellSentence(told: Sentence, headers: Pick<IncomingHttpHeaders, "accept">): string | Sentence {
  return wantsProblems(headers) ? onlySentence(told) : told.message;
}

/** Warnings as an answer carries them: not at all when there are none. */
export function withWarnings(
  found: readonly Sentence[],
  headers: Pick<IncomingHttpHeaders, "accept">,
): { warnings?: (string | Sentence)[] } {
  return found.length > 0 ? { warnings: tellWarnings(found, headers) } : {};
}
