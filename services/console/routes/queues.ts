import { z } from "zod";
import { encodeDomain, mapDomain } from "../../core/mail/idna.ts";
import { ok } from "../../core/result.ts";
import {
  holdDestination,
  listDestinationQueues,
  releaseDestination,
  retryDestination,
} from "../../store/mail/queue/queue-destinations.ts";
import { areaOf } from "../caller.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { pageLimit } from "../schemas.ts";

const queueJson = z.object({
  destination: z.string(),
  waiting: z.int().meta({ description: "recipients without a last outcome" }),
  due: z.int().meta({ description: "of them, those that could be tried now" }),
  held: z.boolean(),
  oldest: z.string().nullable().meta({ description: "ISO 8601, UTC" }),
  last_error: z.string().nullable(),
});

const params = z.object({
  destination: z.string().transform((given, check) => {
    const mapped = mapDomain(given);
    const domain = mapped.ok ? encodeDomain(mapped.value) : mapped;
    if (domain.ok) return domain.value.ascii;
    check.addIssue({ code: "custom", message: "domain" });
    return z.NEVER;
  }),
});

/** What waits for each destination of the deployment, and the operator's hand on it. */
export const makeQueueEndpoints: MakeConsoleEndpoints = ({ db }) => {
  const handle = (
    verb: "hold" | "release" | "retry",
    summary: string,
    act: (destination: string, login: string) => Promise<object>,
  ): ConsoleEndpoint =>
    consoleEndpoint({
      method: "POST",
      path: `/queues/:destination/${verb}`,
      summary,
      authorise: areaOf(),
      params,
      change: { action: `queue.${verb}`, object: ({ params }) => params.destination },
      reply: z.object({ destination: z.string(), recipients: z.int().optional(), held: z.boolean().optional() }),
      act: async ({ caller, params: { destination } }) =>
        ok({ destination, ...(await act(destination, caller.login)) }),
    });
  return [
    consoleEndpoint({
      method: "GET",
      path: "/queues",
      summary: "What waits, by destination, the longest queue first, and all that are held; and in all",
      authorise: areaOf(),
      fields: z.object({ limit: pageLimit }),
      reply: z.object({ queues: z.array(queueJson), waiting: z.int(), held: z.int() }),
      act: async ({ fields: { limit } }) => {
        const { queues, waiting, held } = await listDestinationQueues(db, limit);
        return ok({
          ...{ waiting, held },
          queues: queues.map(({ oldest, lastError, ...queue }) => ({
            ...queue,
            oldest: oldest?.toISOString() ?? null,
            last_error: lastError,
          })),
        });
      },
    }),
    handle("hold", "Hold a destination: no worker turns to it", async (destination, login) => {
      await holdDestination(db, destination, login);
      return { held: true };
    }),
    handle("release", "Release a destination that was held", async (destination) => {
      await releaseDestination(db, destination);
      return { held: false };
    }),
    handle("retry", "Try at once everything that is put off for a destination", async (destination) => ({
      recipients: await retryDestination(db, destination),
    })),
  ];
};
