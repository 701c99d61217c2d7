import type { Refusal } from "../core/refusal.ts";
import { refusalText } from "./refusal-text.ts";

/** What a refused request is told. */
export interface RefusalBody {
  readonly msg: string;
  /** Which refusal it is, for whoever says it in another language; absent where only the sentence tells. */
  readonly code?: string;
  /** What the sentence is about, such as the field. */
  readonly values?: Readonly<Record<string, string>>;
}

/** How the console's API says a refusal. */
export function refusalBody(refusal: Refusal): RefusalBody {
  const msg = refusalText(refusal);
  switch (refusal.kind) {
    case "forbidden":
    case "unacceptable":
    case "not-found":
    case "conflict": {
      const { code, values = {} } = refusal;
      if (code === undefined) return { msg };
      return Object.keys(values).length === 0 ? { msg, code } : { msg, code, values };
    }
    case "missing-field":
      return { msg, code: refusal.kind, values: { field: refusal.field } };
    case "invalid-field":
      return { msg, code: refusal.kind, values: { field: refusal.field, reason: refusal.reason } };
    default:
      return { msg, code: refusal.kind };
  }
}
