import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** Addresses that a reseller's resolvers are used from. */
export interface ResolverBlock {
  /** CIDR form, host bits zero. */
  readonly block: string;
  readonly description: string;
}

export function listResolverBlocks(db: Db, resellerId: string): Promise<ResolverBlock[]> {
  return db("resolver_blocks").where({ reseller_id: resellerId }).select("block", "description").orderBy("block");
}

/**
 * Adds a block, or gives one that is there another description.
 * @param description undefined: that of a block that is there stays
 * @returns the block as it is now; undefined when there is no such reseller
 */
export async function putResolverBlock(
  db: Db,
  resellerId: string,
  { block, description }: Pick<ResolverBlock, "block"> & { readonly description: string | undefined },
): Promise<ResolverBlock | undefined> {
  const [stored] = await queryRows<ResolverBlock>(
    db,
    `insert into resolver_blocks (reseller_id, block, description)
     select id, $1, coalesce($2::text, '') from resellers where id = $3
     on conflict (reseller_id, block) do update set description = coalesce($4::text, resolver_blocks.description)
     returning block, description`,
    [block, description ?? null, resellerId, description ?? null],
  );
  return stored;
}

/** @returns false when the reseller has no such block */
export async function removeResolverBlock(db: Db, resellerId: string, block: string): Promise<boolean> {
  return (await db("resolver_blocks").where({ reseller_id: resellerId, block }).delete()) > 0;
}
