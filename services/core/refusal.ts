/**
 * Why something asked of us is not done: one closed union for all protocols. Each edge renders it exhaustively (`toHttp`
 * of the APIs, `toSmtpReply` of the SMTP services). What strangers read is generic; detail goes to the log.
 */
export type Refusal =
  /** No credentials, or wrong ones. */
  | { readonly kind: "unauthenticated" }
  /** Known, but not entitled. */
  | ({ readonly kind: "forbidden" } & Sentence)
  | { readonly kind: "unknown-path" }
  | { readonly kind: "wrong-method"; readonly allowed: readonly string[] }
  | { readonly kind: "malformed-json" }
  | { readonly kind: "missing-field"; readonly field: string }
  | { readonly kind: "invalid-field"; readonly field: string; readonly reason: string }
  /** Well-formed, but not acceptable; the text is the API's own. */
  | ({ readonly kind: "unacceptable" } & Sentence)
  | ({ readonly kind: "not-found" } & Sentence)
  | ({ readonly kind: "conflict" } & Sentence)
  | { readonly kind: "too-large" }
  /** Too much for now; without words of its own each edge has its. */
  | ({ readonly kind: "rate-limited"; readonly retryAfterSeconds: number } & Partial<Sentence>)
  /** The database or another part is away for now. */
  | { readonly kind: "unavailable" }
  /** A bug: logged with its stack, told to nobody. */
  | { readonly kind: "internal" };

/** Words of an edge's own. */
interface Sentence {
  readonly text: string;
  /** A name for it that stays what it is, where the edge has one: clients can then say it in another language. */
  readonly code?: string;
  /** What fills the sentence's gaps. */
  readonly values?: Readonly<Record<string, string>>;
}

export const unacceptable = (text: string): Refusal => ({ kind: "unacceptable", text });
export const notFound = (text: string): Refusal => ({ kind: "not-found", text });
export const missingField = (field: string): Refusal => ({ kind: "missing-field", field });
export const invalidField = (field: string, reason: string): Refusal => ({ kind: "invalid-field", field, reason });

/** A refusal in an English sentence. Who is refused for lack of credentials or for haste is told in each edge's own words. */
export function sentenceOf(refusal: Exclude<Refusal, { readonly kind: "unauthenticated" | "rate-limited" }>): string {
  switch (refusal.kind) {
    case "unknown-path":
      return "no such path";
    case "wrong-method":
      return `method not allowed, use ${refusal.allowed.join(", ")}`;
    case "malformed-json":
      return "malformed JSON";
    case "missing-field":
      return `missing field: ${refusal.field}`;
    case "invalid-field":
      return `invalid field: ${refusal.field}: ${refusal.reason}`;
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict":
      return refusal.text;
    case "too-large":
      return "the request is too large";
    case "unavailable":
      return "not available at present, try again";
    case "internal":
      return "internal error";
  }
}
