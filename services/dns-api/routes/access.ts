import { z } from "zod";
import { parseDomainName } from "../../core/dns/name.ts";
import { judgeZone, type Token } from "../../core/dns/token.ts";
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
    act: async ({ caller }) => {
      const acls = await listAcls(db, caller.resellerId);
      const told = acls.map(({ zones, ...acl }) => ({ ...acl, zones: zones && coveredZones(zones, caller.token) }));
      return ok({
        acls: told
          .filter(({ zones }) => zones?.length !== 0)
          .map(({ name, blocks, tsig, zones }) => ({ name, blocks: [...blocks], tsig, zones })),
      });
    },
  }),
];

/** Of the zones of an ACL those that a token is for. */
function coveredZones(zones: readonly string[], token: Token | undefined): string[] {
  return zones.filter((zone) => {
    const apex = parseDomainName(zone);
    return token === undefined || (apex.ok && judgeZone(token, apex.value) === undefined);
  });
}
