import { z } from "zod";
import { type EmailAddress, validateAddress } from "../../core/mail/address.ts";
import {
  contactSummaryJson,
  fullContactJson,
  toContactSummaryJson,
  toFullContactJson,
} from "../../core/mail/contact-json.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { eraseAddress, isNothing } from "../../operations/mail/contact-erasure.ts";
import { exportContacts } from "../../operations/mail/contact-export.ts";
import { importContacts } from "../../operations/mail/contact-import.ts";
import { judgeSelections } from "../../operations/mail/judge-selection.ts";
import { exportReply } from "../../platform/http/streamed-reply.ts";
import { findContact } from "../../store/mail/contacts/contact-profiles.ts";
import { type ContactSearch, searchContacts } from "../../store/mail/contacts/contact-search.ts";
import { findFilter } from "../../store/mail/contacts/filters.ts";
import { isWhitelisted } from "../../store/mail/contacts/whitelist.ts";
import { listContactEvents } from "../../store/mail/events/event-pages.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { areaOf, sharerOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { startImportJob } from "../import-job.ts";
import { problem } from "../problems.ts";
import { jobReply } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

const instanceParams = z.object({ name: z.string() });
const contactParams = z.object({ name: z.string(), email: z.string() });

/** Contacts of an instance: looked for, looked at, brought in and out, forgotten. */
export const makeContactEndpoints: MakeConsoleEndpoints = (context) => [
  searchEndpoint(context),
  exportEndpoint(context),
  importEndpoint(context),
  readEndpoint(context),
  eraseEndpoint(context),
];

function searchEndpoint({ db, clock, ...context }: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/contacts",
    summary: "A page of an instance's contacts, by address",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({
      search: z.string().max(255).optional().meta({ description: "part of the address or of the name" }),
      group: z.string().max(500).optional().meta({ description: "only members of this group" }),
      filter: z.int().positive().optional().meta({ description: "only what this filter selects" }),
      page: z.int().min(1).max(1_000_000).default(1),
      limit: z.int().min(1).max(1_000).default(50),
    }),
    reply: z.object({ total: z.int(), contactos: z.array(contactSummaryJson) }),
    act: ({ caller, params, fields }) =>
      withInstance({ db, clock, ...context }, caller, params.name, async (instance) => {
        const search = await toSearch(db, instance, fields);
        if (!search.ok) return search;
        const skip = (fields.page - 1) * fields.limit;
        const page = { skip, take: fields.limit, now: new Date(clock.nowMs()) };
        const { total, contacts } = await searchContacts(db, instance.id, search.value, page);
        const contactos = contacts.map((contact) => toContactSummaryJson(contact, instance.timeZone));
        return ok({ total, contactos });
      }),
  });
}

async function toSearch(
  db: ConsoleContext["db"],
  instance: Instance,
  given: {
    readonly search?: string | undefined;
    readonly group?: string | undefined;
    readonly filter?: number | undefined;
  },
): Promise<Result<ContactSearch, Refusal>> {
  const filter = given.filter === undefined ? undefined : await findFilter(db, instance.id, given.filter);
  if (given.filter !== undefined && filter === undefined) return refuse(problem("no-such-filter"));
  const gone = filter && (await judgeSelections(db, instance.id, [filter]));
  if (gone !== undefined) return refuse(unacceptable(gone));
  return ok({ text: given.search || undefined, group: given.group || undefined, condition: filter?.condition });
}

function exportEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/contacts/export",
    summary: "All contacts of an instance as CSV",
    authorise: areaOf("instance"),
    params: instanceParams,
    reply: z.string(),
    replyType: "text/csv",
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id, name }) => {
        return exportReply(`contacts-${name}`, () => exportContacts(context.db, id), sharerOf(caller, id));
      }),
  });
}

function importEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/contacts/import",
    summary: "Create and update contacts from CSV (the body); the job tells what became of each line",
    authorise: areaOf("instance"),
    params: instanceParams,
    input: "stream",
    bodyType: "text/csv",
    fields: z.object({
      dry_run: z.enum(["true", "false"]).default("false").meta({ description: "report, and change nothing" }),
    }),
    reply: jobReply,
    change: { action: "contact.import", object: ({ params }) => params.name, detail: ({ fields }) => fields },
    act: ({ caller, params, fields, incoming }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const about = { role: "instance", scope: instance.name } as const;
        const description = { kind: "contact-import", object: instance.name, owner: caller.login, about };
        const file = { incoming, dryRun: fields.dry_run === "true" };
        // The lines that are stored stay so: the same file again goes on where this ended.
        return startImportJob(context, description, file, (csv, options) =>
          importContacts(context.db, instance.id, csv, options),
        );
      }),
  });
}

function readEndpoint(context: ConsoleContext): ConsoleEndpoint {
  const { db } = context;
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/contacts/:email",
    summary: "A contact with all that is known of it",
    authorise: areaOf("instance"),
    params: contactParams,
    reply: z.object({ contacto: fullContactJson, whitelist: z.boolean() }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id, timeZone }) => {
        const address = readAddress(params.email);
        if (!address.ok) return address;
        const contact = await findContact(db, id, address.value.key);
        if (contact === undefined) return refuse(NO_SUCH_CONTACT);
        const events = await listContactEvents(db, id, contact.id);
        const whitelist = await isWhitelisted(db, id, address.value.key);
        return ok({ contacto: toFullContactJson(contact, events, timeZone), whitelist });
      }),
  });
}

function eraseEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "DELETE",
    path: "/instances/:name/contacts/:email",
    summary:
      "Remove everything held on an address, for good. Copies (cc, bcc) that still wait of a message to it show what was for it: they are cancelled as well",
    authorise: areaOf("instance"),
    params: contactParams,
    reply: z.object({ contactos: z.int(), eventos: z.int(), mensajes: z.int() }),
    // Whoever is to be forgotten is not written down for it.
    change: { action: "contact.erase", object: () => "an address" },
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const address = readAddress(params.email);
        if (!address.ok) return address;
        const erasure = await eraseAddress(context.db, instance.id, address.value);
        if (isNothing(erasure)) return refuse(NO_SUCH_CONTACT);
        const { contacts, events, messages } = erasure;
        return ok({ contactos: contacts, eventos: events, mensajes: messages });
      }),
  });
}

const NO_SUCH_CONTACT = problem("no-such-contact");

function readAddress(text: string): Result<EmailAddress, Refusal> {
  const address = validateAddress(text, { allowSmtputf8: true });
  return address.ok ? address : refuse(unacceptable(address.error));
}
