import { z } from "zod";
import type { Result } from "../core/result.ts";
import { bySchema, readConfigFile } from "../platform/config/config-file.ts";

const atLeastOne = z.int().min(1);
const room = z.strictObject({ messages: atLeastOne, octets: atLeastOne });

const classPolicy = z.strictObject({
  keptOctetsOfMessage: z.int().min(1_024),
  messagesPerSource: atLeastOne,
  messagesAltogether: atLeastOne,
  perDelivery: room,
  waiting: room,
  kept: room,
});

const inboundPolicy = z.strictObject({
  windowSeconds: atLeastOne,
  returnPath: classPolicy,
  feedback: classPolicy,
  report: classPolicy,
  unexplained: z.strictObject({
    messages: atLeastOne,
    octetsOfMessage: z.int().min(1_024),
    messagesPerHour: atLeastOne,
  }),
});

/**
 * What strangers may leave at the addresses of one class.
 * `keptOctetsOfMessage`: of a message to a return path or a feedback address no more is stored; one to a report address
 * that has more is refused. `messagesPerSource`, `messagesAltogether`: recipients taken in `windowSeconds` by one bounce service, from one
 * IPv4 address or IPv6 /64, and from all of which no report of the last week was about mail of ours. `perDelivery`: of
 * the reports about one delivery; of those to one report address, what its `messages` say in an hour. `waiting`: not
 * yet understood. `kept`: understood, for as long as there is room and no longer than 30 days.
 */
export type ClassPolicy = z.output<typeof classPolicy>;

/**
 * The content of config/inbound.json. `unexplained`: the newest messages that were about nothing of ours or that nobody
 * understood, cut to their first octets, and how many of them one bounce service notes in an hour.
 */
export type InboundPolicy = z.output<typeof inboundPolicy>;

/** Checks the content of the file. @returns refused with a sentence */
export function readInboundPolicy(data: unknown): Result<InboundPolicy, string> {
  return bySchema(inboundPolicy)(data);
}

/** @throws when config/inbound.json is not as it should be */
export function loadInboundPolicy(): InboundPolicy {
  return readConfigFile("inbound.json", readInboundPolicy);
}
