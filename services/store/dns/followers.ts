import type { FollowedAddresses } from "../../core/dns/follow/evaluate.ts";
import type { Follower, FollowerKind, StoredFollower } from "../../core/dns/follow/follower.ts";
import { formatIpAddress } from "../../core/dns/ip-address.ts";
import { type DomainName, nameFromStoredWire, nameSortKey } from "../../core/dns/name.ts";
import type { Sentence } from "../../core/sentences.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

interface FollowerRow {
  readonly id: number;
  readonly owner: Buffer;
  readonly kind: FollowerKind;
  readonly definition: Follower["definition"];
}

function followerOf({ id, owner, kind, definition }: FollowerRow): StoredFollower {
  return { id, owner: nameFromStoredWire(owner), kind, definition } as StoredFollower;
}

/** Followers of a zone by their ids and at some names. */
export async function readFollowers(
  db: Db,
  zoneId: number,
  { ids = [], names = [] }: { readonly ids?: readonly number[]; readonly names?: readonly DomainName[] },
): Promise<StoredFollower[]> {
  if (ids.length === 0 && names.length === 0) return [];
  const rows = await queryRows<FollowerRow>(
    db,
    `select id, owner, kind, definition from followers
      where zone_id = $1 and (id = any($2::bigint[]) or owner_key = any($3::bytea[]))`,
    [zoneId, ids, names.map(({ wire }) => nameSortKey(wire))],
  );
  return rows.map(followerOf);
}

/** All followers of a zone, in canonical order of their names. */
export async function readAllFollowers(db: Db, zoneId: number): Promise<StoredFollower[]> {
  const rows = await queryRows<FollowerRow>(
    db,
    "select id, owner, kind, definition from followers where zone_id = $1 order by owner_key",
    [zoneId],
  );
  return rows.map(followerOf);
}

export async function countFollowers(db: Db, zoneId: number): Promise<number> {
  const [row] = await queryRows<{ count: number }>(
    db,
    "select count(*)::integer as count from followers where zone_id = $1",
    [zoneId],
  );
  return row!.count;
}

/** A follower as lists show it. */
export type ListedFollower = StoredFollower & {
  /** Why it has not what it should have. */
  readonly problem: Sentence | null;
  /** When what it follows was told last; null for pools of addresses, and before the first answer. */
  readonly answeredAt: Date | null;
  /** What its name has at present. */
  readonly addresses: FollowedAddresses;
};

interface ListedRow extends FollowerRow {
  readonly problem: Sentence | null;
  readonly answered_at: Date | null;
  readonly derived: readonly { readonly type: number; readonly ttl: number; readonly rdata: string }[];
}

/** Followers of a kind with what they come to; `id` for a single one. */
export async function listFollowers(
  db: Db,
  zoneId: number,
  kind: FollowerKind,
  id?: number,
): Promise<ListedFollower[]> {
  const rows = await queryRows<ListedRow>(
    db,
    `select f.id, f.owner, f.kind, f.definition, coalesce(f.problem, t.problem) as problem, t.answered_at,
            coalesce((select jsonb_agg(jsonb_build_object('type', r.type, 'ttl', r.ttl, 'rdata', encode(r.rdata, 'hex')) order by r.id)
                        from records r
                       where r.zone_id = f.zone_id and r.owner_key = f.owner_key and r.type in (1, 28)), '[]') as derived
       from followers f left join lateral (
         select min(t.answered_at) as answered_at, (array_agg(t.problem) filter (where t.problem is not null))[1] as problem
           from follow_targets t where t.name_key = any(f.wire_keys)
       ) t on true
      where f.zone_id = $1 and f.kind = $2 and f.id = coalesce($3, f.id) order by f.owner_key`,
    [zoneId, kind, id ?? null],
  );
  return rows.map((row) => ({
    ...followerOf(row),
    problem: row.problem,
    answeredAt: row.answered_at,
    addresses: addressesIn(row.derived),
  }));
}

function addressesIn(derived: ListedRow["derived"]): FollowedAddresses {
  const ofType = (wanted: number) =>
    derived.filter(({ type }) => type === wanted).map(({ rdata }) => formatIpAddress(Buffer.from(rdata, "hex")));
  return { ipv4: ofType(1), ipv6: ofType(28), ttl: derived[0]?.ttl ?? 0 };
}

/** A follower that is due, as somebody has taken it on. */
export type DueFollower = StoredFollower & {
  readonly zoneId: number;
  readonly apex: DomainName;
  /** Whose the zone is. */
  readonly companyId: number | null;
  readonly stirred: number;
};

/** A zone that has followers which are due. */
export interface ZoneDue {
  readonly zoneId: number;
  readonly company: number | null;
  readonly reseller: string | null;
  /** Since when; ms since the epoch. */
  readonly sinceMs: number;
}

export async function listDueZones(db: Db, now: Date): Promise<ZoneDue[]> {
  const rows = await queryRows<{ zone_id: number; company_id: number | null; reseller_id: string | null; since: Date }>(
    db,
    `select f.zone_id, z.company_id, z.reseller_id, f.since
       from (select zone_id, min(due_at) as since from followers where due_at <= $1 group by zone_id) f
       join zones z on z.id = f.zone_id`,
    [now],
  );
  return rows.map(({ zone_id: zoneId, company_id: company, reseller_id: reseller, since }) => ({
    ...{ zoneId, company, reseller },
    sinceMs: since.getTime(),
  }));
}

/**
 * Takes on followers of a zone that are due, the longest overdue first, and keeps them from others for a while.
 * @param leaseMs after which somebody else takes them on, where they were not settled
 */
export async function claimDueFollowers(
  db: Db,
  zoneId: number,
  now: Date,
  { limit, leaseMs }: { readonly limit: number; readonly leaseMs: number },
): Promise<DueFollower[]> {
  const rows = await queryRows<
    FollowerRow & {
      readonly zone_id: number;
      readonly apex: Buffer;
      readonly company_id: number | null;
      readonly stirred: number;
    }
  >(
    db,
    `with due as (
       select id from followers where zone_id = $4 and due_at <= $1 order by due_at limit $2 for update skip locked
     )
     update followers f set due_at = $3
       from due, zones z
      where f.id = due.id and z.id = f.zone_id
     returning f.id, f.owner, f.kind, f.definition, f.stirred, f.zone_id, z.apex, z.company_id`,
    [now, limit, new Date(now.getTime() + leaseMs), zoneId],
  );
  return rows.map((row) => ({
    ...followerOf(row),
    zoneId: row.zone_id,
    apex: nameFromStoredWire(row.apex),
    companyId: row.company_id,
    stirred: row.stirred,
  }));
}

/** When the next follower is due; undefined when there is none. */
export async function nextFollowerDue(db: Db): Promise<Date | undefined> {
  const [row] = await queryRows<{ due: Date | null }>(db, "select min(due_at) as due from followers", []);
  return row?.due ?? undefined;
}

/** What became of a follower that was taken on. */
export interface SettledFollower {
  readonly id: number;
  /** As it was taken on: what happened since has it done again at once. */
  readonly stirred: number;
  readonly dueAt: Date;
  readonly problem: Sentence | null;
}

export async function settleFollowers(db: Db, settled: readonly SettledFollower[]): Promise<void> {
  await queryRows(
    db,
    `update followers f
        set due_at = case when f.stirred = s.stirred then s.due_at else 'epoch' end, problem = s.problem
       from unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::jsonb[]) s (id, stirred, due_at, problem)
      where f.id = s.id`,
    [
      settled.map(({ id }) => id),
      settled.map(({ stirred }) => stirred),
      settled.map(({ dueAt }) => dueAt),
      settled.map(({ problem }) => (problem === null ? null : JSON.stringify(problem))),
    ],
  );
}

/** Has the followers of some targets derived anew. */
export async function stirFollowersOfTargets(db: Db, targetKeys: readonly Uint8Array[], now: Date): Promise<void> {
  await queryRows(
    db,
    "update followers set due_at = least(due_at, $2), stirred = stirred + 1 where wire_keys && $1::bytea[]",
    [targetKeys, now],
  );
}

/**
 * Has the followers derived anew whose way goes through changed zones of their own company.
 * @param zoneIds undefined for those whose way goes through any
 * @returns whether there may be followers that are due: those, or some of the zones' own
 */
export async function stirFollowersInZones(
  db: Db,
  zoneIds: readonly number[] | undefined,
  now: Date,
): Promise<boolean> {
  if (zoneIds === undefined) {
    await queryRows(
      db,
      `update followers set due_at = least(due_at, $1), stirred = stirred + 1
        where id in (select follower_id from follower_names)`,
      [now],
    );
    return true;
  }
  const [row] = await queryRows<{ due: boolean }>(
    db,
    // From the zones to the names that lie in them, whatever the planner believes: a company may have many zones.
    `with stirred_now as (
       update followers f set due_at = least(f.due_at, $2), stirred = f.stirred + 1
        where f.id = any(array(
          select n.follower_id
            from zones changed cross join lateral (
              select follower_id from follower_names
               where name_key >= changed.name_key
                 and name_key < substr(changed.name_key, 1, octet_length(changed.name_key) - 1) || '\\x01'::bytea offset 0
            ) n cross join lateral (
              select own.company_id from followers t join zones own on own.id = t.zone_id where t.id = n.follower_id offset 0
            ) owner
           where changed.id = any($1::bigint[]) and owner.company_id = changed.company_id))
       returning f.id
     )
     select exists (select from stirred_now)
            or exists (select from followers where zone_id = any($1::bigint[]) and due_at <= $2) as due`,
    [zoneIds, now],
    { name: "stir-followers" },
  );
  return row!.due;
}

/** Notes by what names some followers come to their addresses, those that are still there. */
export async function writeWays(
  db: Db,
  ways: readonly {
    readonly id: number;
    readonly wire: readonly DomainName[];
    readonly hosted: readonly DomainName[];
  }[],
): Promise<void> {
  const keysOf = (names: readonly DomainName[]) =>
    names.map(({ wire }) => Buffer.from(nameSortKey(wire)).toString("hex"));
  const rows = ways.map(({ id, wire, hosted }) => ({ id, wire: keysOf(wire), hosted: keysOf(hosted) }));
  await queryRows(
    db,
    // Locked, none can be deleted meanwhile; who is being deleted is waited for, and left out.
    `with way as (
       select w.id, array(select decode(key, 'hex') from jsonb_array_elements_text(w.wire) key order by key) as wire,
              array(select decode(key, 'hex') from jsonb_array_elements_text(w.hosted) key) as hosted
         from jsonb_to_recordset($1::jsonb) as w (id bigint, wire jsonb, hosted jsonb) join followers f on f.id = w.id
        order by w.id for key share of f
     ), written as (
       update followers f set wire_keys = way.wire from way where f.id = way.id and f.wire_keys <> way.wire
     ), gone as (
       delete from follower_names n using way where n.follower_id = way.id and n.name_key <> all (way.hosted)
     )
     insert into follower_names (name_key, follower_id)
     select distinct name.key, way.id from way, unnest(way.hosted) as name (key)
         on conflict do nothing`,
    [JSON.stringify(rows)],
  );
}

/** What followers at some names follow, by sort keys in hexadecimal digits. */
export async function readSteps(db: Db, ownerKeys: readonly string[]): Promise<Map<string, readonly string[]>> {
  const rows = await queryRows<{ owner: string; targets: string[] }>(
    db,
    `select encode(owner_key, 'hex') as owner, array(select encode(key, 'hex') from unnest(target_keys) key) as targets
       from followers where owner_key = any(array(select decode(key, 'hex') from unnest($1::text[]) key))`,
    [ownerKeys],
  );
  return new Map(rows.map(({ owner, targets }) => [owner, targets]));
}

/**
 * Whether some names lie in zones hosted here other than one. Where that lies below another, names of its own count as well.
 * @param nameKeys sort keys in hexadecimal digits
 */
export async function haveOtherZones(db: Db, zoneId: number, nameKeys: readonly string[]): Promise<boolean> {
  const apexKeys = new Set(nameKeys.flatMap(keysAbove));
  const [row] = await queryRows<{ have: boolean }>(
    db,
    `select exists (
       select from zones where id <> $1 and name_key = any(array(select decode(key, 'hex') from unnest($2::text[]) key))
     ) as have`,
    [zoneId, [...apexKeys]],
  );
  return row!.have;
}

/** A name's key, and those of the names above it: in a key each label ends with a zero octet. */
function keysAbove(nameKey: string): string[] {
  const octets = nameKey.match(/../g) ?? [];
  return octets.flatMap((octet, index) => (octet === "00" ? [nameKey.slice(0, 2 * index + 2)] : []));
}

/** Has changes that could close a circle of followers through several zones wait for each other until they end. */
export async function lockCircles(transaction: Db): Promise<void> {
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('follower circles', 0))");
}

/** How many different names the followers of the company of a zone follow, beside some that are to be followed as well. */
export async function countTargets(db: Db, zoneId: number, names: readonly DomainName[]): Promise<number> {
  const [row] = await queryRows<{ count: number }>(
    db,
    `select count(*)::integer as count from (
       select unnest(f.target_keys) from followers f join zones z on z.id = f.zone_id
        where z.company_id = (select company_id from zones where id = $1)
       union select unnest($2::bytea[])
     ) targets`,
    [zoneId, names.map(({ wire }) => nameSortKey(wire))],
  );
  return row!.count;
}
