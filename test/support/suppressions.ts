import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import { parseSuppressionTarget, type SuppressionTarget } from "../../services/core/mail/suppression.ts";
import { unsubscribeContact, unsubscribeFromAll } from "../../services/operations/mail/contact-changes.ts";
import { findContactId } from "../../services/store/mail/contacts/contact-profiles.ts";
import type { TestInstance, TestMailApi } from "./mail-api.ts";

/** A campaign that calls of an instance send by. @returns its number */
export async function makeCampaign(instance: TestInstance): Promise<number> {
  const made = await instance.call("POST", "/v1/campania", {
    ...{ tipo: "api", nombre: "news", remitente: "n@example.org", remitente_nombre: "N", asunto: "Hi" },
    ...{ url: "https://example.org/", charset: "utf8", desusc: "no" },
  });
  expect(made.status).toBe(200);
  return made.body.numid;
}

/** @throws of what is neither an address nor a domain */
export function target(text: string): SuppressionTarget {
  const read = parseSuppressionTarget(text);
  if (!read.ok) throw new Error(read.error.message);
  return read.value;
}

/** Sends to addresses. @returns how many were, and the events of each address, in the order of the addresses */
export async function sendTo(
  instance: TestInstance,
  campaign: number,
  to: readonly string[],
  copies: readonly string[] = [],
): Promise<{ readonly sent: number; readonly events: readonly string[] }> {
  const one = to.length === 1;
  const answer = await instance.call("POST", `/v1/envio/send_${one ? "one" : "many"}_inline/`, {
    ...{ campana_id: campaign, email: true, html: "x" },
    ...(one ? { contacto: { email: to[0] } } : { contactos: to.map((email) => ({ email })) }),
    ...(copies.length > 0 ? { copia: copies.map((cc_email) => ({ cc_email })) } : {}),
  });
  expect(answer.status).toBe(200);
  const info = await instance.call("GET", `/v1/eeid_info/${answer.body.eeid}`);
  const events: string[] = info.body.envio_efectivo.contactos.map(
    ({ email, eventos }: { email: string; eventos: { eventos: string }[] }) =>
      `${email} ${eventos.map((event) => event.eventos).join()}`,
  );
  return { sent: answer.body.sent, events: events.sort() };
}

/** The person behind a contact of `north` wants nothing more of it, or of a campaign. */
export async function unsubscribe(
  api: TestMailApi,
  {
    email,
    campaign,
    of = "everything",
  }: { email: string; campaign: number; of?: "everything" | "campaign" | undefined },
): Promise<void> {
  const { id: instanceId } = api.north;
  const contactId = (await findContactId(api.db, instanceId, email))!;
  const said = { campaignNumid: campaign, eeid: randomUUID(), deliveryId: 1, at: new Date() };
  const done =
    of === "campaign"
      ? await unsubscribeContact(api.db, { instanceId, contactId, ...said })
      : await unsubscribeFromAll(api.db, instanceId, contactId, { reason: "all", ...said });
  expect(done).toBe(true);
}
