import type { Db } from "../platform/db.ts";

/** Addresses that a reseller's resolvers are used from. */
export interface ResolverBlock {
  /** CIDR form, host bits zero. */
  readonly block: string;
  readonly description: string;
}

export function listResolverBlocks(db: Db, resellerId: string): Promise<ResolverBlock[]> {
  return db("resolver_blocks").where({ reseller_id: resellerId }).select("block", "description").orderBy("block");
}

/** Adds a block, or gives one that is there another description. @returns false when there is no such reseller */
export async function putResolverBlock(db: Db, resellerId: string, added: ResolverBlock): Promise<boolean> {
  const known = await db("resellers").where({ id: resellerId }).first("id");
  if (!known) return false;
  await db("resolver_blocks")
    .insert({ reseller_id: resellerId, ...added })
    .onConflict(["reseller_id", "block"])
    .merge(["description"]);
  return true;
}
