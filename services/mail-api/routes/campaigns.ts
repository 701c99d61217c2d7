import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import { lineOfText } from "../../core/mail/contact-input.ts";
import { DYNAMIC_SUBJECT } from "../../core/mail/personalise.ts";
import { forbidden, invalidField, missingField, notFound, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isHttpUrl } from "../../core/url.ts";
import { judgeSender } from "../../operations/mail/senders.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { replyList } from "../../platform/http/streamed-json.ts";
import {
  addCampaign,
  type Campaign,
  hasRoomForCampaign,
  MOST_CAMPAIGNS,
  type NewCampaign,
  readCampaignApikey,
  setCampaignApikey,
  streamCampaigns,
} from "../../store/mail/campaigns/campaigns.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { setSubmissionSettings } from "../../store/mail/instances/submission-settings.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";
import { LICENCE_NEEDED } from "./sending-fields.ts";

const httpUrl = z
  .string()
  .max(2_000)
  .regex(/^https?:/i)
  .refine(isHttpUrl);
const charset = z
  .string()
  .regex(/^[A-Za-z0-9._:-]{0,40}$/)
  .meta({ description: "kept and listed, and used for nothing: UTF-8 is what is read and sent" });
const name = lineOfText.regex(/\S/, "not-empty");

/** What a campaign sends unless a call says otherwise: all required for type `api`. */
const defaults = z.object({
  remitente: z.string(),
  remitente_nombre: lineOfText,
  asunto: lineOfText,
  url: httpUrl,
  charset,
  desusc: z.enum(["si", "no"]),
});
const options = { asunto_uri: z.string().optional(), replyto: z.string().optional() };

/** How messages submitted by SMTP under a campaign are treated. */
const submission = {
  archive: z.boolean().default(false).meta({ description: "keep what is submitted by SMTP, as each recipient got it" }),
  seguimiento: z.enum(["si", "no"]).default("si").meta({ description: "count opens and clicks of what is submitted" }),
};

const newCampaign = z.discriminatedUnion("tipo", [
  z.object({ tipo: z.literal("api"), nombre: name, ...defaults.shape, ...options, ...submission }),
  z.object({ tipo: z.literal("normal"), nombre: name, ...defaults.partial().shape, ...options }),
]);
type NewCampaignFields = z.output<typeof newCampaign>;

const campaignJson = z.object({
  id: z.string(),
  numid: z.int(),
  tipo: z.enum(["api", "normal", "bulk"]),
  nombre: z.string(),
  remitente: z.string(),
  remitente_nombre: z.string(),
  asunto: z.string(),
  asunto_uri: z.string(),
  replyto: z.string(),
  url: z.string(),
  charset,
  desusc: z.string(),
});

const NO_ARCHIVE_LICENCE = forbidden("archive-licence-needed");
const TOO_MANY_CAMPAIGNS = unacceptable("campaigns-too-many", { most: MOST_CAMPAIGNS });

const NO_SUCH_CAMPAIGN = { 404: "`no existe`: the campaign" };
const apikeyReply = z.object({ status: z.literal("ok"), numid: z.int(), camp_apikey: z.string() });
type ApikeyReply = z.infer<typeof apikeyReply>;

/**
 * Printable characters without spaces: it has to pass as an SMTP password. Not by `regex`, which the OpenAPI document
 * would carry: many of its readers know no Unicode classes.
 */
const apikey = z
  .string()
  .refine((key) => /^[^\s\p{C}]{8,128}$/u.test(key))
  .meta({ description: "8 to 128 printable characters without spaces; better one that nobody chose" });

/** Operations 12 to 14: campaigns and their keys. */
export function campaignEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  return [...definitionEndpoints(services), ...apikeyEndpoints(services)];
}

function definitionEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  const { db, keyRing } = services;
  return [
    endpoint({
      method: "POST",
      path: "/campania",
      summary: "Create a campaign",
      fields: newCampaign,
      refusals: { 403: LICENCE_NEEDED },
      reply: z.object({ status: z.literal("ok"), id: z.string(), numid: z.int(), camp_apikey: z.string().optional() }),
      act: async ({ caller, fields }) => {
        if (fields.tipo === "api" && fields.archive && !caller.instance.archive) return refuse(NO_ARCHIVE_LICENCE);
        const campaign = await readCampaign(services, caller.instance, fields);
        if (!campaign.ok) return campaign;
        if (!(await hasRoomForCampaign(db, caller.instance.id))) return refuse(TOO_MANY_CAMPAIGNS);
        const added = await db.transaction(async (transaction) => {
          const made = await addCampaign(transaction, keyRing, campaign.value);
          if (fields.tipo === "api") {
            const settings = { archive: fields.archive, tracking: fields.seguimiento === "si" };
            await setSubmissionSettings(transaction, { instanceId: caller.instance.id, numid: made.numid }, settings);
          }
          return made;
        });
        return ok({ status: "ok" as const, id: added.id, numid: added.numid, camp_apikey: added.apikey });
      },
    }),
    endpoint({
      method: "GET",
      path: "/campania",
      summary: "List campaigns",
      fields: z.object({ tipo: z.enum(["api", "normal", "bulk"]).optional(), numid: z.int().optional() }),
      reply: z.object({ status: z.literal("ok"), campanias: z.array(campaignJson) }),
      act: ({ caller, sharer, fields }) => {
        const filter = { type: fields.tipo, numid: fields.numid };
        const readCampaigns = () => streamCampaigns(db, caller.instance.id, filter);
        return replyList("campanias", readCampaigns, toCampaignJson, { sharer, holds: "page" });
      },
    }),
  ];
}

function apikeyEndpoints({ db, keyRing }: MailServices): AnyEndpoint<MailCaller>[] {
  async function replyWithApikey(instanceId: number, numid: number): Promise<Result<ApikeyReply, Refusal>> {
    const key = await readCampaignApikey(db, keyRing, instanceId, numid);
    if (key === undefined) return refuse(notFound("object-unknown"));
    if (key === null) return refuse(invalidField("numid", "campaigns-of-the-api-only"));
    return ok({ status: "ok", numid, camp_apikey: key });
  }
  return [
    endpoint({
      method: "GET",
      path: "/campania_apikey",
      summary: "Read the key of a campaign of type api",
      fields: z.object({ numid: z.int() }),
      refusals: NO_SUCH_CAMPAIGN,
      reply: apikeyReply,
      act: ({ caller, fields }) => replyWithApikey(caller.instance.id, fields.numid),
    }),
    endpoint({
      method: "POST",
      path: "/campania_apikey",
      summary: "Set the key of a campaign of type api",
      fields: z.object({ numid: z.int(), apikey }),
      queryFields: ["numid"],
      refusals: NO_SUCH_CAMPAIGN,
      reply: apikeyReply,
      act: async ({ caller, fields }) => {
        await setCampaignApikey(db, keyRing, { instanceId: caller.instance.id, numid: fields.numid }, fields.apikey);
        return replyWithApikey(caller.instance.id, fields.numid);
      },
    }),
  ];
}

/** Judges what the schema alone cannot: the subject's source, the reply address, the sender. */
async function readCampaign(
  services: MailServices,
  instance: Instance,
  fields: NewCampaignFields,
): Promise<Result<NewCampaign, Refusal>> {
  const subjectUri = readSubjectUri(fields);
  if (!subjectUri.ok) return subjectUri;
  const replyTo = readReplyTo(fields.replyto);
  if (!replyTo.ok) return replyTo;
  const sender =
    fields.remitente === undefined ? undefined : await judgeSender(services, instance.id, fields.remitente);
  if (sender && !sender.ok) return sender;
  return ok({
    instanceId: instance.id,
    type: fields.tipo,
    name: fields.nombre,
    sender: sender?.value.asGiven ?? "",
    senderName: fields.remitente_nombre ?? "",
    subject: fields.asunto ?? "",
    subjectUri: subjectUri.value,
    replyTo: replyTo.value,
    url: fields.url ?? "",
    charset: fields.charset ?? "",
    unsubscribe: fields.desusc === undefined ? null : fields.desusc === "si",
  });
}

/** A dynamic subject needs its URL; beside a static one the URL is ignored. */
function readSubjectUri({ asunto, asunto_uri }: NewCampaignFields): Result<string, Refusal> {
  if (asunto !== DYNAMIC_SUBJECT) return ok("");
  if (asunto_uri === undefined) return refuse(missingField("asunto_uri"));
  return httpUrl.safeParse(asunto_uri).success ? ok(asunto_uri) : refuse(invalidField("asunto_uri", "http-url"));
}

function readReplyTo(given: string | undefined): Result<string, Refusal> {
  if (given === undefined || given === "") return ok("");
  const address = validateAddress(given, { allowSmtputf8: false });
  return address.ok ? ok(address.value.asGiven) : refuse(invalidField("replyto", address.error));
}

function toCampaignJson(campaign: Campaign): z.infer<typeof campaignJson> {
  return {
    id: campaign.id,
    numid: campaign.numid,
    tipo: campaign.type,
    nombre: campaign.name,
    remitente: campaign.sender,
    remitente_nombre: campaign.senderName,
    asunto: campaign.subject,
    asunto_uri: campaign.subjectUri,
    replyto: campaign.replyTo,
    url: campaign.url,
    charset: campaign.charset,
    desusc: campaign.unsubscribe === null ? "" : campaign.unsubscribe ? "si" : "no",
  };
}
