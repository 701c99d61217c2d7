import { z } from "zod";
import { MOST_SECONDS } from "../operations/dns/zone-soa.ts";

export { warnings, withWarnings } from "../platform/http/warnings.ts";

const MOST_SERIAL = 2 ** 32 - 1;

/** Texts of people: names, and keys before they are cleaned. */
export const text = z.string().min(1, "must not be empty").max(255, "must not be longer than 255 characters");

/** Presentation format of a domain name, escapes included. */
export const nameText = z.string().min(1, "must not be empty").max(1020, "is too long for a domain name");

/** Letters, digits, `-` and `_`; upper and lower case are the same. */
export const crmId = z
  .string()
  .max(128, "must not be longer than 128 characters")
  .regex(/^[A-Za-z0-9_-]+$/, "must consist of letters, digits, - and _");

/** A crm_id of a body that only has to be found: any text may be asked for. */
export const anyCrmId = z.string().min(1, "must not be empty");

export const seconds = z
  .int("must be a whole number of seconds")
  .min(0, "must not be negative")
  .max(MOST_SECONDS, `must not be above ${MOST_SECONDS}`);

export const serial = z
  .int("must be a whole number")
  .min(0, "must not be negative")
  .max(MOST_SERIAL, `must not be above ${MOST_SERIAL}`);

/** Decimal digits, as a number: how numbers are written in a path. */
export const digits = z
  .string()
  .regex(/^\d{1,10}$/, "must be a whole number")
  .transform(Number);

export const secondsInPath = digits.pipe(seconds);
export const serialInPath = digits.pipe(serial);

export const domainParam = z.object({ domain: z.string() });
