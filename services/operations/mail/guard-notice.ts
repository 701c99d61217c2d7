import { validateAddress } from "../../core/mail/address.ts";
import { senderKey } from "../../core/mail/guard/sending-limits.ts";
import { inSpanish } from "../../core/mail/guard/spanish-reasons.ts";
import { escapeHtml } from "../../core/mail/personalise.ts";
import type { Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readInstanceGuard } from "../../store/mail/guard/holds.ts";
import { findNoticeCampaign } from "../../store/mail/guard/notices.ts";
import { announceMail } from "../../store/mail/queue/queue.ts";
import { inTransaction } from "../../store/transactions.ts";
import { acceptSend } from "./accept-sends.ts";

/** Which campaign notices are sent under, and who is told of every instance. */
export interface NoticeSettings {
  /** Null: nobody is written to. */
  readonly campaign: number | null;
  readonly operators: readonly string[];
}

/** What is told of an instance. */
export interface GuardNotice {
  readonly instance: { readonly id: number; readonly name: string };
  readonly kind: "held" | "suspicious" | "released";
  readonly reason: Sentence;
}

const SUBJECTS: Readonly<Record<GuardNotice["kind"], string>> = {
  held: "is held / está retenida",
  suspicious: "needs a look / necesita atención",
  released: "sends again / vuelve a enviar",
};
const EXPLAINED: Readonly<Record<GuardNotice["kind"], readonly [english: string, spanish: string]>> = {
  held: [
    "Nothing of it leaves until somebody releases it. Queued mail stays.",
    "Nada sale hasta que alguien la libere. El correo en cola se conserva.",
  ],
  suspicious: ["It goes on sending.", "Sigue enviando."],
  released: ["Queued mail leaves now.", "El correo en cola sale ahora."],
};

/**
 * Writes to the operator and to the owner's addresses, through the product itself.
 * @returns whom it was sent to; nobody where there is no campaign for it, or no address
 */
export async function sendGuardNotice(db: Db, settings: NoticeSettings, notice: GuardNotice): Promise<string[]> {
  if (settings.campaign === null) return [];
  const campaign = await findNoticeCampaign(db, settings.campaign);
  const sender = campaign && validateAddress(campaign.sender, { allowSmtputf8: false });
  if (!campaign || !sender?.ok) throw new Error(`campaign ${settings.campaign} has no sender to write notices from`);
  const { notify } = await readInstanceGuard(db, notice.instance.id);
  const recipients = [...new Set([...settings.operators, ...notify])].flatMap((text) => {
    const address = validateAddress(text, { allowSmtputf8: true });
    return address.ok ? [{ address: address.value }] : [];
  });
  if (recipients.length === 0) return [];
  const accepted = await inTransaction(db, (transaction) =>
    acceptSend(transaction, {
      instanceId: campaign.instanceId,
      campaignNumid: campaign.numid,
      creator: "guard",
      content: {
        kind: "template",
        template: {
          from: { name: campaign.senderName, address: campaign.sender },
          subject: `${notice.instance.name} ${SUBJECTS[notice.kind]}`,
          html: composeHtml(notice),
          unsubscribe: false,
        },
        attachments: [],
      },
      senderDomain: sender.value.asciiDomain,
      sender: senderKey(sender.value),
      recipients,
      copies: [],
      archive: false,
    }),
  );
  if (!accepted.ok) throw new Error(`notices are not accepted for sending: ${accepted.error.kind}`);
  await announceMail(db, [campaign.instanceId]).catch(() => {}); // the workers look by themselves before long
  return recipients.map(({ address }) => address.asGiven);
}

function composeHtml({ instance, kind, reason }: GuardNotice): string {
  const spanish = inSpanish(reason).message;
  const reasons = spanish === reason.message ? spanish : `${reason.message} / ${spanish}`;
  const paragraphs = [`${instance.name}: ${reasons}`, ...EXPLAINED[kind]];
  // A name or a reason that looks like a tag of a template is one no longer.
  const texts = paragraphs.map((text) => escapeHtml(text).replaceAll("XYZ", "XY&#90;"));
  return `<!doctype html><html><body>${texts.map((text) => `<p>${text}</p>`).join("\n")}</body></html>`;
}
