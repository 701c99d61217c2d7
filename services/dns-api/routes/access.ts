import { z } from "zod";
import { isForZone } from "../../core/dns/token.ts";
import { ok } from "../../core/result.ts";
import { listAcls } from "../../store/dns/acls.ts";
import { listResolverBlocks } from "../../store/dns/resolver-blocks.ts";
import { listActiveFeeds } from "../../store/dns/rpz-feeds.ts";
import { licensedOnly, resellerOnly } from "../caller.ts";
import { dnsEndpoint, type MakeEndpoints } from "../context.ts";

/** Who may transfer and resolve: ACLs, resolver blocks, response policy zones. All of it is the operator's to set. */
export const makeAccessEndpoints: MakeEndpoints = ({ db }) => [
  dnsEndpoint("transfer", {
    method: "GET",
    path: "/resolver_blocks",
    summary: "List the blocks that resolvers may be used from",
    authorise: resellerOnly,
    reply: z.object({ resolver_blocks: z.array(z.object({ block: z.string(), description: z.string() })) }),
    act: async ({ caller }) => ok({ resolver_blocks: await listResolverBlocks(db, caller.resellerId) }),
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/active_rpz",
    summary: "List the active response policy zones; needs the licence",
    authorise: licensedOnly,
    reply: z.object({ active_rpz: z.array(z.object({ zone: z.string(), serial: z.int(), rules: z.int() })) }),
    act: async ({ caller }) => ok({ active_rpz: await listActiveFeeds(db, caller.resellerId) }),
  }),
  dnsEndpoint("transfer", {
    method: "GET",
    path: "/acls",
    summary: "List transfer ACLs, without the secrets of their keys",
    authorise: resellerOnly,
    reply: z.object({
      acls: z.array(
        z.object({
          name: z.string(),
          blocks: z.array(z.string()),
          tsig: z.object({ name: z.string(), algorithm: z.string() }).nullable(),
          zones: z.array(z.string()).nullable(),
        }),
      ),
    }),
    act: async ({ caller: { resellerId, token } }) => {
      const acls = (await listAcls(db, resellerId)).flatMap(({ name, blocks, tsig, zones }) => {
        const told = zones?.filter((zone) => token === undefined || isForZone(token, zone)) ?? null;
        // Of what is about others' zones alone a token is told nothing.
        if (token !== undefined && told?.length === 0) return [];
        return [{ name, blocks: [...blocks], tsig, zones: told }];
      });
      return ok({ acls });
    },
  }),
];
