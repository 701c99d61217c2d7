/** Contacts in the words of the API. */
import { z } from "zod";
import type { CampaignName, Contact, ContactEvent, ContactOperation, ContactSummary } from "./contact.ts";
import { EVENT_NAMES } from "./event-kind.ts";
import { formatTimestamp } from "./timestamps.ts";

const campaignNames = z.array(z.object({ numid: z.int(), nombre: z.string() }));

/** A contact as lists of them show it. */
export const contactSummaryJson = z.object({
  numid: z.int(),
  email: z.string(),
  nombre: z.string(),
  apellido: z.string(),
  edad: z.number().nullable(),
  sexo: z.string(),
  profesion: z.string(),
  localidad: z.string(),
  operacion: z.enum(["alta", "modificacion", "importacion", "invalidacion", "revalidacion", "desuscripcion"]),
  actualizado: z.string(),
  origenes: z.string(),
  codigo_pais: z.string(),
  codigo_region: z.string(),
  ciudad: z.string(),
  dispositivo: z.string(),
  subtipo_dispositivo_id: z.int().nullable(),
  grupo_de_dominio_id: z.int(),
  invalido: z.boolean(),
  grupos: z.array(z.string()),
  campanias: campaignNames,
  campanias_desusc: campaignNames,
});
type ContactSummaryJson = z.infer<typeof contactSummaryJson>;

const contactEventJson = z.object({
  evento: z.string(),
  timestamp: z.string(),
  campania: z.string(),
});

/** A contact as the mail API has it. */
export const contactJson = contactSummaryJson.extend({
  campos: z.array(z.object({ nombre: z.string(), valor: z.string() })),
  eventos: z.array(contactEventJson),
});

const markedEventJson = contactEventJson.extend({ maquina: z.literal(true).optional() });

/** A contact with all that is known of it: which of its events a machine caused, too. */
export const fullContactJson = contactJson.extend({ eventos: z.array(markedEventJson) });
type FullContactJson = z.infer<typeof fullContactJson>;

const OPERATION_NAMES: Readonly<Record<ContactOperation, ContactSummaryJson["operacion"]>> = {
  created: "alta",
  modified: "modificacion",
  imported: "importacion",
  invalidated: "invalidacion",
  revalidated: "revalidacion",
  unsubscribed: "desuscripcion",
};

/** @param timeZone of the instance: timestamps are its wall-clock time */
export function toFullContactJson(
  contact: Contact,
  events: readonly ContactEvent[],
  timeZone: string,
): FullContactJson {
  return {
    ...toContactSummaryJson(contact, timeZone),
    campos: Object.entries(contact.fields).map(([name, valor]) => ({ nombre: `XYZ${name}XYZ`, valor })),
    eventos: events.map((event) => toMarkedEventJson(event, timeZone)),
  };
}

/** An event of a contact. */
export function toContactEventJson(
  { kind, at, campaignName }: ContactEvent,
  timeZone: string,
): z.infer<typeof contactEventJson> {
  return {
    evento: EVENT_NAMES[kind],
    timestamp: formatTimestamp(at, timeZone),
    campania: campaignName,
  };
}

/** An event of a contact, or of a copy to an address that is none. */
export function toMarkedEventJson(event: ContactEvent, timeZone: string): z.infer<typeof markedEventJson> {
  return { ...toContactEventJson(event, timeZone), ...(event.machine ? { maquina: true as const } : {}) };
}

export function toContactSummaryJson(contact: ContactSummary, timeZone: string): ContactSummaryJson {
  return {
    numid: contact.id,
    email: contact.email,
    nombre: contact.firstName,
    apellido: contact.lastName,
    edad: contact.age,
    sexo: contact.sex,
    profesion: contact.profession,
    localidad: contact.locality,
    operacion: OPERATION_NAMES[contact.lastOperation],
    actualizado: formatTimestamp(contact.updatedAt, timeZone),
    origenes: contact.groups.join(","),
    codigo_pais: contact.countryCode,
    codigo_region: contact.regionCode,
    ciudad: contact.city,
    dispositivo: contact.device,
    subtipo_dispositivo_id: contact.deviceSubtypeId,
    grupo_de_dominio_id: contact.domainGroupId,
    invalido: contact.invalid,
    grupos: [...contact.groups],
    campanias: contact.campaigns.map(toCampaignNameJson),
    campanias_desusc: contact.unsubscribedCampaigns.map(toCampaignNameJson),
  };
}

function toCampaignNameJson({ numid, name }: CampaignName) {
  return { numid, nombre: name };
}
