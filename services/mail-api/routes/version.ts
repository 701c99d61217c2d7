import { z } from "zod";
import { ok } from "../../core/result.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { API_VERSION, type MailCaller } from "../dialect.ts";

/** Operation 1. */
export function versionEndpoints(): AnyEndpoint<MailCaller>[] {
  return [
    endpoint({
      method: "GET",
      path: "/version",
      summary: "The version of this API",
      reply: z.object({ version: z.string() }),
      act: async () => ok({ version: API_VERSION }),
    }),
  ];
}
