import type { HealthCheck } from "../../core/dns/follow/health-check.ts";
import type { ProbeState, ProbeVerdict } from "../../core/dns/follow/probe-state.ts";
import { type DomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import type { Sentence } from "../../core/sentences.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";

/** An address of a pool's member that is looked at. */
export interface Probe {
  readonly id: number;
  readonly followerId: number;
  readonly member: string;
  readonly address: string;
  /** The pool's name, for checks that speak of it. */
  readonly name: string;
  readonly health: HealthCheck;
  readonly tenant: string;
}

/** What one node says of a probe, and since when. */
export interface TimedVerdict extends ProbeVerdict {
  readonly since: Date;
  readonly reason: Sentence | null;
}

export interface JudgedProbe extends Probe {
  readonly state: ProbeState;
  /** Since when it is looked at. */
  readonly madeAt: Date;
  /** Of the nodes that are at work. */
  readonly verdicts: readonly TimedVerdict[];
}

/** A node that was not seen for so long has no say. */
const NODE_SEEN_MS = 15_000;

interface ProbeRow {
  readonly id: number;
  readonly follower_id: number;
  readonly member: string;
  readonly address: string;
  readonly name: string;
  readonly health: HealthCheck;
  readonly tenant: string;
}

function probeOf({ id, follower_id, member, address, name, health, tenant }: ProbeRow): Probe {
  return { id, followerId: follower_id, member, address, name, health, tenant };
}

/** A probe, and whose: companies share what there is, and so do the resellers that they are of. */
export interface OwnedProbe extends Probe {
  readonly reseller: string;
  /** The pool's, in text form as `zones.name`. */
  readonly zone: string;
}

/** All probes of the deployment, as they are stored. */
export async function readAllProbes(db: Db): Promise<OwnedProbe[]> {
  const rows = await queryRows<ProbeRow & Pick<OwnedProbe, "reseller" | "zone">>(
    db,
    `select p.id, p.follower_id, p.member, p.address, p.name, p.health, p.tenant, coalesce(z.reseller_id, '') as reseller, z.name as zone
       from pool_probes p
       join followers f on f.id = p.follower_id
       join zones z on z.id = f.zone_id`,
    [],
  );
  return rows.map((row) => ({ ...probeOf(row), reseller: row.reseller, zone: row.zone }));
}

/** The probes of some pools, with their states and what the nodes say. */
export async function readJudgedProbes(db: Db, followerIds: readonly number[], now: Date): Promise<JudgedProbe[]> {
  const rows = await queryRows<
    ProbeRow & {
      readonly up: boolean;
      readonly since: Date;
      readonly flaps: number;
      readonly made_at: Date;
      readonly well_since: Date | null;
      readonly verdicts: readonly { node: string; up: boolean; since: string; reason: Sentence | null }[];
    }
  >(
    db,
    `with at_work as (select distinct node from checking_workers where seen_at > $2)
     select p.id, p.follower_id, p.member, p.address, p.name, p.health, p.tenant, p.up, p.since, p.flaps, p.made_at, p.well_since,
            coalesce((select jsonb_agg(jsonb_build_object('node', v.node, 'up', v.up, 'since', v.since, 'reason', v.reason)
                                       order by v.node)
                        from probe_verdicts v where v.probe_id = p.id and v.node in (select node from at_work)), '[]') as verdicts
       from pool_probes p where p.follower_id = any($1::bigint[]) order by p.id`,
    [followerIds, new Date(now.getTime() - NODE_SEEN_MS)],
  );
  return rows.map((row) => ({
    ...probeOf(row),
    madeAt: row.made_at,
    state: {
      up: row.up,
      sinceMs: row.since.getTime(),
      flaps: row.flaps,
      wellSinceMs: row.well_since?.getTime(),
    },
    verdicts: row.verdicts.map((verdict) => ({ ...verdict, since: new Date(verdict.since) })),
  }));
}

/** A member's address that is down. */
export interface DownMember {
  /** In text form as `zones.name`. */
  readonly zone: string;
  /** The pool's owner. */
  readonly owner: DomainName;
  readonly member: string;
  readonly address: string;
  readonly since: Date;
  /** What the nodes say that are at work and find it down. */
  readonly reasons: readonly { readonly node: string; readonly reason: Sentence | null }[];
}

/** Members' addresses that are down, of all zones, those that went last first. */
export async function listDownMembers(db: Db, limit: number, now: Date): Promise<DownMember[]> {
  const rows = await queryRows<Omit<DownMember, "owner"> & { readonly owner: Buffer }>(
    db,
    `select z.name as zone, f.owner, p.member, p.address, p.since,
            coalesce((select jsonb_agg(jsonb_build_object('node', v.node, 'reason', v.reason) order by v.node)
                        from probe_verdicts v where v.probe_id = p.id and not v.up
                         and v.node in (select node from checking_workers where seen_at > $2)), '[]') as reasons
       from pool_probes p
       join followers f on f.id = p.follower_id
       join zones z on z.id = f.zone_id
      where not p.up order by p.since desc, p.id limit $1`,
    [limit, new Date(now.getTime() - NODE_SEEN_MS)],
  );
  return rows.map((row) => ({ ...row, owner: nameFromStoredWire(row.owner) }));
}

/** Puts a pool's probes in the place of those it had, if it is still there; what stays keeps its state. */
export async function replaceProbes(
  db: Db,
  followerId: number,
  probes: readonly Omit<Probe, "id" | "followerId">[],
): Promise<void> {
  await queryRows(
    db,
    `with pool as (
       select id from followers where id = $1 for key share
     ), wanted as (
       select pool.id, w.*, (w.health->>'port')::integer as port
         from pool, jsonb_to_recordset($2::jsonb) as w (member text, address text, name text, health jsonb, tenant text)
     ), gone as (
       delete from pool_probes p
        where p.follower_id in (select id from pool)
          and not exists (
            select from wanted w where w.member = p.member and w.address = p.address and w.port = p.port)
     )
     insert into pool_probes (follower_id, member, address, name, health, tenant)
     select id, member, address, name, health, tenant from wanted
         on conflict (follower_id, member, address, port) do update
        set health = excluded.health, name = excluded.name, tenant = excluded.tenant`,
    [followerId, JSON.stringify(probes)],
  );
}

/** How many probes the pools of a tenant have. */
export async function countProbes(db: Db, tenant: string): Promise<number> {
  const [row] = await queryRows<{ count: number }>(
    db,
    "select count(*)::integer as count from pool_probes where tenant = $1",
    [tenant],
  );
  return row!.count;
}

/** A probe whose state is another than it was. */
export interface ChangedProbe {
  readonly probe: JudgedProbe;
  readonly state: ProbeState;
}

/** Writes new states of what is still looked at, and what came of it: who saw what where a member's address went down or came up. */
export async function writeProbeStates(db: Db, changed: readonly ChangedProbe[], now: Date): Promise<void> {
  if (changed.length === 0) return;
  const rows = changed.map(({ probe, state }) => ({
    id: probe.id,
    up: state.up,
    since: new Date(state.sinceMs).toISOString(),
    flaps: state.flaps,
    well_since: state.wellSinceMs === undefined ? null : new Date(state.wellSinceMs).toISOString(),
    turned: state.up !== probe.state.up,
    verdicts: probe.verdicts,
  }));
  await queryRows(
    db,
    `with changed as (
       select c.* from jsonb_to_recordset($1::jsonb)
         as c (id bigint, up boolean, since timestamptz, flaps integer, well_since timestamptz, turned boolean, verdicts jsonb)
         join pool_probes p on p.id = c.id join followers f on f.id = p.follower_id
        order by f.id for key share of f
     ), written as (
       update pool_probes p set up = c.up, since = c.since, flaps = c.flaps, well_since = c.well_since
         from changed c where p.id = c.id
       returning p.follower_id, p.member, p.address, c.up, c.turned, c.verdicts
     )
     insert into pool_events (follower_id, at, member, address, up, verdicts)
     select follower_id, $2, member, address, up, verdicts from written where turned`,
    [JSON.stringify(rows), now.toISOString()],
  );
}

/** What became of a pool's members, newest first. */
export interface PoolEvent {
  readonly at: Date;
  readonly member: string;
  readonly address: string;
  readonly up: boolean;
  readonly verdicts: readonly { node: string; up: boolean; since: string; reason: Sentence | null }[];
}

export function listPoolEvents(db: Db, followerId: number, limit: number): Promise<PoolEvent[]> {
  return queryRows(
    db,
    `select at, member, address, up, verdicts from pool_events where follower_id = $1 order by id desc limit $2`,
    [followerId, limit],
  );
}

/** Events that are older are forgotten; that a member changes a bounded number of times bounds the others. */
export async function prunePoolEvents(db: Db, before: Date): Promise<void> {
  await queryRows(db, "delete from pool_events where at < $1", [before]);
}

/** What a node says of a probe from now on. */
export interface NewVerdict {
  readonly probeId: number;
  readonly up: boolean;
  readonly since: Date;
  readonly reason: Sentence | null;
}

/** Writes what a node has come to think of what is still looked at, and has the pools judged anew. */
export async function writeVerdicts(db: Db, node: string, verdicts: readonly NewVerdict[], now: Date): Promise<void> {
  const rows = verdicts.map(({ probeId, up, since, reason }) => ({ id: probeId, up, since, reason }));
  await queryRows(
    db,
    `with said as (
       select s.* from jsonb_to_recordset($2::jsonb) as s (id bigint, up boolean, since timestamptz, reason jsonb)
         join pool_probes p on p.id = s.id join followers f on f.id = p.follower_id
        order by f.id for key share of f
     ), looked_at as (
       select p.id, s.up, s.since, s.reason from said s join pool_probes p on p.id = s.id for key share of p
     ), written as (
       insert into probe_verdicts (probe_id, node, up, since, reason)
       select id, $1, up, since, reason from looked_at
           on conflict (probe_id, node) do update set up = excluded.up, since = excluded.since, reason = excluded.reason
       returning probe_id
     )
     update followers f set due_at = least(f.due_at, $3), stirred = f.stirred + 1
      where f.id in (select p.follower_id from pool_probes p join written w on w.probe_id = p.id)`,
    [node, JSON.stringify(rows), now.toISOString()],
  );
}

/** What a node said last, by the ids of probes. */
export async function readVerdicts(db: Db, node: string): Promise<Map<number, boolean>> {
  const rows = await queryRows<{ probe_id: number; up: boolean }>(
    db,
    "select probe_id, up from probe_verdicts where node = $1",
    [node],
  );
  return new Map(rows.map(({ probe_id, up }) => [probe_id, up]));
}

/** Says that a worker is there. @returns the ids of all workers of its node that are, in order */
export async function noteWorker(
  db: Db,
  worker: { readonly id: string; readonly node: string; readonly leaseMs: number },
  now: Date,
): Promise<string[]> {
  const { id, node, leaseMs } = worker;
  await queryRows(
    db,
    `insert into checking_workers (id, node, seen_at) values ($1, $2, $3)
         on conflict (id) do update set seen_at = excluded.seen_at`,
    [id, node, now],
  );
  const rows = await queryRows<{ id: string }>(
    db,
    "select id from checking_workers where node = $1 and seen_at > $2 order by id",
    [node, new Date(now.getTime() - leaseMs)],
  );
  return rows.map((row) => row.id);
}

/** Takes a worker's name off, and those that were not seen for a day. */
export async function removeWorker(db: Db, id: string): Promise<void> {
  await queryRows(db, "delete from checking_workers where id = $1 or seen_at < now() - interval '1 day'", [id]);
}

/** The nodes that check at present. */
export async function listCheckingNodes(db: Db, now: Date): Promise<string[]> {
  const rows = await queryRows<{ node: string }>(
    db,
    "select distinct node from checking_workers where seen_at > $1 order by node",
    [new Date(now.getTime() - NODE_SEEN_MS)],
  );
  return rows.map(({ node }) => node);
}
