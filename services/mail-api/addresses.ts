import { type EmailAddress, validateAddress } from "../core/mail/address.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { type Result, refuse } from "../core/result.ts";
import type { Sentence } from "../core/sentences.ts";
import type { Db } from "../platform/postgres/db.ts";
import { judgeContactAddress } from "../store/mail/contacts/contact-profiles.ts";

/** An address that somebody is to get mail at, or the API's sentence about it. */
export function readEmail(text: string): Result<EmailAddress, Refusal> {
  return worded(validateAddress(text, { allowSmtputf8: false }));
}

/** An address that is asked about: any that `readEmail` takes, and those beyond ASCII that are contacts already. */
export async function readKnownEmail(db: Db, instanceId: number, text: string): Promise<Result<EmailAddress, Refusal>> {
  return worded(await judgeContactAddress(db, instanceId, text));
}

function worded(address: Result<EmailAddress, Sentence>): Result<EmailAddress, Refusal> {
  return address.ok ? address : refuse(unacceptable("email-invalid", { reason: address.error }));
}
