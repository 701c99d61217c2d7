import { domainDoesNotExistText, type EmailAddress, validateAddress } from "../core/mail/address.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { domainExists } from "../platform/resolver.ts";
import { allowedDomains, type Instance } from "../store/instances.ts";
import type { MailServices } from "./services.ts";

/** An address that somebody is to get mail at, or the API's sentence about it. */
export function readEmail(text: string): Result<EmailAddress, Refusal> {
  const address = validateAddress(text, { allowSmtputf8: false });
  return address.ok ? address : refuse(unacceptable(`invalid email ${address.error}`));
}

/**
 * A sender address that an instance may use: first its syntax is judged, then permission, then whether its domain
 * exists (where PALOMAR_SENDER_DOMAIN_CHECK says so).
 */
export async function readSender(
  { db, config, resolver }: MailServices,
  instance: Instance,
  text: string,
): Promise<Result<EmailAddress, Refusal>> {
  const address = validateAddress(text, { allowSmtputf8: false });
  if (!address.ok) return refuse(unacceptable(`remitente invalido ${address.error}`));
  const { asciiDomain, domain } = address.value;
  if (!(await allowedDomains(db, instance.id)).includes(asciiDomain)) {
    return refuse(unacceptable("dominio remitente no permitido"));
  }
  if (config.senderDomainCheck && !(await domainExists(resolver, asciiDomain))) {
    return refuse(unacceptable(`remitente invalido ${domainDoesNotExistText(domain)}`));
  }
  return ok(address.value);
}
