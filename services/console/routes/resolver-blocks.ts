import { z } from "zod";
import { canonicalBlock, readBlockText } from "../../core/dns/address-block.ts";
import { invalidField } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { listResolverBlocks, putResolverBlock, removeResolverBlock } from "../../store/dns/resolver-blocks.ts";
import { areaOf, visibleReseller } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";

const idParam = z.object({ id: z.string() });
const area = areaOf("reseller");

/** From where the resolvers may be used. */
export const makeResolverBlockEndpoints: MakeConsoleEndpoints = ({ db }) => {
  const block = z.object({ block: z.string(), description: z.string() });
  return [
    consoleEndpoint({
      method: "GET",
      path: "/resellers/:id/resolver_blocks",
      summary: "Blocks that the resolvers may be used from",
      authorise: area,
      params: idParam,
      reply: z.object({ resolver_blocks: z.array(block) }),
      act: async ({ caller, params }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        return reseller.ok ? ok({ resolver_blocks: await listResolverBlocks(db, params.id) }) : reseller;
      },
    }),
    consoleEndpoint({
      method: "POST",
      path: "/resellers/:id/resolver_blocks",
      summary: "Add a block, or give one that is there another description",
      authorise: area,
      params: idParam,
      fields: z.object({ block: z.string(), description: z.string().max(255).optional() }),
      change: {
        action: "resolver-block.put",
        object: ({ fields }) => fields.block,
        detail: ({ fields: { description } }) => ({ description }),
      },
      reply: block,
      act: async ({ caller, params, fields }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        if (!reseller.ok) return reseller;
        const block = readBlockText(fields.block);
        if (!block.ok) return refuse(invalidField("block", block.error));
        const stored = await putResolverBlock(db, params.id, { block: block.value, description: fields.description });
        return stored ? ok(stored) : refuse(problem("no-such-reseller"));
      },
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/resellers/:id/resolver_blocks",
      summary: "Remove a block",
      authorise: area,
      params: idParam,
      fields: z.object({ block: z.string() }),
      change: { action: "resolver-block.remove", object: ({ fields }) => fields.block },
      reply: z.object({ msg: z.literal("removed") }),
      act: async ({ caller, params, fields }) => {
        const reseller = await visibleReseller(db, caller, params.id);
        if (!reseller.ok) return reseller;
        const block = canonicalBlock(fields.block);
        const removed = block !== undefined && (await removeResolverBlock(db, params.id, block));
        return removed ? ok({ msg: "removed" as const }) : refuse(problem("no-such-block"));
      },
    }),
  ];
};
