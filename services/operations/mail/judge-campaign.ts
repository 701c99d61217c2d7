import addressparser from "nodemailer/lib/addressparser";
import type { KeyRing } from "../../core/key-ring.ts";
import { validateAddress } from "../../core/mail/address.ts";
import { headerValue, readHeaderBlock } from "../../core/mail/bounce/mime.ts";
import { DkimSigner } from "../../core/mail/dkim.ts";
import { UNSUBSCRIBE_TAG } from "../../core/mail/personalise.ts";
import { renderMessage } from "../../core/mail/template.ts";
import type { Config } from "../../platform/config/config.ts";
import type { JudgedMail, Verdict } from "../../platform/judges/judge.ts";
import { judgeMail, judgesFolder } from "../../platform/judges/judge-mail.ts";
import type { Resolver } from "../../platform/lookups/resolver.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { dkimKeys, findSenderKeys } from "../../store/mail/instances/dkim-keys.ts";
import { type StoredTemplate, toMailbox } from "../../store/mail/sends/messages.ts";
import { compileStored } from "./compile-stored.ts";

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
  const from = validateAddress(template.from.address, { allowSmtputf8: true });
  // A campaign may have no sender yet.
  if (!from.ok) return undefined;
  const compiled = await compileStored(template, []);
  if (!compiled.ok) return undefined;
  const { asciiDomain } = from.value;
  const unsigned = renderMessage(compiled.value, {
    to: [toMailbox({ name: "", address: JUDGED_RECIPIENT })],
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

/**
 * How a message of this deployment arrives at a receiver, as far as it can be told without sending: at whom it is to, as
 * filters hold it against a message that it is to somebody else.
 */
export async function judgedEnvelope(
  { hostname, bounceDomain }: Pick<Config, "hostname" | "bounceDomain">,
  resolver: Resolver,
  octets: Buffer,
): Promise<JudgedMail> {
  const found = await resolver.resolveA(hostname);
  return {
    clientAddress: found.kind === "found" ? found.records[0]! : "127.0.0.1",
    helo: hostname,
    mailFrom: `b+judged@${bounceDomain}`,
    rcptTo: firstRecipient(octets) ?? JUDGED_RECIPIENT,
    octets,
  };
}

/** The header of a message is looked for in so many octets. */
const HEADER_OCTETS = 262_144;

function firstRecipient(octets: Buffer): string | undefined {
  const headers = readHeaderBlock(octets.subarray(0, HEADER_OCTETS).toString());
  const [first] = addressparser(headerValue({ headers }, "to"), { flatten: true });
  return first?.address && /^[!-~]+@[!-~]+$/.test(first.address) ? first.address : undefined;
}

/** Has the installed judges look at a message as it would arrive. */
export async function judgeAsSent(config: Config, resolver: Resolver, octets: Buffer): Promise<Verdict[]> {
  return judgeMail(await judgedEnvelope(config, resolver, octets), {
    resolver: config.resolver,
    folder: judgesFolder(config.dataDir),
  });
}
