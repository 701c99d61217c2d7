import { domainDoesNotExist, type EmailAddress, validateAddress } from "../../core/mail/address.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Config } from "../../platform/config/config.ts";
import { domainExists, type Resolver } from "../../platform/lookups/resolver.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { allowedDomains } from "../../store/mail/instances/instances.ts";

/** What the judgement of a sender asks. */
interface SenderSurroundings {
  readonly db: Db;
  readonly config: Pick<Config, "senderDomainCheck">;
  readonly resolver: Resolver;
}

/**
 * A sender address that an instance may use: first its syntax is judged, then permission, then whether its domain
 * exists (where PALOMAR_SENDER_DOMAIN_CHECK says so). Refused in the API's words.
 */
export async function judgeSender(
  { db, config, resolver }: SenderSurroundings,
  instanceId: number,
  text: string,
): Promise<Result<EmailAddress, Refusal>> {
  const address = await permittedSender(db, instanceId, text);
  if (!address.ok) return refuse(unacceptable(address.error));
  const { asciiDomain, domain } = address.value;
  if (config.senderDomainCheck && !(await domainExists(resolver, asciiDomain))) {
    return refuse(unacceptable("sender-invalid", { reason: domainDoesNotExist(domain) }));
  }
  return address;
}

/** A sender address whose domain an instance may use, whether that exists or not. Refused in the API's words. */
export async function permittedSender(
  db: Db,
  instanceId: number,
  text: string,
): Promise<Result<EmailAddress, Sentence>> {
  const address = validateAddress(text, { allowSmtputf8: false });
  if (!address.ok) return refuse(sentence("sender-invalid", { reason: address.error }));
  const isAllowed = (await allowedDomains(db, instanceId)).includes(address.value.asciiDomain);
  return isAllowed ? address : refuse(sentence("sender-domain-not-allowed"));
}
