import { countPlaces, parseTemplate } from "../../core/mail/personalise.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findGlobals, MOST_USED_MEBIBYTES } from "../../store/mail/instances/globals.ts";
import type { StoredTemplate } from "../../store/mail/sends/messages.ts";

/**
 * A template with the global variables that it uses, as they are now: kept once, and not with each recipient.
 * @returns refused where they take too much, with a sentence in the API's words
 */
export async function keepGlobals(
  db: Db,
  instanceId: number,
  template: StoredTemplate,
): Promise<Result<StoredTemplate, Sentence>> {
  const globals = await findGlobals(db, instanceId, [...tagsOf(template)]);
  if (globals === undefined) return refuse(sentence("message-globals-oversized", { mebibytes: MOST_USED_MEBIBYTES }));
  return ok({ ...template, globals: Object.fromEntries(globals) });
}

/** Names of the tags in subject and HTML. */
export function tagsOf({ subject, html }: Pick<StoredTemplate, "subject" | "html">): ReadonlySet<string> {
  return new Set(countPlaces([parseTemplate(subject), parseTemplate(html)]).keys());
}
