import { z } from "zod";
import { lineOfText } from "../../core/mail/contact-input.ts";
import { judgePlaces } from "../../core/mail/personalise.ts";
import { invalidField, missingField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isHttpUrl } from "../../core/url.ts";
import { judgeSelections } from "../../operations/mail/judge-selection.ts";
import { judgeSender } from "../../operations/mail/senders.ts";
import { makeResolver } from "../../platform/lookups/resolver.ts";
import {
  type CampaignMessage,
  findCampaignSend,
  isBeforeStart,
  listCampaignSends,
  saveCampaignMessage,
} from "../../store/mail/campaigns/campaign-sends.ts";
import { pageCampaigns } from "../../store/mail/campaigns/campaigns.ts";
import { findFilters } from "../../store/mail/contacts/filters.ts";
import { findMissingGroups } from "../../store/mail/contacts/groups.ts";
import { areaOf, visibleInstance } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit, searchText } from "../schemas.ts";
import {
  asSeen,
  campaignJson,
  campaignParams,
  toCampaignJson,
  type VisibleCampaign,
  visibleCampaign,
  visibleNormalCampaign,
} from "./campaign-json.ts";

const MOST_GROUPS = 1_000;
const MOST_HTML_CHARACTERS = 5 * 2 ** 20;

const message = z.object({
  remitente: z.string().optional().meta({ description: "the campaign's own unless given" }),
  remitente_nombre: lineOfText.optional(),
  asunto: lineOfText.optional(),
  html: z.string().min(1).max(MOST_HTML_CHARACTERS).optional(),
  url: z.string().max(2_000).optional().meta({ description: "in place of html: fetched at the start" }),
  grupos: z.array(z.string()).max(MOST_GROUPS).default([]),
  filtros: z.array(z.int()).max(MOST_GROUPS).default([]),
  modificado: asSeen.nullish(),
});
type MessageFields = z.output<typeof message>;

const instanceArea = areaOf("instance");

/**
 * Campaigns, and what those of type `normal` send. Starting and stopping them: campaign-control.ts; looking at a
 * message: campaign-preview.ts.
 */
export const makeCampaignEndpoints: MakeConsoleEndpoints = (context) => [...lists(context), ...writing(context)];

/** Which campaigns there are. */
const lists: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/campaigns",
    summary: "Campaigns of an instance, newest first",
    authorise: instanceArea,
    params: z.object({ name: z.string() }),
    fields: z.object({ search: searchText, before: z.int().optional(), limit: pageLimit }),
    reply: z.object({ campaigns: z.array(campaignJson) }),
    act: async ({ caller, params, fields }) => {
      const instance = await visibleInstance(db, caller, params.name);
      if (!instance.ok) return instance;
      const campaigns = await pageCampaigns(db, instance.value.id, fields);
      const sends = await listCampaignSends(
        db,
        instance.value.id,
        campaigns.map(({ numid }) => numid),
      );
      return ok({ campaigns: campaigns.map((campaign) => toCampaignJson(campaign, sends.get(campaign.numid))) });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/campaigns/:numid",
    summary: "One campaign, with the HTML that it holds",
    authorise: instanceArea,
    params: campaignParams,
    reply: campaignJson.extend({ html: z.string().nullable() }),
    act: async ({ caller, params }) => {
      const found = await visibleCampaign(db, caller, params);
      if (!found.ok) return found;
      const { instance, campaign } = found.value;
      const send = await findCampaignSend(db, instance.id, campaign.numid);
      const html = send && "html" in send.body ? send.body.html : null;
      return ok({ ...toCampaignJson(campaign, send), html });
    },
  }),
];

/** What a campaign of type `normal` sends, and what that looks like. */
const writing: MakeConsoleEndpoints = (context) => {
  const { db } = context;
  return [
    consoleEndpoint({
      method: "PUT",
      path: "/instances/:name/campaigns/:numid/message",
      summary: "Write what a campaign of type normal sends, and to whom; until it is started",
      authorise: instanceArea,
      params: campaignParams,
      fields: message,
      change: {
        action: "campaign.write",
        object: ({ params }) => String(params.numid),
        detail: ({ fields: { remitente, asunto, grupos, filtros } }) => ({ remitente, asunto, grupos, filtros }),
      },
      reply: campaignJson,
      act: async ({ caller, params, fields }) => {
        const found = await visibleNormalCampaign(db, caller, params);
        if (!found.ok) return found;
        const { instance, campaign } = found.value;
        const written = await readMessage(context, found.value, fields);
        if (!written.ok) return written;
        const saved = await saveCampaignMessage(db, { instanceId: instance.id, numid: campaign.numid }, written.value, {
          login: caller.login,
          asOf: fields.modificado,
        });
        const send = (await listCampaignSends(db, instance.id, [campaign.numid])).get(campaign.numid);
        if (saved) return ok(toCampaignJson(campaign, send));
        return refuse(problem(send && isBeforeStart(send) ? "message-changed" : "campaign-started"));
      },
    }),
  ];
};

/** Judges what the schema cannot: the sender, one body, and that groups and filters are there. */
async function readMessage(
  { db, config }: ConsoleContext,
  { instance, campaign }: VisibleCampaign,
  fields: MessageFields,
): Promise<Result<CampaignMessage, Refusal>> {
  const given = fields.remitente || campaign.sender;
  if (given === "") return refuse(missingField("remitente"));
  const subject = fields.asunto || campaign.subject;
  if (subject === "") return refuse(missingField("asunto"));
  const body = readBody(fields, campaign.url);
  if (!body.ok) return body;
  const sender = await judgeSender({ db, config, resolver: await makeResolver(config.resolver) }, instance.id, given);
  if (!sender.ok) return sender;
  const [missingGroup] = await findMissingGroups(db, instance.id, fields.grupos);
  if (missingGroup !== undefined) return refuse(invalidField("grupos", "group-unknown", { name: missingGroup }));
  const filters = await findFilters(db, instance.id, fields.filtros);
  const missingFilter = fields.filtros.find((id) => !filters.has(id));
  if (missingFilter !== undefined) return refuse(invalidField("filtros", "filter-unknown", { name: missingFilter }));
  const gone = await judgeSelections(db, instance.id, [...filters.values()]);
  if (gone !== undefined) return refuse(unacceptable(gone));
  return ok({
    sender: sender.value.asGiven,
    senderName: fields.remitente_nombre || campaign.senderName,
    subject,
    body: body.value,
    groups: [...new Set(fields.grupos)],
    filters: [...new Set(fields.filtros)],
  });
}

function readBody({ html, url }: MessageFields, campaignUrl: string): Result<CampaignMessage["body"], Refusal> {
  if (html !== undefined && url) return refuse(invalidField("url", "html-or-url"));
  const fault = html && judgePlaces(html);
  if (fault) return refuse(unacceptable(fault));
  if (html !== undefined) return ok({ html });
  const fetched = url || campaignUrl;
  if (fetched === "") return refuse(missingField("html"));
  return isHttpUrl(fetched) ? ok({ url: fetched }) : refuse(invalidField("url", "http-url"));
}
