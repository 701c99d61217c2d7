import { z } from "zod";
import type { WarmUpPlan } from "../../core/mail/pace/warm-up.ts";
import { bySchema, readConfigFile } from "./config-file.ts";

const days = z.array(z.int().min(1)).min(1).max(366);
const count = z.int().min(1);
const percent = z.number().min(0).max(100);

/** The content of config/warm-up.json; see `WarmUpPlan`. */
const warmUpFile = z.strictObject({
  messagesPerDay: z.object({ default: days }).catchall(days),
  spreadHours: z.int().min(1).max(24),
  engagement: z
    .array(z.strictObject({ fromHour: z.int().min(0).max(23), touchedWithinDays: count.nullable() }))
    .refine((rows) => rows.every(({ fromHour }, index) => fromHour > (rows[index - 1]?.fromHour ?? -1)), {
      error: "hours ascend",
    }),
  pause: z.strictObject({
    hours: z.number().positive().max(168),
    deferrals: z.strictObject({ least: count, percent }),
    complaints: z.strictObject({ least: count, percent, days: count }),
  }),
});

/** The plan that new source addresses follow: config/warm-up.json. */
export const warmUpPlan: WarmUpPlan = readConfigFile("warm-up.json", bySchema(warmUpFile));
