import { z } from "zod";
import { ok } from "../../core/result.ts";
import { listNodes } from "../../store/dns/nodes.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";

const nodeReply = z.object({
  node: z.string(),
  services: z.array(z.object({ name: z.string(), ready: z.boolean() })),
  lag_ms: z.int().nullable().meta({ description: "since its zones were known to be the database's" }),
  version: z.string(),
  seen: z.iso.datetime(),
});

/** The machines that this deployment runs on. */
export const makeNodeEndpoints: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/nodes",
    summary: "List the nodes, and what each of them runs",
    authorise: areaOf(),
    reply: z.object({ nodes: z.array(nodeReply) }),
    act: async () => {
      const nodes = await listNodes(db);
      return ok({
        nodes: nodes.map(({ node, services, lagMs, version, seen }) => ({
          node,
          services: [...services],
          lag_ms: lagMs,
          version,
          seen: seen.toISOString(),
        })),
      });
    },
  }),
];
