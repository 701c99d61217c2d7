import { z } from "zod";
import { LIMIT_SCOPES, OVER_LIMIT } from "../../core/mail/guard/sending-limits.ts";
import { bySchema, readConfigFile } from "./config-file.ts";

const bound = z.int().min(0).nullable().default(null);

/**
 * The content of config/sending-limits.json.
 * `default`: what every instance may send that has no limit of its own for the scope; `campaign` and `sender` go for each
 * of them. `ramp`: what a new instance may send a day, up to an age in days; `newInstances`: whether every instance has it
 * from the moment it is added, else it is begun for one (`palomar instance ramp`). `over`: whether what is above is refused
 * or waits for a window with room. `mostDaysAhead`: for how long mail waits at most; what would wait longer is refused.
 * `keptDays`: for how long counts are kept.
 */
const limitsFile = z.strictObject({
  default: z.array(
    z
      .strictObject({ scope: z.enum(LIMIT_SCOPES), perHour: bound, perDay: bound, over: z.enum(OVER_LIMIT) })
      .transform((limit) => ({ ...limit, subject: "" })),
  ),
  ramp: z.strictObject({
    newInstances: z.boolean(),
    over: z.enum(OVER_LIMIT),
    days: z
      .array(z.strictObject({ until: z.number().positive(), perDay: z.int().min(0) }))
      .refine((days) => days.every(({ until }, index) => index === 0 || until > days[index - 1]!.until), {
        error: "ages ascend",
      }),
  }),
  mostDaysAhead: z.int().min(1).max(60),
  keptDays: z.int().min(2),
});

export type SendingPolicy = z.output<typeof limitsFile>;

/** What goes for all instances: config/sending-limits.json. */
export const sendingPolicy: SendingPolicy = readConfigFile("sending-limits.json", bySchema(limitsFile));
