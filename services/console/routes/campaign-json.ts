import { z } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type CampaignSendSummary, listCampaignSends } from "../../store/mail/campaigns/campaign-sends.ts";
import { type Campaign, findCampaign } from "../../store/mail/campaigns/campaigns.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { type AdminCaller, visibleInstance } from "../caller.ts";
import { problem } from "../problems.ts";

const moment = z.string().meta({ description: "ISO 8601, UTC" });

/** How the console names the states of a campaign's send. */
const STATE_NAMES = {
  draft: "borrador",
  scheduled: "programado",
  gathering: "preparando",
  sending: "enviando",
  sent: "enviado",
  cancelling: "cancelando",
  cancelled: "cancelado",
} as const satisfies Record<CampaignSendSummary["state"], string>;

export const campaignJson = z.object({
  numid: z.int(),
  id: z.string(),
  tipo: z.enum(["api", "normal", "bulk"]),
  nombre: z.string(),
  remitente: z.string(),
  remitente_nombre: z.string(),
  asunto: z.string(),
  replyto: z.string(),
  desusc: z.string(),
  url: z.string().meta({ description: "where the HTML is fetched from; empty when the campaign holds it" }),
  estado: z
    .enum([...Object.values(STATE_NAMES), "pausado"])
    .nullable()
    .meta({ description: "of a campaign of type normal; null for the others" }),
  grupos: z.array(z.string()),
  filtros: z.array(z.int()),
  inicio: moment.nullable(),
  pausa: z.object({ timestamp: moment, motivo: sentenceJson }).nullable(),
  eeid: z.string().nullable().meta({ description: "its batch, once it was started" }),
  destinatarios: z.int().nullable().meta({ description: "contacts that it went out for, noted at the start" }),
  fin: moment.nullable(),
  modificado: moment
    .nullable()
    .meta({ description: "when its message or its state last changed; null: nothing is written" }),
});

/** For who wants to change what is as it was seen, and nothing else. */
export const asSeen = z.iso
  .datetime({ offset: true, error: "moment-form" })
  .transform((moment) => new Date(moment))
  .meta({ description: "modificado as it was when the campaign was looked at: refused when it was changed meanwhile" });

/** Path parameters of one campaign. */
export const campaignParams = z.object({
  name: z.string(),
  numid: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, "whole-number")
    .transform(Number),
});

/** @param send absent while nothing was written: what the campaign itself says stands in */
export function toCampaignJson(
  campaign: Campaign,
  send: CampaignSendSummary | undefined,
): z.infer<typeof campaignJson> {
  const isNormal = campaign.type === "normal";
  return {
    numid: campaign.numid,
    id: campaign.id,
    tipo: campaign.type,
    nombre: campaign.name,
    remitente: send?.sender ?? campaign.sender,
    remitente_nombre: send?.senderName ?? campaign.senderName,
    asunto: send?.subject ?? campaign.subject,
    replyto: campaign.replyTo,
    desusc: campaign.unsubscribe === null ? "" : campaign.unsubscribe ? "si" : "no",
    url: send === undefined ? campaign.url : (send.url ?? ""),
    estado: isNormal ? (send?.paused ? "pausado" : STATE_NAMES[send?.state ?? "draft"]) : null,
    grupos: [...(send?.groups ?? [])],
    filtros: [...(send?.filters ?? [])],
    inicio: send?.startsAt?.toISOString() ?? null,
    pausa: send?.paused ? { timestamp: send.paused.at.toISOString(), motivo: send.paused.reason } : null,
    eeid: send?.eeid ?? null,
    destinatarios: send?.recipients ?? null,
    fin: send?.finishedAt?.toISOString() ?? null,
    modificado: send?.modifiedAt.toISOString() ?? null,
  };
}

/** A campaign of a path, with its instance and its send as far as there is one. */
export interface VisibleCampaign {
  readonly instance: Instance;
  readonly campaign: Campaign;
  readonly send: CampaignSendSummary | undefined;
}

/** Strangers are told what callers are who ask for a campaign that does not exist. */
export async function visibleCampaign(
  db: Db,
  caller: AdminCaller,
  { name, numid }: { readonly name: string; readonly numid: number },
): Promise<Result<VisibleCampaign, Refusal>> {
  const instance = await visibleInstance(db, caller, name);
  if (!instance.ok) return instance;
  const campaign = await findCampaign(db, instance.value.id, numid);
  if (campaign === undefined) return refuse(problem("no-such-campaign"));
  const sends = await listCampaignSends(db, instance.value.id, [numid]);
  return ok({ instance: instance.value, campaign, send: sends.get(numid) });
}

/** As `visibleCampaign`, of type `normal` only: the others are sent by calls of the mail API. */
export async function visibleNormalCampaign(
  db: Db,
  caller: AdminCaller,
  params: { readonly name: string; readonly numid: number },
): Promise<Result<VisibleCampaign, Refusal>> {
  const found = await visibleCampaign(db, caller, params);
  if (!found.ok || found.value.campaign.type === "normal") return found;
  return refuse(problem("campaign-of-the-api", { type: found.value.campaign.type }));
}
