import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import { contactFields, fieldsOversized, lineOfText, toContactChange } from "../../core/mail/contact-input.ts";
import { contactJson, contactSummaryJson, toContactJson, toContactSummaryJson } from "../../core/mail/contact-json.ts";
import { notFound, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { judgeSender } from "../../operations/mail/senders.ts";
import { type AnyEndpoint, endpoint, type RawReply } from "../../platform/http/endpoint.ts";
import { streamedReply } from "../../platform/http/streamed-reply.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { findContact, saveContacts, streamContacts } from "../../store/mail/contacts/contact-profiles.ts";
import { listContactEvents } from "../../store/mail/events/event-pages.ts";
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
    reply: contactReply,
    act: async ({ caller, params }) => {
      // An address that cannot be one is no contact's.
      const address = validateAddress(params.email, { allowSmtputf8: true });
      return address.ok ? readContact(db, caller.instance, address.value.key) : refuse(notFound("object-unknown"));
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
    act: async ({ caller, fields }) => {
      const address = await readKnownEmail(db, caller.instance.id, fields.email);
      if (!address.ok) return address;
      if (fields.remitente !== undefined) {
        const sender = await judgeSender(services, caller.instance.id, fields.remitente);
        if (!sender.ok) return sender;
      }
      const change = toContactChange(address.value, fields);
      const { oversized } = await saveContacts(db, caller.instance.id, [change], "modified");
      if (oversized.size > 0) return refuse(unacceptable(fieldsOversized()));
      return readContact(db, caller.instance, address.value.key);
    },
  });
}

function invalidContactsEndpoint({ db }: MailServices): AnyEndpoint<MailCaller> {
  return endpoint({
    method: "GET",
    path: "/contactos/invalidos",
    summary: "List all invalid contacts",
    reply: z.object({ status: z.literal("ok"), contactos: z.array(contactSummaryJson) }),
    act: async ({ caller, sharer }) => {
      const pieces = writeInvalidContacts(db, caller.instance);
      const reply = await streamedReply("application/json", pieces, { sharer, holds: "page" });
      // There is always a piece.
      return reply.ok ? ok(reply.value as RawReply) : reply;
    },
  });
}

async function readContact(
  db: Db,
  instance: Instance,
  emailKey: string,
): Promise<Result<z.input<typeof contactReply>, Refusal>> {
  const contact = await findContact(db, instance.id, emailKey);
  if (contact === undefined) return refuse(notFound("object-unknown"));
  const events = await listContactEvents(db, contact.id);
  return ok({ status: "ok" as const, contacto: toContactJson(contact, events, instance.timeZone) });
}

async function* writeInvalidContacts(db: Db, instance: Instance): AsyncGenerator<string> {
  yield '{"status":"ok","contactos":[';
  let separator = "";
  for await (const contacts of streamContacts(db, instance.id, { invalid: true })) {
    yield separator +
      contacts.map((contact) => JSON.stringify(toContactSummaryJson(contact, instance.timeZone))).join();
    separator = ",";
  }
  yield "]}";
}
