import { z } from "zod";
import { DETECTOR_ACTIONS } from "../../core/mail/guard/behaviour.ts";
import { bySchema, readConfigFile } from "./config-file.ts";

const action = z.enum(DETECTOR_ACTIONS);
const count = z.int().min(1);
const share = z.strictObject({
  action,
  windowMinutes: z.int().min(1).max(1440),
  leastTried: count,
  leastWrong: count,
  percent: z.number().positive().max(100),
});

const score = z.number().nullable();

/**
 * The content of config/guard.json: what instances are watched for (core/mail/guard/behaviour.ts), and what follows.
 * `content`: from which score of a content filter (PALOMAR_RSPAMD) on a message is refused, held, or marked; null: never; and
 * what becomes of messages while the filter is away. What came by API is held where submission refuses.
 * `everySeconds`: how often. `tellAgainMinutes`: after which what is only told is told again.
 */
const guardFile = z.strictObject({
  everySeconds: z.int().min(1).max(15),
  complaints: share,
  hardBounces: share,
  unknownAddresses: share,
  rise: z.strictObject({
    action,
    leastSent: count,
    factor: z.number().min(1),
    historyDays: count,
    leastAgeDays: z.number().min(0),
  }),
  newCountry: z.strictObject({ action, settledHours: z.number().min(0) }),
  content: z.strictObject({
    refuseScore: score,
    holdScore: score,
    markScore: score,
    away: z.enum(["accept", "hold", "refuse"]),
    timeoutMs: count,
  }),
  tellAgainMinutes: count,
});

export type GuardPolicy = z.output<typeof guardFile>;

/** How instances are watched: config/guard.json. */
export const guardPolicy: GuardPolicy = readConfigFile("guard.json", bySchema(guardFile));
