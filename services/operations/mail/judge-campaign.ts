import type { KeyRing } from "../../core/key-ring.ts";
import { validateAddress } from "../../core/mail/address.ts";
import { DkimSigner } from "../../core/mail/dkim.ts";
import type { Mailbox } from "../../core/mail/headers.ts";
import { UNSUBSCRIBE_TAG } from "../../core/mail/personalise.ts";
import { compileTemplateSteps, renderMessage } from "../../core/mail/template.ts";
import type { Config } from "../../platform/config/config.ts";
import type { JudgedMail, Verdict } from "../../platform/judges/judge.ts";
import { judgeMail, judgesFolder } from "../../platform/judges/judge-mail.ts";
import type { Resolver } from "../../platform/lookups/resolver.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { dkimKeys, findSenderKeys } from "../../store/mail/instances/dkim-keys.ts";
import type { StoredMailbox, StoredTemplate } from "../../store/mail/sends/messages.ts";

/** Whom a message that is only judged would go to. */
const JUDGED_RECIPIENT = "judge@example.net";

/**
 * A message as a campaign would send it, signed by its sender domain's key; without the links that count clicks, which
 * only delivery can make.
 * @param trackingUrl public base of the unsubscribe links
 * @returns undefined where the template cannot be sent
 */
export async function composeJudgedMessage(
  db: Db,
  template: StoredTemplate,
  of: { readonly keyRing: KeyRing; readonly instanceId: number; readonly trackingUrl: string; readonly now: Date },
): Promise<Buffer | undefined> {
  const from = toMailbox(template.from);
  const to = toMailbox({ name: "", address: JUDGED_RECIPIENT });
  const replyTo = template.replyTo && toMailbox(template.replyTo);
  if (from === undefined || to === undefined) return undefined;
  const { subject, html, unsubscribe } = template;
  const compiled = await runInTurns(
    compileTemplateSteps({ from, subject, html, unsubscribe, ...(replyTo === undefined ? {} : { replyTo }) }),
  );
  if (!compiled.ok) return undefined;
  const { asciiDomain } = from.address;
  const unsigned = renderMessage(compiled.value, {
    to: [to],
    messageId: `<judged.${of.now.getTime()}@${asciiDomain}>`,
    date: of.now,
    values: {
      system: new Map([[UNSUBSCRIBE_TAG, `${of.trackingUrl.replace(/\/$/, "")}/u/judged`]]),
      customFields: new Map(),
      builtIns: new Map(),
      globals: new Map(),
    },
  });
  const found = await findSenderKeys(db, of.keyRing, { instanceId: of.instanceId, domain: asciiDomain });
  if (found === undefined) return unsigned;
  const signer = new DkimSigner(dkimKeys(asciiDomain, found));
  return Buffer.concat([signer.sign(unsigned, of.now), unsigned]);
}

function toMailbox({ name, address }: StoredMailbox): Mailbox | undefined {
  const read = validateAddress(address, { allowSmtputf8: true });
  return read.ok ? { name, address: read.value } : undefined;
}

/** How mail of this deployment arrives at a receiver, as far as it can be told without sending. */
export async function judgedEnvelope(
  { hostname, bounceDomain }: Pick<Config, "hostname" | "bounceDomain">,
  resolver: Resolver,
): Promise<Omit<JudgedMail, "octets">> {
  const found = await resolver.resolveA(hostname);
  return {
    clientAddress: found.kind === "found" ? found.records[0]! : "127.0.0.1",
    helo: hostname,
    mailFrom: `b+judged@${bounceDomain}`,
    rcptTo: JUDGED_RECIPIENT,
  };
}

/** Has the installed judges look at a message as it would arrive. */
export async function judgeAsSent(config: Config, resolver: Resolver, octets: Buffer): Promise<Verdict[]> {
  const mail = { ...(await judgedEnvelope(config, resolver)), octets };
  return judgeMail(mail, { resolver: config.resolver, folder: judgesFolder(config.dataDir) });
}
