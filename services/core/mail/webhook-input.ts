import { z } from "zod";
import { NAME_FORM } from "../customer-input.ts";
import { hasCredentials, isHttpUrl } from "../url.ts";

/** What may be said of a webhook from outside. */
export const webhookFields = {
  url: z
    .string()
    .max(2_000)
    .refine(isHttpUrl, "http-url")
    .refine((text) => !hasCredentials(text), "url-credentials")
    .trim()
    .meta({ format: "uri" }),
  name: z.string().regex(NAME_FORM, "instance-name-form"),
  kinds: z.array(z.string()).min(1).max(50).optional().meta({ description: "names of events, such as entregado" }),
  campaigns: z.array(z.int().positive()).min(1).max(100).optional(),
};
