import { z } from "zod";
import type { ZoneChanged } from "../operations/dns/zone-changes.ts";
import { MOST_SECONDS } from "../operations/dns/zone-soa.ts";
import { warnings, withWarnings } from "../platform/http/problem.ts";

export { tellSentence, toldSentence, warnings, withWarnings } from "../platform/http/problem.ts";

const MOST_SERIAL = 2 ** 32 - 1;

/** Texts of people: names, and keys before they are cleaned. */
export const text = z.string().min(1, "not-empty").max(255, "not-longer-than-characters");

/** Presentation format of a domain name, escapes included. */
export const nameText = z.string().min(1, "not-empty").max(1020, "too-long-for-a-name");

/** Letters, digits, `-` and `_`; upper and lower case are the same. */
export const crmId = z
  .string()
  // What is too long is not judged further: on megabytes an expression may have no room for its steps back.
  .max(128, { error: "not-longer-than-characters", abort: true })
  .regex(/^[A-Za-z0-9_-]+$/, "company-id-form");

/** A crm_id of a body that only has to be found: any text may be asked for. */
export const anyCrmId = z.string().min(1, "not-empty");

export const seconds = z.int("whole-number-of-seconds").min(0, "not-negative").max(MOST_SECONDS, "not-above");

export const serial = z.int("whole-number").min(0, "not-negative").max(MOST_SERIAL, "not-above");

/** Beside a change: what the zone is to have still. */
export const atSerial = serial
  .optional()
  .meta({ description: "of the zone that it is meant for: refused when the zone was changed meanwhile" });

/** Decimal digits, as a number: how numbers are written in a path. */
const digits = z
  .string()
  .regex(/^\d{1,10}$/, "whole-number")
  .transform(Number);

export const secondsInPath = digits.pipe(seconds);
export const serialInPath = digits.pipe(serial);

export const domainParam = z.object({ domain: z.string() });

/** What every change of records, aliases and pools replies with. */
export const serialReply = z.object({ serial: z.int(), warnings });

export function showChange(
  { zone, warnings: found }: Pick<ZoneChanged, "zone" | "warnings">,
  headers: Parameters<typeof withWarnings>[1],
) {
  return { serial: zone.soa.serial, ...withWarnings(found, headers) };
}
