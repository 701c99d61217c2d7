import type { Attachment } from "../../core/mail/mime.ts";
import { type CompiledMessage, compileTemplateSteps, type TemplateRefusal } from "../../core/mail/template.ts";
import type { Result } from "../../core/result.ts";
import { runInTurns } from "../../platform/turns.ts";
import { type StoredTemplate, toMailbox } from "../../store/mail/sends/messages.ts";

/**
 * Compiles a template as it is stored, in turns: a page may have megabytes.
 * @param made the page with counted links, and its text, where they have been made
 * @throws what is no address
 */
export function compileStored(
  template: StoredTemplate,
  attachments: readonly Attachment[],
  made: { readonly html?: string; readonly text?: string } = {},
): Promise<Result<CompiledMessage, TemplateRefusal>> {
  const { from, replyTo, subject, html, unsubscribe, to, cc = [] } = template;
  return runInTurns(
    compileTemplateSteps({
      ...{ from: toMailbox(from), subject, html, attachments, unsubscribe, cc: cc.map(toMailbox) },
      ...(replyTo === undefined ? {} : { replyTo: toMailbox(replyTo) }),
      ...(to === undefined ? {} : { to: [toMailbox(to)] }),
      ...made,
    }),
  );
}
