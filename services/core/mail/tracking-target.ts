/** Where a click leads: the stored target, with what belongs to the recipient. */
import { ok, type Result, refuse } from "../result.ts";
import { parseHttpUrl } from "../url.ts";
import {
  countPlaces,
  octetsInPlaces,
  type PersonalValues,
  parseTemplate,
  renderTemplate,
  tagValue,
} from "./personalise.ts";

/** The query parameter that carries the conversion token on to the customer's site. */
export const CONVERSION_PARAMETER = "pmt";

/** Of values in a URL: no server takes one that is longer. */
const MOST_VALUES_OCTETS = 2 ** 18;

/** Whether a target needs the recipient's values. */
export function isPersonalTarget(target: string): boolean {
  return parseTemplate(target).some((part) => typeof part !== "string");
}

/**
 * The address that a click is sent to, fit for a Location field: as it was written where that is plain ASCII, else
 * as browsers would write it. Personal values stand in it as they would have without tracking.
 * @returns refused when the values make something of it that is no http or https URL, or that is too long for one
 */
export function resolveTarget(target: string, values: PersonalValues | undefined): Result<string, "not-a-url"> {
  const text = values === undefined ? target : withValues(target, values);
  const url = parseHttpUrl(text);
  if (url === undefined) return refuse("not-a-url");
  return ok(/^[!-~]+$/.test(text) && !/["<>\\^`{|}]/.test(text) ? text : url.href);
}

/** @returns '' where it would be too long */
function withValues(target: string, values: PersonalValues): string {
  const template = parseTemplate(target);
  const octets = octetsInPlaces(countPlaces([template]), (tag) => tagValue(tag, values));
  return octets > MOST_VALUES_OCTETS ? "" : renderTemplate(template, values);
}

/** Adds a parameter to a URL and leaves the rest as it is, fragment included. @param value needs no escaping */
export function addQueryParameter(url: string, name: string, value: string): string {
  const hash = url.indexOf("#");
  const [beforeFragment, fragment] = hash < 0 ? [url, ""] : [url.slice(0, hash), url.slice(hash)];
  const question = beforeFragment.indexOf("?");
  // RFC 3986 §3.4: the query begins behind the first question mark; any further one is its data.
  const query = question < 0 ? undefined : beforeFragment.slice(question + 1);
  const separator = query === undefined ? "?" : query === "" || query.endsWith("&") ? "" : "&";
  return `${beforeFragment}${separator}${name}=${value}${fragment}`;
}
