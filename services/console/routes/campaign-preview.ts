import { z } from "zod";
import { type EmailAddress, validateAddress } from "../../core/mail/address.ts";
import { senderKey } from "../../core/mail/guard/sending-limits.ts";
import { textFromHtmlSteps } from "../../core/mail/message-text.ts";
import {
  escapeHtml,
  MOST_PERSONAL_OCTETS,
  parseTemplate,
  personalOctets,
  placesInMessage,
  renderTemplate,
  tagValue,
  UNSUBSCRIBE_TAG,
} from "../../core/mail/personalise.ts";
import { withUnsubscribeLink } from "../../core/mail/template.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { acceptSend, type Send } from "../../operations/mail/accept-sends.ts";
import { makePersonalise } from "../../operations/mail/audience.ts";
import { campaignTemplate } from "../../operations/mail/campaign-control.ts";
import { composeJudgedMessage, judgeAsSent } from "../../operations/mail/judge-campaign.ts";
import { sendRefusal } from "../../operations/mail/send-refusal.ts";
import { judgeSender } from "../../operations/mail/senders.ts";
import { keepGlobals } from "../../operations/mail/template-globals.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import { JUDGES, type Verdict } from "../../platform/judges/judge.ts";
import { readCampaignText } from "../../platform/lookups/campaign-text.ts";
import { makeResolver } from "../../platform/lookups/resolver.ts";
import { runInTurns } from "../../platform/turns.ts";
import { findCampaignSend } from "../../store/mail/campaigns/campaign-sends.ts";
import { findContacts } from "../../store/mail/contacts/recipients.ts";
import { announceMail } from "../../store/mail/queue/queue.ts";
import type { StoredTemplate } from "../../store/mail/sends/messages.ts";
import { inTransaction } from "../../store/transactions.ts";
import { areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { campaignParams, type VisibleCampaign, visibleNormalCampaign } from "./campaign-json.ts";

const instanceArea = areaOf("instance");

const verdictJson = z.object({
  judge: z.enum(JUDGES),
  kind: z.enum(["judged", "absent", "failed"]),
  score: z.number().optional().meta({ description: "points of a judge that gives them: the more the worse" }),
  authenticated: z.object({ spf: z.boolean(), dkim: z.boolean(), dmarc: z.boolean() }).partial().optional(),
  objections: z.array(z.object({ rule: z.string(), points: z.number(), words: z.string() })).optional(),
});

function toVerdictJson(verdict: Verdict): z.input<typeof verdictJson> {
  const { judge, kind } = verdict;
  if (verdict.kind !== "judged") return { judge, kind };
  const { score, authenticated, objections } = verdict;
  return { judge, kind, ...(score === undefined ? {} : { score }), authenticated, objections: [...objections] };
}

/** Messages that are read, or fetched, and rendered at a time: each may have megabytes. */
const MESSAGES = { atOnce: 4, perClient: 1 };
const WAITING_MESSAGES = { mostWaiting: 8, retryAfterSeconds: 2 };
/** Judges are programs, and take processors: one message is judged at a time, and of an instance one more waits. */
const JUDGEMENTS = { atOnce: 1, perClient: 1 };
const WAITING_JUDGEMENTS = { mostWaiting: 1, retryAfterSeconds: 30 };
/** Of the text part, that a preview shows. */
const MOST_TEXT_CHARACTERS = 100_000;

/** What a message of a campaign looks like, what would be said of it, and what arrives. */
export const makeCampaignPreviewEndpoints: MakeConsoleEndpoints = (context) => {
  const turns = new FairTurns(MESSAGES);
  return [...previews(context, turns), ...judging(context), ...testSends(context, turns)];
};

function previews(context: ConsoleContext, turns: FairTurns): ConsoleEndpoint[] {
  const { db } = context;
  return [
    consoleEndpoint({
      method: "POST",
      path: "/instances/:name/campaigns/:numid/preview",
      summary: "What a contact would get, or what it looks like without one",
      authorise: instanceArea,
      params: campaignParams,
      fields: z.object({ email: z.string().optional() }),
      change: null,
      reply: z.object({
        asunto: z.string(),
        html: z.string(),
        text: z.string(),
        text_cut: z
          .boolean()
          .meta({ description: `whether the text goes on after ${MOST_TEXT_CHARACTERS} characters` }),
      }),
      act: async ({ caller, params, fields }) => {
        const found = await visibleNormalCampaign(db, caller, params);
        if (!found.ok) return found;
        return turns.runOrRefuse(found.value.instance.name, WAITING_MESSAGES, async () => {
          const template = await makeTemplate(context, found.value);
          return template.ok ? preview(context, found.value, template.value, fields.email) : template;
        });
      },
    }),
  ];
}

/** What receivers would object to. */
const judging: MakeConsoleEndpoints = (context) => {
  const { db } = context;
  const turns = new FairTurns(JUDGEMENTS);
  return [
    consoleEndpoint({
      method: "POST",
      path: "/instances/:name/campaigns/:numid/judge",
      summary: "What the spam filters that are installed here would say of the message",
      authorise: instanceArea,
      params: campaignParams,
      fields: z.object({}),
      change: null,
      reply: z.object({ verdicts: z.array(verdictJson) }),
      act: async ({ caller, params }) => {
        const found = await visibleNormalCampaign(db, caller, params);
        if (!found.ok) return found;
        return turns.runOrRefuse(found.value.instance.name, WAITING_JUDGEMENTS, () =>
          judgeMessage(context, found.value),
        );
      },
    }),
  ];
};

async function judgeMessage(context: ConsoleContext, found: VisibleCampaign) {
  const { db, keyRing, config, clock } = context;
  const template = await makeTemplate(context, found);
  if (!template.ok) return template;
  const trackingUrl = config.trackingUrl ?? (await context.addressOf("tracking"));
  const of = { keyRing, instanceId: found.instance.id, trackingUrl, now: new Date(clock.nowMs()) };
  const octets = await composeJudgedMessage(db, template.value, of);
  if (octets === undefined) return refuse(problem("campaign-not-written"));
  const verdicts = await judgeAsSent(config, await makeResolver(config.resolver), octets);
  return ok({ verdicts: verdicts.map(toVerdictJson) });
}

/** The message on its way to one address. */
function testSends(context: ConsoleContext, turns: FairTurns): ConsoleEndpoint[] {
  const { db } = context;
  return [
    consoleEndpoint({
      method: "POST",
      path: "/instances/:name/campaigns/:numid/test",
      summary: "Send the message to one address, which becomes a contact if it is none",
      authorise: instanceArea,
      params: campaignParams,
      fields: z.object({ email: z.string() }),
      change: {
        action: "campaign.test",
        object: ({ params }) => String(params.numid),
        detail: ({ fields: { email } }) => ({ email }),
      },
      reply: z.object({ eeid: z.string(), sent: z.int() }),
      act: async ({ caller, params, clientAddress, fields: { email } }) => {
        const found = await visibleNormalCampaign(db, caller, params);
        if (!found.ok) return found;
        const address = validateAddress(email, { allowSmtputf8: false });
        if (!address.ok) return refuse(unacceptable("email-invalid", { reason: address.error }));
        const by = { login: caller.login, clientAddress };
        return turns.runOrRefuse(found.value.instance.name, WAITING_MESSAGES, () =>
          sendTest(context, found.value, address.value, by),
        );
      },
    }),
  ];
}

async function sendTest(
  context: ConsoleContext,
  found: VisibleCampaign,
  address: EmailAddress,
  by: { readonly login: string; readonly clientAddress: string },
) {
  const { db, config, content, clock } = context;
  const { instance, campaign } = found;
  const template = await makeTemplate(context, found);
  if (!template.ok) return template;
  const kept = await keepGlobals(db, instance.id, template.value);
  if (!kept.ok) return refuse(unacceptable(kept.error));
  const sender = await judgeSender(
    { db, config, resolver: await makeResolver(config.resolver) },
    instance.id,
    kept.value.from.address,
  );
  if (!sender.ok) return sender;
  const send: Send = {
    instanceId: instance.id,
    campaignNumid: campaign.numid,
    creator: by.login,
    content: { kind: "template", template: kept.value, attachments: [] },
    senderDomain: sender.value.asciiDomain,
    sender: senderKey(sender.value),
    recipients: [{ address }],
    copies: [],
    archive: false,
  };
  const judged = await content.judgeSend(send, by.clientAddress, new Date(clock.nowMs()));
  if (!judged.ok) return judged;
  const accepted = await inTransaction(db, (transaction) => acceptSend(transaction, judged.value));
  if (!accepted.ok) return refuse(sendRefusal(accepted.error, clock.nowMs()));
  await announceMail(db, [instance.id]).catch(() => {}); // the workers look by themselves before long
  return accepted;
}

async function makeTemplate(
  { db, config }: ConsoleContext,
  { instance, campaign }: VisibleCampaign,
): Promise<Result<StoredTemplate, Refusal>> {
  const send = await findCampaignSend(db, instance.id, campaign.numid);
  if (send === undefined) return refuse(problem("campaign-not-written"));
  const resolver = await makeResolver(config.resolver);
  const text = await readCampaignText({ ...send, subjectUri: campaign.subjectUri }, { config, resolver });
  return text.ok ? ok(campaignTemplate(send, campaign, text.value)) : refuse(unacceptable(text.error));
}

async function preview(
  { db }: ConsoleContext,
  { instance, campaign }: VisibleCampaign,
  template: StoredTemplate,
  email: string | undefined,
) {
  const content = { kind: "template" as const, template, attachments: [] };
  let tags: Readonly<Record<string, string>> = {};
  if (email !== undefined) {
    const address = validateAddress(email, { allowSmtputf8: true });
    if (!address.ok) return refuse(unacceptable("email-invalid", { reason: address.error }));
    const contacts = await findContacts(db, instance.id, campaign.numid, [address.value.key]);
    const contact = contacts.get(address.value.key);
    if (contact === undefined) return refuse(problem("no-such-contact"));
    tags = (await makePersonalise(db, { instanceId: instance.id, content }))(contact)?.tags ?? {};
  }
  const values = {
    // A preview unsubscribes nobody.
    system: new Map([[UNSUBSCRIBE_TAG, "#"]]),
    customFields: new Map(Object.entries(tags)),
    builtIns: new Map<string, string>(),
    globals: new Map<string, string>(),
  };
  const html = template.unsubscribe ? withUnsubscribeLink(template.html) : template.html;
  const parts = {
    subject: parseTemplate(template.subject),
    html: parseTemplate(html),
    text: parseTemplate(await runInTurns(textFromHtmlSteps(html))),
  };
  const octets = personalOctets(placesInMessage(parts), (tag) => tagValue(tag, values));
  if (octets > MOST_PERSONAL_OCTETS) return refuse(problem("values-too-long"));
  const text = renderTemplate(parts.text, values);
  return ok({
    asunto: renderTemplate(parts.subject, values),
    html: renderTemplate(parts.html, values, escapeHtml),
    text: text.slice(0, MOST_TEXT_CHARACTERS),
    text_cut: text.length > MOST_TEXT_CHARACTERS,
  });
}
