import { type ContentPolicy, type ContentVerdict, judgeContent } from "../../core/mail/guard/content.ts";
import { UNSUBSCRIBE_TAG } from "../../core/mail/personalise.ts";
import { renderMessage } from "../../core/mail/template.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type ScannedMessage, scanByRspamd } from "../../platform/lookups/rspamd.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import { type MessageContent, toMailbox } from "../../store/mail/sends/messages.ts";
import type { Send } from "./accept-sends.ts";
import { compileStored } from "./compile-stored.ts";

/** How messages are looked at before they are accepted. */
export interface ContentSettings extends ContentPolicy {
  readonly timeoutMs: number;
}

/** Has the content of messages looked at; without a filter it costs nothing and says nothing. */
export class ContentScanner {
  readonly #url: string | null;
  readonly #settings: ContentSettings;
  readonly #observe: Observe;

  /** @param url of rspamd; null: there is none */
  constructor(url: string | null, settings: ContentSettings, observe: Observe) {
    this.#url = url;
    this.#settings = settings;
    this.#observe = observe;
  }

  /**
   * What a send by API or of the console holds, as its first recipient would get it: to thousands it is looked at once.
   * @returns the send with what was found; refused while nobody can look at it, and it is not to be sent unseen
   */
  async judgeSend(send: Send, clientAddress: string, now: Date): Promise<Result<Send, Refusal>> {
    const [first] = send.recipients;
    const { content } = send;
    if (first === undefined || content.kind !== "template") return ok(send);
    const verdict = await this.judge(async () => ({
      octets: await composeForScan(content, first.address.asGiven, now),
      mailFrom: content.template.from.address,
      recipients: send.recipients.map(({ address }) => address.asGiven),
      user: send.creator,
      clientAddress,
    }));
    if (verdict?.action === "refuse" && verdict.scan === undefined) return refuse({ kind: "unavailable" });
    return ok(verdict === undefined ? send : { ...send, verdict });
  }

  /** @param compose makes what is looked at @returns undefined where there is no filter */
  async judge(compose: () => ScannedMessage | Promise<ScannedMessage>): Promise<ContentVerdict | undefined> {
    if (this.#url === null) return undefined;
    const message = await compose();
    const scan = await scanByRspamd(this.#url, message, this.#settings.timeoutMs).catch((err: unknown) => {
      this.#observe({ kind: "content-not-scanned", level: "warn", err });
      return undefined;
    });
    const verdict = judgeContent(scan, this.#settings);
    if (verdict.action !== "accept") {
      this.#observe({ kind: "content-judged", level: "info", action: verdict.action, score: scan?.score ?? null });
    }
    return verdict;
  }
}

/** A template as one recipient would get it, unsigned, without that recipient's own values: to thousands it is looked at once. */
export async function composeForScan(
  { template, attachments }: MessageContent & { readonly kind: "template" },
  recipient: string,
  now: Date,
): Promise<Buffer> {
  const compiled = await compileStored(template, attachments);
  if (!compiled.ok) throw new Error(`what was checked cannot be compiled: ${compiled.error}`);
  // It is nobody's link, and stands where each recipient has one.
  const system = new Map([[UNSUBSCRIBE_TAG, `https://${toMailbox(template.from).address.asciiDomain}/u/scan`]]);
  return renderMessage(compiled.value, {
    to: [toMailbox({ name: "", address: recipient })],
    messageId: `<scan@${recipient.slice(recipient.lastIndexOf("@") + 1)}>`,
    date: now,
    values: { system, customFields: new Map(), builtIns: new Map(), globals: new Map() },
  });
}
