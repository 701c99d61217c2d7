import { z } from "zod";
import type { Refusal } from "../core/refusal.ts";
import type { Sentence } from "../core/sentences.ts";
import { refusalText } from "./refusal-text.ts";

/** What a refused request is told. The two APIs' own refusals come through in their words, the mail API's included. */
export const refusalJson = z.object({
  msg: z.string().optional().meta({ description: "a sentence; absent of the mail API's own refusals" }),
  code: z.string().optional().meta({ description: "which refusal it is; absent where only the sentence tells" }),
  values: z.record(z.string(), z.string()).optional().meta({ description: "what fills the sentence's gaps" }),
  totp: z.literal(true).optional().meta({ description: "of a sign-in: the one-time code is missing or wrong" }),
  status: z.literal("err").optional().meta({ description: "of the mail API's own refusals" }),
  on: z.string().optional().meta({ description: "the sentence of the mail API" }),
});

type RefusalBody = Pick<z.output<typeof refusalJson>, "code" | "values"> & { readonly msg: string };

/** How the console's API says a refusal. */
export function refusalBody(refusal: Refusal): RefusalBody {
  const msg = refusalText(refusal);
  switch (refusal.kind) {
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict": {
      const { code, values } = refusal;
      if (code === "as-stated") return { msg };
      return Object.keys(values).length === 0 ? { msg, code } : { msg, code, values: inWords(values) };
    }
    case "missing-field":
      return { msg, code: refusal.kind, values: { field: refusal.field } };
    case "invalid-field":
      return { msg, code: refusal.kind, values: { field: refusal.field, reason: refusal.reason.message } };
    case "rate-limited":
      return { msg, code: refusal.code ?? refusal.kind };
    default:
      return { msg, code: refusal.kind };
  }
}

/** Reasons as the table words them. */
function inWords(values: Sentence["values"]): Record<string, string> {
  const told = Object.entries(values).map(([gap, value]) => [gap, typeof value === "string" ? value : value.message]);
  return Object.fromEntries(told);
}
