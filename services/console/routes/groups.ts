import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import { groupName, groupsFull } from "../../core/mail/contact-input.ts";
import { unacceptable } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { replyItems } from "../../platform/http/streamed-json.ts";
import { findContactId } from "../../store/mail/contacts/contact-profiles.ts";
import { addGroups, type GroupSize, leaveGroup, removeGroup, streamGroups } from "../../store/mail/contacts/groups.ts";
import { areaOf, sharerOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { withInstance } from "../with-instance.ts";

const instanceParams = z.object({ name: z.string() });
const deleted = z.object({ msg: z.string() });

/** Groups of contacts. Contacts join them by the contact's own fields (`grupos`), and leave them here. */
export const makeGroupEndpoints: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/groups",
    summary: "The groups of an instance, with how many contacts are in each",
    authorise: areaOf("instance"),
    params: instanceParams,
    reply: z.object({ grupos: z.array(z.object({ nombre: z.string(), contactos: z.int() })) }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const key = sharerOf(caller, id);
        const readGroups = () => streamGroups(context.db, id);
        return replyItems("grupos", readGroups, showGroup, { sharer: { key, group: key }, holds: "page" });
      }),
  }),
  consoleEndpoint({
    method: "POST",
    path: "/instances/:name/groups",
    summary: "Make a group; repeating it is no error",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({ nombre: groupName }),
    reply: z.object({ nombre: z.string() }),
    change: { action: "group.add", object: ({ fields }) => fields.nombre },
    act: ({ caller, params, fields }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        if ((await addGroups(context.db, id, [fields.nombre])).size > 0) return refuse(unacceptable(groupsFull));
        return ok({ nombre: fields.nombre });
      }),
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/instances/:name/groups/:group",
    summary: "Remove a group; its contacts stay",
    authorise: areaOf("instance"),
    params: z.object({ name: z.string(), group: z.string() }),
    reply: deleted,
    change: { action: "group.remove", object: ({ params }) => params.group },
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) =>
        (await removeGroup(context.db, id, params.group)) ? ok({ msg: "deleted" }) : refuse(problem("no-such-group")),
      ),
  }),
  consoleEndpoint({
    method: "DELETE",
    path: "/instances/:name/groups/:group/contacts/:email",
    summary: "Take a contact out of a group",
    authorise: areaOf("instance"),
    params: z.object({ name: z.string(), group: z.string(), email: z.string() }),
    reply: deleted,
    change: { action: "group.leave", object: ({ params }) => params.group },
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async ({ id }) => {
        const address = validateAddress(params.email, { allowSmtputf8: true });
        const contactId = address.ok ? await findContactId(context.db, id, address.value.key) : undefined;
        const left = contactId !== undefined && (await leaveGroup(context.db, contactId, id, params.group));
        return left ? ok({ msg: "deleted" }) : refuse(problem("no-such-member"));
      }),
  }),
];

const showGroup = ({ name, contacts }: GroupSize) => ({ nombre: name, contactos: contacts });
