import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { rrsetKey } from "../../core/dns/record.ts";
import { type Db, queryRows, StatementValues, type Transaction } from "../../platform/postgres/db.ts";
import { inTransaction } from "../transactions.ts";
import { searchZoneNames } from "./zone-search.ts";
import {
  isInScope,
  type ListPosition,
  ZONE_COLUMNS,
  type Zone,
  type ZoneRow,
  type ZoneScope,
  zoneName,
  zoneOf,
} from "./zones.ts";

/** What PowerDNS's API keeps with a zone beside its records. */
export interface PowerdnsSettings {
  readonly kind: string;
  readonly soaEditApi: string;
  /** Values by kinds that begin with `X-`. */
  readonly metadata: Readonly<Record<string, readonly string[]>>;
}

export interface PowerdnsZone {
  readonly zone: Zone;
  readonly settings: PowerdnsSettings;
}

/** A remark on an RRset. */
export interface RrsetComment {
  readonly owner: DomainName;
  readonly type: number;
  readonly account: string;
  readonly content: string;
  readonly modifiedAt: Date;
}

interface PowerdnsRow extends ZoneRow {
  readonly pdns_kind: string | null;
  readonly soa_edit_api: string | null;
  readonly metadata: PowerdnsSettings["metadata"] | null;
}

const COLUMNS = `${ZONE_COLUMNS}, p.kind as pdns_kind, p.soa_edit_api, p.metadata
  from zones z join companies c on c.id = z.company_id left join powerdns_zones p on p.zone_id = z.id`;

export async function findPowerdnsZone(db: Db, scope: ZoneScope, apex: DomainName): Promise<PowerdnsZone | undefined> {
  const values = new StatementValues();
  const where = `${isInScope(scope, values)} and z.name = ${values.add(zoneName(apex))}`;
  const [row] = await queryRows<PowerdnsRow>(db, `select ${COLUMNS} where ${where}`, values.all);
  return row && powerdnsZone(row);
}

/** Which zones of a scope are listed. */
export interface PowerdnsSelection {
  /** Where the list goes on; undefined: from the beginning. */
  readonly after: ListPosition;
  readonly limit: number;
  /** A pattern of LIKE that their names are like; all where it is left out. */
  readonly like?: string | undefined;
}

/** Zones of a scope in canonical order, and where the list goes on: undefined after the last. */
export async function listPowerdnsZones(
  db: Db,
  scope: ZoneScope,
  { after, limit, like }: PowerdnsSelection,
): Promise<{ readonly zones: PowerdnsZone[]; readonly next: ListPosition }> {
  const values = new StatementValues();
  const place =
    like === undefined
      ? `${isInScope(scope, values)} and z.name_key > ${values.add(after ?? Buffer.alloc(0))}`
      : `z.id = any(${values.add(await searchZoneNames(db, { scope, like, after, limit }))}::bigint[])`;
  const rows = await queryRows<PowerdnsRow & { readonly name_key: Buffer }>(
    db,
    `select z.name_key, ${COLUMNS} where ${place} order by z.name_key limit ${values.add(limit)}`,
    values.all,
  );
  return { zones: rows.map(powerdnsZone), next: rows.length < limit ? undefined : rows.at(-1)?.name_key };
}

function powerdnsZone(row: PowerdnsRow): PowerdnsZone {
  const { pdns_kind: kind, soa_edit_api: soaEditApi, metadata } = row;
  return {
    zone: zoneOf(row),
    settings: { kind: kind ?? "Native", soaEditApi: soaEditApi ?? "", metadata: metadata ?? {} },
  };
}

/** Keeps what is given with a zone; the rest stays. */
export async function setPowerdnsSettings(
  db: Db,
  zoneId: number,
  { kind, soaEditApi, metadata }: Partial<PowerdnsSettings>,
): Promise<void> {
  const json = metadata === undefined ? null : JSON.stringify(metadata);
  await queryRows(
    db,
    `insert into powerdns_zones as p (zone_id, kind, soa_edit_api, metadata)
     values ($1, coalesce($2, 'Native'), coalesce($3, ''), coalesce($4::jsonb, '{}'))
     on conflict (zone_id) do update set kind = coalesce($5, p.kind), soa_edit_api = coalesce($6, p.soa_edit_api),
       metadata = coalesce($7::jsonb, p.metadata)`,
    [zoneId, kind ?? null, soaEditApi ?? null, json, kind ?? null, soaEditApi ?? null, json],
  );
}

/** Sets how the serials of a zone go on. */
export async function setSerialType(db: Db, zoneId: number, serialType: "numeric" | "calendar"): Promise<void> {
  await queryRows(db, "update zones set serial_type = $1 where id = $2 and serial_type <> $3", [
    serialType,
    zoneId,
    serialType,
  ]);
}

/** The remarks of a zone, in the order in which they were made. */
export async function readComments(db: Db, zoneId: number): Promise<RrsetComment[]> {
  const rows = await queryRows<{
    owner: Buffer;
    type: number;
    account: string;
    content: string;
    modified_at: Date;
  }>(db, "select owner, type, account, content, modified_at from rrset_comments where zone_id = $1 order by id", [
    zoneId,
  ]);
  return rows.map(({ owner, type, account, content, modified_at: modifiedAt }) => ({
    ...{ owner: nameFromStoredWire(owner), type, account, content, modifiedAt },
  }));
}

/** Remarks that take the place of those that an RRset has. */
export type CommentChange = Pick<RrsetComment, "owner" | "type"> & {
  readonly comments: readonly Pick<RrsetComment, "account" | "content" | "modifiedAt">[];
};

/** What a remark takes beside its words. */
const COMMENT_HEAD_OCTETS = 100;

/** Octets that remarks take. */
export function commentOctets(changes: readonly CommentChange[]): number {
  const remarks = changes.flatMap(({ comments }) => comments);
  return remarks.reduce(
    (sum, { account, content }) => sum + COMMENT_HEAD_OCTETS + Buffer.byteLength(account) + Buffer.byteLength(content),
    0,
  );
}

/** Octets that the remarks of a zone take, but for those that changes replace. */
export async function measureComments(db: Db, zoneId: number, changes: readonly CommentChange[]): Promise<number> {
  const [row] = await queryRows<{ octets: number }>(
    db,
    `select coalesce(sum($4::int + octet_length(account) + octet_length(content)), 0)::bigint as octets
       from rrset_comments kept
      where zone_id = $1 and not exists (
        select from unnest($2::bytea[], $3::integer[]) as replaced (owner, type)
         where replaced.owner = kept.owner and replaced.type = kept.type)`,
    [
      zoneId,
      changes.map(({ owner }) => Buffer.from(owner.key, "latin1")),
      changes.map(({ type }) => type),
      COMMENT_HEAD_OCTETS,
    ],
  );
  return row!.octets;
}

/**
 * Puts remarks in place, those of all RRsets or none; of an RRset that is named several times the last ones. Those of a zone
 * that is gone are dropped.
 */
export async function replaceComments(db: Db, zoneId: number, changes: readonly CommentChange[]): Promise<void> {
  if (changes.length === 0) return;
  const last = [...new Map(changes.map((change) => [rrsetKey(change.owner, change.type), change])).values()];
  await inTransaction(db, async (transaction) => {
    if (!(await lockZone(transaction, zoneId))) return;
    await deleteComments(transaction, zoneId, last);
    await insertComments(transaction, zoneId, last);
  });
}

async function deleteComments(
  transaction: Transaction,
  zoneId: number,
  rrsets: readonly Pick<CommentChange, "owner" | "type">[],
): Promise<void> {
  await queryRows(
    transaction,
    `delete from rrset_comments c using unnest($1::bytea[], $2::integer[]) as replaced (owner, type)
      where c.zone_id = $3 and c.owner = replaced.owner and c.type = replaced.type`,
    [rrsets.map(({ owner }) => Buffer.from(owner.key, "latin1")), rrsets.map(({ type }) => type), zoneId],
  );
}

async function insertComments(
  transaction: Transaction,
  zoneId: number,
  changes: readonly CommentChange[],
): Promise<void> {
  const remarks = changes.flatMap(({ owner, type, comments }) =>
    comments.map((comment) => ({ ...comment, type, owner: Buffer.from(owner.key, "latin1") })),
  );
  if (remarks.length === 0) return;
  await queryRows(
    transaction,
    `insert into rrset_comments (zone_id, owner, type, account, content, modified_at)
     select $1::bigint, owner, type, account, content, modified_at::timestamptz
       from unnest($2::bytea[], $3::integer[], $4::text[], $5::text[], $6::text[])
            with ordinality as given (owner, type, account, content, modified_at, place)
      order by place`,
    [
      ...[zoneId, remarks.map(({ owner }) => owner), remarks.map(({ type }) => type)],
      ...[remarks.map(({ account }) => account), remarks.map(({ content }) => content)],
      remarks.map(({ modifiedAt }) => modifiedAt.toISOString()),
    ],
  );
}

/** Changes the metadata of a zone by what it is then. */
export async function changeMetadata(
  db: Db,
  zoneId: number,
  change: (before: PowerdnsSettings["metadata"]) => PowerdnsSettings["metadata"],
): Promise<void> {
  await inTransaction(db, async (transaction) => {
    if (!(await lockZone(transaction, zoneId))) return;
    const [row] = await queryRows<Pick<PowerdnsSettings, "metadata">>(
      transaction,
      "select metadata from powerdns_zones where zone_id = $1",
      [zoneId],
    );
    await setPowerdnsSettings(transaction, zoneId, { metadata: change(row?.metadata ?? {}) });
  });
}

/** What is kept with a zone changes one after the other. @returns whether the zone is there */
async function lockZone(transaction: Transaction, zoneId: number): Promise<boolean> {
  const rows = await queryRows(transaction, "select 1 from zones where id = $1 for no key update", [zoneId]);
  return rows.length > 0;
}
