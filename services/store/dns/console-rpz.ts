import { type DomainName, nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import { type ShownRule, showRpzRecord } from "../../core/dns/rpz/rules.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { escapeLike } from "./like-pattern.ts";

/** A rule as the console lists it. */
export interface ListedRule extends ShownRule {
  readonly id: number;
  /** When it goes by itself. */
  readonly expiresAt: Date | null;
}

/**
 * The rules of a feed whose trigger contains a text, oldest first. An IPv4 address may be given as it is written,
 * although triggers have it the other way round.
 * @param page `after`: only rules with a greater id; `owner`: only what this one trigger does
 */
export async function searchRules(
  db: Db,
  feed: { readonly id: number; readonly apex: DomainName },
  text: string,
  page: { readonly after: number; readonly limit: number; readonly owner?: DomainName },
): Promise<ListedRule[]> {
  const rows = await queryRows<{
    id: number;
    owner: Buffer;
    type: number;
    ttl: number;
    rdata: Buffer;
    expires_at: Date | null;
  }>(
    db,
    `select r.id, r.owner, r.type, r.ttl, r.rdata, e.expires_at
       from records r left join rpz_expiries e on e.record_id = r.id
      where r.zone_id = $1 and r.id > $2 and r.owner <> $3
        and ($4::text = '' or r.owner like any ($5::bytea[])) and ($7::bytea is null or r.owner_key = $7)
      order by r.id limit $6`,
    [
      feed.id,
      page.after,
      feed.apex.wire,
      text,
      patternsOf(text),
      page.limit,
      page.owner ? nameSortKey(page.owner.wire) : null,
    ],
  );
  return rows.map(({ id, owner, type, ttl, rdata, expires_at }) => {
    const shown = showRpzRecord({ owner: nameFromStoredWire(owner), type, ttl, rdata }, feed.apex);
    return { id, ...shown, expiresAt: expires_at };
  });
}

/** In wire form a label's length stands where the text has a dot. */
function patternsOf(text: string): Buffer[] {
  const plain = text
    .toLowerCase()
    .replace(/^[a-z-]+:(?=.)/, "")
    .replace(/^\*\./, "");
  const labels = plain.split(".");
  const orders = /^\d+(\.\d+)+(\/\d+)?$/.test(plain)
    ? [labels, plain.replace(/\/.*/, "").split(".").reverse()]
    : [labels];
  return orders.map((order) => Buffer.from(`%${order.map(escapeLike).join("_")}%`, "utf8"));
}
