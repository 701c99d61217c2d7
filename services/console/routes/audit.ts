import { z } from "zod";
import { ok } from "../../core/result.ts";
import { listAudit } from "../../store/console/audit.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { pageLimit } from "../schemas.ts";

/** Who changed what, and from where. */
export const makeAuditEndpoints: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/audit",
    summary: "Changes made through the console, newest first: one's own scope's, the operator's all",
    fields: z.object({
      before: z.int().min(1).optional().meta({ description: "only entries older than this id" }),
      actor: z.string().optional(),
      limit: pageLimit,
    }),
    reply: z.object({
      audit: z.array(
        z.object({
          id: z.int(),
          timestamp: z.string(),
          actor: z.string(),
          address: z.string(),
          action: z.string(),
          object: z.string(),
          detail: z.record(z.string(), z.unknown()),
          outcome: z.enum(["begun", "done"]).meta({ description: "begun: how it ended is not known" }),
        }),
      ),
    }),
    act: async ({ caller, fields }) => {
      const entries = await listAudit(db, caller, fields);
      return ok({
        audit: entries.map(({ at, detail, ...entry }) => ({
          ...entry,
          timestamp: at.toISOString(),
          detail: detail as Record<string, unknown>,
        })),
      });
    },
  }),
];
