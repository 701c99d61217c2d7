import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";

export const REQUEST_ID_HEADER = "x-request-id";

/** What others may call a request: it stands in logs, so it is short and has nothing to be misread. */
const LAWFUL = /^[A-Za-z0-9._:+/=-]{1,128}$/;

/**
 * What a request is called in the logs of every service that it passes: what the caller calls it in `X-Request-Id`, else
 * a name of our own, which is then in the request's headers for whoever passes it on.
 */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers[REQUEST_ID_HEADER];
  if (typeof given === "string" && LAWFUL.test(given)) return given;
  const made = randomUUID();
  request.headers[REQUEST_ID_HEADER] = made;
  return made;
}
