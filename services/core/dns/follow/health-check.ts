import { z } from "zod";
import { parseDomainName } from "../name.ts";

const PORT = z.int("check-port-form").min(1, "check-port-form").max(65_535, "check-port-form");
const BOUNDS = { interval: [5, 3_600], timeout: [1, 30], tries: [1, 10], recovery: [0, 86_400] } as const;
const secondsOf = (of: keyof typeof BOUNDS) =>
  z.int("whole-number").min(BOUNDS[of][0], "at-least").max(BOUNDS[of][1], "not-above");

/** When a member is looked at, and what it takes to be down and up again; seconds. */
const timing = z.object({
  interval: secondsOf("interval").default(10),
  timeout: secondsOf("timeout").default(5),
  tries: secondsOf("tries").default(2).meta({ description: "failures in a row that make a member down" }),
  recovery: secondsOf("recovery")
    .default(30)
    .meta({ description: "seconds without a failure after which a member is up again; they double while it flaps" }),
  quorum: z
    .int("whole-number")
    .min(1, "at-least")
    .max(100, "not-above")
    .default(51)
    .meta({ description: "percent of the checking nodes that have to find a member down" }),
});

const LINE = /^[\x20-\x7e]+$/;
const line = (most: number) =>
  z.string().max(most, { error: "not-longer-than-characters", abort: true }).regex(LINE, "printable-ascii");
const statuses = z
  .array(z.string().regex(/^[1-5]\d\d(-[1-5]\d\d)?$/, "http-status-form"))
  .min(1, "not-empty")
  .max(20, "too-many-entries");

const http = timing.extend({
  path: z
    .string()
    .max(1_024, { error: "not-longer-than-characters", abort: true })
    .regex(/^\/[\x21-\x7e]*$/, "http-path-form")
    .default("/"),
  host: z
    .string()
    .max(255, { error: "not-longer-than-characters", abort: true })
    .regex(/^[A-Za-z0-9._-]+(:\d{1,5})?$/, "http-host-form")
    .optional()
    .meta({ description: "for Host and SNI; the pool's own name unless given" }),
  status: statuses.default(["200-399"]).meta({ description: "codes, or ranges of them, that are well" }),
  text: z
    .string()
    .max(1_024, "not-longer-than-characters")
    .optional()
    .meta({ description: "what the first 64 KiB of the body have to contain" }),
});

/** How a member of a pool is looked at. */
export const healthCheck = z.discriminatedUnion("type", [
  timing.extend({ type: z.literal("tcp"), port: PORT }),
  http.extend({ type: z.literal("http"), port: PORT.default(80) }),
  http.extend({
    type: z.literal("https"),
    port: PORT.default(443),
    verify: z.boolean("true-or-false").default(true).meta({ description: "whether the certificate has to be valid" }),
    certificate_days: z
      .int("whole-number")
      .min(0, "not-negative")
      .max(398, "not-above")
      .default(0)
      .meta({ description: "days for which the certificate has to be valid still" }),
  }),
  timing.extend({ type: z.literal("smtp"), port: PORT.default(25) }),
  timing.extend({
    type: z.literal("dns"),
    port: PORT.default(53),
    question: line(255)
      .refine((text) => parseDomainName(text).ok, "domain-name-needed")
      .meta({ description: "a name; an answer with NOERROR and a record of the type is well" }),
    question_type: z.enum(["A", "AAAA", "NS", "SOA", "MX", "TXT"], "one-of").default("SOA"),
  }),
]);

export type HealthCheck = z.output<typeof healthCheck>;
