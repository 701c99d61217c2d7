import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import { notFound, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { invalidateContact, revalidateContact, type ValidityChange } from "../../operations/mail/contact-changes.ts";
import { type AnyEndpoint, endpoint, type Method } from "../../platform/http/endpoint.ts";
import { findContactId } from "../../store/mail/contacts/contact-profiles.ts";
import { addToWhitelist, isWhitelisted, removeFromWhitelist } from "../../store/mail/contacts/whitelist.ts";
import { readKnownEmail } from "../addresses.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";

const emailInPath = z.object({ email: z.string() });
const message = z.object({ status: z.literal("ok"), msg: z.string() });
type Message = z.infer<typeof message>;

/** Operations 7 to 11: the validity of contacts, and the whitelist that protects it. */
export function validityEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  return [...changeEndpoints(services), ...whitelistEndpoints(services)];
}

function changeEndpoints({ db }: MailServices): AnyEndpoint<MailCaller>[] {
  const change = (
    path: string,
    done: string,
    apply: (instanceId: number, contactId: number) => Promise<ValidityChange>,
  ) =>
    endpoint<MailCaller, { email: z.ZodString }, z.ZodType, typeof message>({
      method: "GET",
      path: `/${path}/:email`,
      summary: path === "invalidar" ? "Make a contact invalid" : "Make a contact valid",
      params: emailInPath,
      refusals: { 404: "`no existe`: the contact" },
      reply: message,
      act: async ({ caller, params, method }): Promise<Result<Message, Refusal>> => {
        const address = validateAddress(params.email, { allowSmtputf8: true });
        const contactId = address.ok ? await findContactId(db, caller.instance.id, address.value.key) : undefined;
        if (contactId === undefined) return refuse(notFound("object-unknown"));
        const changed = ok({ status: "ok" as const, msg: `${params.email} ${done}` });
        // RFC 9110 §9.2.1: it changes nothing.
        if (method === "HEAD") return changed;
        switch (await apply(caller.instance.id, contactId)) {
          case "unknown":
            return refuse(notFound("object-unknown"));
          case "whitelisted":
            return ok({ status: "ok", msg: "whitelisted" });
          default:
            return changed;
        }
      },
    });
  return [
    change("invalidar", "invalidado", (instanceId, contactId) =>
      invalidateContact(db, instanceId, contactId, { reason: "request" }),
    ),
    change("revalidar", "revalidado", (instanceId, contactId) => revalidateContact(db, instanceId, contactId)),
  ];
}

function whitelistEndpoints({ db }: MailServices): AnyEndpoint<MailCaller>[] {
  const operation = (
    method: Method,
    summary: string,
    apply: (instanceId: number, emailKey: string) => Promise<string>,
  ) =>
    endpoint<MailCaller, { email: z.ZodString }, z.ZodType, typeof message>({
      method,
      path: "/whitelist/:email",
      summary,
      params: emailInPath,
      reply: message,
      act: async ({ caller, params }): Promise<Result<Message, Refusal>> => {
        const address = await readKnownEmail(db, caller.instance.id, params.email);
        if (!address.ok) return address;
        return ok({ status: "ok", msg: `${params.email} ${await apply(caller.instance.id, address.value.key)}` });
      },
    });
  const add = async (instanceId: number, emailKey: string) => {
    await addToWhitelist(db, instanceId, emailKey);
    return "added to whitelist";
  };
  return [
    operation("GET", "Is an address whitelisted?", async (instanceId, emailKey) =>
      (await isWhitelisted(db, instanceId, emailKey)) ? "whitelisted" : "not whitelisted",
    ),
    operation("POST", "Protect an address from invalidation", add),
    operation("PUT", "Protect an address from invalidation", add),
    operation("DELETE", "End the protection of an address", async (instanceId, emailKey) => {
      await removeFromWhitelist(db, instanceId, emailKey);
      return "removed from whitelist";
    }),
  ];
}
