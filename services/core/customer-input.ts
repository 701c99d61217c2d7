import { judgeChosenKey } from "./chosen-key.ts";
import { validateAddress } from "./mail/address.ts";
import { invalidField, type Refusal } from "./refusal.ts";
import { ok, type Result, refuse } from "./result.ts";

/** Longer ones than anybody needs would only fill header fields. */
const LONGEST_KEY = 256;
/** Of the 253 characters of a name (RFC 1035 §3.1), less `._domainkey.` and the 23 of the longest selector. */
const LONGEST_NEW_SENDER_DOMAIN = 218;

/** What identifies a reseller. */
export function readResellerId(text: string): Result<string, Refusal> {
  return /^[A-Za-z0-9._-]{1,64}$/.test(text) ? ok(text) : refuse(invalidField("reseller_id", "reseller-id-form"));
}

/**
 * An API key that somebody chose for a reseller, a company or an instance: it travels in a header field.
 * @param field the field that a refusal names
 */
export function readChosenKey(field: string, text: string): Result<string, Refusal> {
  if (/[^\x21-\x7e]/.test(text)) return refuse(invalidField(field, "visible-ascii"));
  if (text.length > LONGEST_KEY) return refuse(invalidField(field, "at-most-characters", { most: LONGEST_KEY }));
  return judgeChosenKey(field, text);
}

/** Names of instances and of their webhooks. */
export const NAME_FORM = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

export function readInstanceName(text: string): Result<string, Refusal> {
  return NAME_FORM.test(text) ? ok(text) : refuse(invalidField("name", "instance-name-form"));
}

/** A host by which an instance's requests are told apart: by the name alone, whatever the port. */
export function readInstanceHost(text: string): Result<string, Refusal> {
  const host = text.toLowerCase().replace(/:\d+$/, "").replace(/\.$/, "");
  return /^([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\])$/.test(host)
    ? ok(host)
    : refuse(invalidField("host", "no-host", { text }));
}

/** A sender domain is one that a sender address can have. @returns A-labels in lower case */
export function readSenderDomain(text: string): Result<string, Refusal> {
  // What would be said of the address names no domain.
  if (!/^[^@.]+(?:\.[^@.]+)*\.?$/.test(text)) return refuse(invalidField("domain", "no-domain-name", { text }));
  const address = validateAddress(`postmaster@${text.replace(/\.$/, "")}`, { allowSmtputf8: false });
  return address.ok ? ok(address.value.asciiDomain) : refuse(invalidField("domain", address.error));
}

/** A sender domain that is to be added: there have to be names for its DKIM records. */
export function readNewSenderDomain(text: string): Result<string, Refusal> {
  const domain = readSenderDomain(text);
  const most = LONGEST_NEW_SENDER_DOMAIN;
  return !domain.ok || domain.value.length <= most
    ? domain
    : refuse(invalidField("domain", "at-most-characters", { most }));
}

/** An IANA time zone. @returns the name as given, in its proper spelling where that is not another zone's name */
export function readTimeZone(text: string): Result<string, Refusal> {
  try {
    // ICU answers with names of its own: America/Buenos_Aires for America/Argentina/Buenos_Aires.
    const { timeZone } = new Intl.DateTimeFormat("en", { timeZone: text }).resolvedOptions();
    return ok(timeZone.toLowerCase() === text.toLowerCase() ? timeZone : text);
  } catch {
    return refuse(invalidField("time_zone", "no-time-zone", { text }));
  }
}
