import { onlySentence, type Sentence, type SentenceCode, sentence, type ValuesOf } from "./sentences.ts";

/**
 * Why something asked of us is not done: one closed union for all protocols. Each edge renders it exhaustively (`toHttp`
 * of the APIs, `toSmtpReply` of the SMTP services). What strangers read is generic; detail goes to the log.
 */
export type Refusal =
  /** No credentials, or wrong ones. */
  | { readonly kind: "unauthenticated" }
  | SentenceRefusal
  | { readonly kind: "unknown-path" }
  | { readonly kind: "wrong-method"; readonly allowed: readonly string[] }
  | { readonly kind: "malformed-json" }
  /** A body in a content coding that is not read; `known` are those that are. */
  | { readonly kind: "unknown-coding"; readonly known: readonly string[] }
  | { readonly kind: "missing-field"; readonly field: string }
  | { readonly kind: "invalid-field"; readonly field: string; readonly reason: Sentence }
  | { readonly kind: "too-large" }
  /** Too much for now; without words of its own each edge has its. */
  | ({ readonly kind: "rate-limited"; readonly retryAfterSeconds: number } & (Sentence | { readonly code?: never }))
  /** The database or another part is away for now. */
  | { readonly kind: "unavailable" }
  /** A bug: logged with its stack, told to nobody. */
  | { readonly kind: "internal" };

/**
 * A refusal that its sentence tells from others of its kind: of somebody known but not entitled, of something well-formed
 * but not acceptable, not there, or contrary to what is there.
 */
export interface SentenceRefusal extends Sentence {
  readonly kind: "forbidden" | "unacceptable" | "not-found" | "conflict";
}

/** A code with what fills the gaps of its words, or a sentence that is there already. */
type Said<Code extends SentenceCode> = [said: Sentence] | [code: Code, ...values: ValuesOf<Code>];

function sentenceFrom<Code extends SentenceCode>([said, ...values]: Said<Code>): Sentence {
  return typeof said === "object" ? onlySentence(said) : sentence(said, ...(values as ValuesOf<Code>));
}

export function forbidden<Code extends SentenceCode>(...said: Said<Code>): SentenceRefusal {
  return { kind: "forbidden", ...sentenceFrom(said) };
}

export function unacceptable<Code extends SentenceCode>(...said: Said<Code>): SentenceRefusal {
  return { kind: "unacceptable", ...sentenceFrom(said) };
}

export function notFound<Code extends SentenceCode>(...said: Said<Code>): SentenceRefusal {
  return { kind: "not-found", ...sentenceFrom(said) };
}

export function conflict<Code extends SentenceCode>(...said: Said<Code>): SentenceRefusal {
  return { kind: "conflict", ...sentenceFrom(said) };
}

export const missingField = (field: string): Refusal => ({ kind: "missing-field", field });

export function invalidField<Code extends SentenceCode>(field: string, ...reason: Said<Code>): Refusal {
  return { kind: "invalid-field", field, reason: sentenceFrom(reason) };
}

/** A refusal as a sentence, in English. Edges that have words of their own say the kinds without a sentence in them. */
export function sentenceOf(refusal: Refusal): Sentence {
  switch (refusal.kind) {
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict":
      return onlySentence(refusal);
    case "rate-limited":
      return refusal.code === undefined ? sentence("rate-limited") : onlySentence(refusal);
    case "missing-field":
      return sentence("missing-field", { field: refusal.field });
    case "invalid-field":
      return sentence("invalid-field", { field: refusal.field, reason: refusal.reason });
    case "wrong-method":
      return sentence("wrong-method", { methods: refusal.allowed.join(", ") });
    case "unknown-coding":
      return sentence("unknown-coding", { codings: refusal.known.join(", ") });
    default:
      return sentence(refusal.kind);
  }
}
