import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import type { Contact } from "../../core/mail/contact.ts";
import { contactFields, contactOversized, lineOfText, toContactChange } from "../../core/mail/contact-input.ts";
import {
  contactJson,
  contactSummaryJson,
  toContactEventJson,
  toContactSummaryJson,
  toFullContactJson,
} from "../../core/mail/contact-json.ts";
import { notFound, type Refusal, unacceptable } from "../../core/refusal.ts";
import { type Result, refuse } from "../../core/result.ts";
import { judgeSender } from "../../operations/mail/senders.ts";
import { type AnyEndpoint, endpoint, type RawReply, type Sharer } from "../../platform/http/endpoint.ts";
import { jsonList, replyJson, replyList } from "../../platform/http/streamed-json.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findContact, saveContacts, streamInvalidContacts } from "../../store/mail/contacts/contact-profiles.ts";
import { streamContactEvents } from "../../store/mail/events/event-pages.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { readKnownEmail } from "../addresses.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";

const contactReply = z.object({ status: z.literal("ok"), contacto: contactJson });

/** Operations 4 to 6: reading and writing contacts. */
export function contactEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  return [readEndpoint(services), writeEndpoint(services), invalidContactsEndpoint(services)];
}

function readEndpoint({ db }: MailServices): AnyEndpoint<MailCaller> {
  return endpoint({
    method: "GET",
    path: "/contacto/:email",
    summary: "Read a contact",
    params: z.object({ email: z.string() }),
    refusals: { 404: "`no existe`: the contact" },
    reply: contactReply,
    act: async ({ caller, sharer, params }) => {
      // An address that cannot be one is no contact's.
      const address = validateAddress(params.email, { allowSmtputf8: true });
      if (!address.ok) return refuse(notFound("object-unknown"));
      return replyContact(db, caller.instance, address.value.key, sharer);
    },
  });
}

function writeEndpoint(services: MailServices): AnyEndpoint<MailCaller> {
  const { db } = services;
  return endpoint({
    method: "POST",
    path: "/contacto",
    summary: "Create or update a contact",
    fields: z.object({
      email: z.string(),
      remitente: z.string().optional(),
      remitente_nombre: lineOfText.optional(),
      ...contactFields,
    }),
    keepsNull: ([list, , field]) => list === "campos" && field === "valor",
    reply: contactReply,
    act: async ({ caller, sharer, fields }) => {
      const address = await readKnownEmail(db, caller.instance.id, fields.email);
      if (!address.ok) return address;
      if (fields.remitente !== undefined) {
        const sender = await judgeSender(services, caller.instance.id, fields.remitente);
        if (!sender.ok) return sender;
      }
      const change = toContactChange(address.value, fields);
      const { oversized } = await saveContacts(db, caller.instance.id, [change], "modified");
      const [what] = oversized.values();
      if (what !== undefined) return refuse(unacceptable(contactOversized(what)));
      return replyContact(db, caller.instance, address.value.key, sharer);
    },
  });
}

function invalidContactsEndpoint({ db }: MailServices): AnyEndpoint<MailCaller> {
  return endpoint({
    method: "GET",
    path: "/contactos/invalidos",
    summary: "List all invalid contacts",
    reply: z.object({ status: z.literal("ok"), contactos: z.array(contactSummaryJson) }),
    act: ({ caller: { instance }, sharer }) => {
      const readContacts = () => streamInvalidContacts(db, instance.id);
      return replyList("contactos", readContacts, (contact) => toContactSummaryJson(contact, instance.timeZone), {
        sharer,
        holds: "page",
      });
    },
  });
}

async function replyContact(
  db: Db,
  instance: Instance,
  emailKey: string,
  sharer: Sharer,
): Promise<Result<RawReply, Refusal>> {
  const contact = await findContact(db, instance.id, emailKey);
  if (contact === undefined) return refuse(notFound("object-unknown"));
  return replyJson(() => writeContact(db, contact, instance), sharer);
}

async function* writeContact(db: Db, contact: Contact, { id, timeZone }: Instance): AsyncGenerator<string> {
  const { eventos: _, ...fields } = toFullContactJson(contact, [], timeZone);
  yield '{"status":"ok","contacto":{';
  for (const [name, value] of Object.entries(fields)) {
    // A contact may have tens of thousands of campaigns: no list is one text.
    if (Array.isArray(value)) yield* jsonList<unknown>(name, [value], (item) => item);
    else yield `${JSON.stringify(name)}:${JSON.stringify(value)}`;
    yield ",";
  }
  yield* jsonList("eventos", streamContactEvents(db, id, contact.id), (event) => toContactEventJson(event, timeZone));
  yield "}}";
}
