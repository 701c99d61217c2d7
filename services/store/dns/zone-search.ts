import { type Db, queryRows, StatementValues } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";
import { isIndexed, partsOfPattern } from "./zone-name-parts.ts";
import { isInScope, type ListPosition, type ZoneScope } from "./zones.ts";

export interface ZoneNameSearch {
  readonly scope: ZoneScope;
  /** A pattern of LIKE. */
  readonly like: string;
  /** Only zones that come after this place in canonical order. */
  readonly after: ListPosition;
  readonly limit: number;
}

/** Zones that are gone over one by one before anything else is asked. */
const FIRST_WALK = 300;
/** Then those that may have the pattern, before the index of parts of names is asked. */
const NEXT_WALKS = [300, 3_000];

/** After all that a sort key can go on with. */
const BEYOND = Buffer.alloc(256, 0xff);

/** Ids that were found; not all where the walk ended before the zones did. */
interface Found {
  readonly ids: readonly number[];
  readonly isAll: boolean;
}

/**
 * The ids of the scope's zones whose names are like a pattern, the first ones in canonical order, in no order. What many
 * zones have is found soon by going over those in order that may have it, what few have by the index of parts of names; which
 * it is PostgreSQL cannot know.
 */
export async function searchZoneNames(db: Db, search: ZoneNameSearch): Promise<readonly number[]> {
  const first = await walk(db, search, Math.max(FIRST_WALK, search.limit));
  if (first.isAll) return first.ids;
  if (!isIndexed(search.like)) return walkBuckets(db, search);
  for (const most of NEXT_WALKS) {
    const next = await walkBucketsInPart(db, search, Math.max(most, search.limit));
    if (next.isAll) return next.ids;
  }
  return askIndex(db, search);
}

/** Goes over zones in order. */
async function walk(db: Db, search: ZoneNameSearch, most: number): Promise<Found> {
  const values = new StatementValues();
  const walked = `select z.id, z.name, z.name_key from zones z where ${placeOf(search, values)}
                   order by z.name_key limit ${values.add(most)}`;
  return findInWalked(db, search, { walked, order: "name_key", values, most });
}

/** Goes over the zones of buckets that may have the pattern, in order. */
function walkBucketsInPart(db: Db, search: ZoneNameSearch, most: number): Promise<Found> {
  const values = new StatementValues();
  const limit = values.add(most);
  const walked = `
    select z.id, z.name, z.name_key, b.bucket from ${bucketsOf(search, values)} b cross join lateral (
      select z.id, z.name, z.name_key from zones z where ${placeOf(search, values)} and ${isInBucket(values)}
       order by z.name_key limit ${limit}
    ) z order by b.bucket, z.name_key limit ${limit}`;
  return findInWalked(db, search, { walked, order: "bucket, name_key", values, most });
}

async function findInWalked(
  db: Db,
  { like, limit }: ZoneNameSearch,
  {
    walked,
    order,
    values,
    most,
  }: {
    readonly walked: string;
    readonly order: string;
    readonly values: StatementValues;
    readonly most: number;
  },
): Promise<Found> {
  const [row] = await queryRows<{ ids: string[]; walked: number }>(
    db,
    `with walked as materialized (${walked})
     select (select count(*) from walked) as walked,
            array(select id from walked where name like ${values.add(like)}
                   order by ${order} limit ${values.add(limit)}) as ids`,
    values.all,
  );
  // An array of bigint arrives as texts.
  const ids = row!.ids.map(Number);
  return { ids, isAll: ids.length === limit || row!.walked < most };
}

/**
 * As {@link walkBucketsInPart}, to the end: for what the index of parts of names does not know. `|| ''` keeps PostgreSQL from
 * asking it all the same, bucket after bucket.
 */
async function walkBuckets(db: Db, search: ZoneNameSearch): Promise<number[]> {
  const values = new StatementValues();
  const limit = values.add(search.limit);
  const rows = await queryRows<{ id: number }>(
    db,
    `select z.id from ${bucketsOf(search, values)} b cross join lateral (
       select z.id, z.name_key from zones z
        where ${placeOf(search, values)} and ${isInBucket(values)} and z.name || '' like ${values.add(search.like)}
        order by z.name_key limit ${limit}
     ) z order by b.bucket, z.name_key limit ${limit}`,
    values.all,
  );
  return rows.map(({ id }) => id);
}

async function askIndex(db: Db, search: ZoneNameSearch): Promise<number[]> {
  const values = new StatementValues();
  const rows = await queryRows<{ id: number }>(
    db,
    `with found as materialized (
       select z.id, z.name_key from zones z where ${placeOf(search, values)} and z.name like ${values.add(search.like)})
     select id from found order by name_key limit ${values.add(search.limit)}`,
    values.all,
  );
  return rows.map(({ id }) => id);
}

/** The buckets of a reseller that may have the pattern, in order. */
function bucketsOf({ scope, like, after }: ZoneNameSearch, values: StatementValues): string {
  const parts = `${values.add(partsOfPattern(like))}::bit varying`;
  const reseller = scope.resellerId === undefined ? "" : `reseller_id = ${values.add(scope.resellerId)} and`;
  return `(select distinct bucket from zone_name_buckets
            where ${reseller} parts & ${parts} = ${parts} and bucket >= zone_name_bucket(${values.add(after ?? NOTHING)})
            order by bucket)`;
}

/**
 * Whether the zone `z` is in the bucket `b`: its sort key begins with it. A bucket of whole names, such as that of co.uk, has
 * just that one: what lies below it is in others.
 */
function isInBucket(values: StatementValues): string {
  const isWhole = "zone_name_bucket(b.bucket || 'x') <> b.bucket";
  return `z.name_key >= b.bucket and z.name_key <= case when ${isWhole} then b.bucket else b.bucket || ${values.add(BEYOND)} end`;
}

const NOTHING = Buffer.alloc(0);

function placeOf({ scope, after }: ZoneNameSearch, values: StatementValues): string {
  return `${isInScope(scope, values)} and z.kind = 'primary' and z.name_key > ${values.add(after ?? NOTHING)}`;
}

/** Buckets that are looked at in one step: zones that are made in them wait so long. */
const BUCKETS_A_STEP = 200;

/**
 * Forgets buckets in which no zone is left, in small transactions.
 * @param isStopping asked between two steps, with the milliseconds that the last one took; it may take its time
 */
export async function pruneZoneNameBuckets(
  db: Db,
  isStopping: (tookMs: number) => boolean | Promise<boolean>,
): Promise<void> {
  let last: BucketKey | undefined = { reseller_id: "", bucket: NOTHING };
  for (let tookMs = 0; last !== undefined && !(await isStopping(tookMs)); ) {
    const from = performance.now();
    const after: BucketKey = last;
    last = await inTransaction(db, (transaction) => pruneBucketsAfter(transaction, after));
    tookMs = performance.now() - from;
  }
}

interface BucketKey {
  readonly reseller_id: string;
  readonly bucket: Buffer;
}

/** @returns the last one that was looked at; undefined when none is left */
async function pruneBucketsAfter(transaction: Db, after: BucketKey): Promise<BucketKey | undefined> {
  const looked = await queryRows<BucketKey>(
    transaction,
    `select reseller_id, bucket from zone_name_buckets where (reseller_id, bucket) > ($1, $2)
      order by reseller_id, bucket limit $3 for update skip locked`,
    [after.reseller_id, after.bucket, BUCKETS_A_STEP],
  );
  // A statement of its own: it sees the zones of all who had locked the buckets before.
  await queryRows(
    transaction,
    `delete from zone_name_buckets b using unnest($1::text[], $2::bytea[]) as looked (reseller_id, bucket)
      where b.reseller_id = looked.reseller_id and b.bucket = looked.bucket
        and zone_name_bucket((select z.name_key from zones z
                               where z.reseller_id = b.reseller_id and z.kind = 'primary' and z.name_key >= b.bucket
                               order by z.name_key limit 1)) is distinct from b.bucket`,
    [looked.map(({ reseller_id }) => reseller_id), looked.map(({ bucket }) => bucket)],
  );
  return looked.at(-1);
}
