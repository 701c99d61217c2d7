import type Koa from "koa";
import { FullEvents } from "../operations/mail/told-events.ts";
import { KeyGuesses } from "../platform/guesses/key-guesses.ts";
import { API_KEY_GUESSES } from "../platform/guesses/policy.ts";
import { makeApp } from "../platform/http/app.ts";
import type { AnyEndpoint } from "../platform/http/endpoint.ts";
import type { LargeRequests } from "../platform/http/large-requests.ts";
import { makeRateLimits } from "../platform/http/limits.ts";
import type { Observe } from "../platform/observability/observation.ts";
import { type MailCaller, makeMailDialect } from "./dialect.ts";
import { EventStreams } from "./event-streams.ts";
import { campaignEndpoints } from "./routes/campaigns.ts";
import { contactEndpoints } from "./routes/contacts.ts";
import { eventStreamEndpoints } from "./routes/event-stream.ts";
import { eventEndpoints } from "./routes/events.ts";
import { groupEndpoints } from "./routes/groups.ts";
import { sendingEndpoints } from "./routes/sending.ts";
import { validityEndpoints } from "./routes/validity.ts";
import { versionEndpoints } from "./routes/version.ts";
import type { MailServices } from "./services.ts";

/**
 * A call to thousands of recipients, or with attachments, takes as long as a thousand small ones: of one instance there is one at a
 * time. While no other instance asks for anything there is another, so that two processors have work.
 */
const HEAVY_REQUESTS = { held: { atOnce: 8, perClient: 2 }, working: { atOnce: 2, perClient: 1, moreAlone: 1 } };

/** Every operation of the API. */
export function makeMailEndpoints(services: MailServices, streams: EventStreams): readonly AnyEndpoint<MailCaller>[] {
  return [
    ...versionEndpoints(),
    ...eventEndpoints(services),
    ...eventStreamEndpoints(services, streams),
    ...contactEndpoints(services),
    ...validityEndpoints(services),
    ...campaignEndpoints(services),
    ...sendingEndpoints(services),
    ...groupEndpoints(services),
  ];
}

/** The streams of events that this process serves. */
export function makeEventStreams({ db, clock, keyRing }: MailServices, observe: Observe): EventStreams {
  return new EventStreams({ db, clock, observe, fullEvents: new FullEvents(keyRing) });
}

/** The mail API as an app, ready to listen. @param streams are ended before it is: they would hold up its end */
export function makeMailApp(
  services: MailServices,
  observe: Observe,
  largeRequests?: LargeRequests,
  streams = makeEventStreams(services, observe),
): Koa {
  const { config } = services;
  return makeApp({
    dialect: makeMailDialect(services),
    endpoints: makeMailEndpoints(services, streams),
    bodyLimitOctets: config.apiBodyLimitOctets,
    observe,
    heavyRequests: HEAVY_REQUESTS,
    largeRequests,
    limits: makeRateLimits(config.apiRequestsPerSecond, config.limitLoopback),
    guesses: new KeyGuesses({ policy: API_KEY_GUESSES, limitLoopback: config.limitLoopback, observe }),
    trustedProxies: config.trustedProxies,
  });
}
