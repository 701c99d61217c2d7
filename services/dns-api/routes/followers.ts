import { z } from "zod";
import type { FollowerKind } from "../../core/dns/follow/follower.ts";
import { type FollowerEdits, followerUnknown, NO_FOLLOWER_EDITS } from "../../core/dns/follow/follower-edits.ts";
import { NO_RECORD_EDITS } from "../../core/dns/zone-edit.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { drainMember } from "../../operations/dns/pool-drain.ts";
import type { ZoneChanged } from "../../operations/dns/zone-changes.ts";
import { mayReadFollower } from "../../operations/dns/zone-followers.ts";
import { changeRecords } from "../../operations/dns/zone-records.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { type ListedFollower, listFollowers } from "../../store/dns/followers.ts";
import { listCheckingNodes, listPoolEvents, readJudgedProbes, type TimedVerdict } from "../../store/dns/pool-probes.ts";
import { findZone, type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { admitJson, type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import {
  aliasBatch,
  aliasFields,
  aliasReply,
  type FollowerReading,
  keepsCheck,
  poolBatch,
  poolFields,
  poolReply,
  readFollowerBatch,
  showAlias,
  showPool,
} from "../follower-json.ts";
import { domainParam, serialReply, showChange, tellSentence, toldSentence } from "../schemas.ts";
import { changeAndAnnounce, zoneTarget } from "../zone-target.ts";

const id = z
  .string()
  .regex(/^[1-9]\d{0,14}$/, "whole-number")
  .transform(Number);
const aliasParam = domainParam.extend({ alias_id: id });
const poolParam = domainParam.extend({ pool_id: id });
const deletedReply = serialReply.extend({ msg: z.literal("deleted") });
const batchReply = serialReply.extend({ created: z.array(z.int()) });
const memberFields = z.object({ member: z.string().max(64, "not-longer-than-characters") });
const poolChanges = poolBatch.shape.modify.unwrap().element.omit({ pool_id: true });

const EVENTS_SHOWN = 100;

const verdict = z.object({ node: z.string(), up: z.boolean(), since: z.string(), reason: toldSentence.nullable() });
const poolState = poolReply.extend({
  nodes: z.array(z.string()).meta({ description: "that check at present" }),
  states: z.array(
    z.object({
      member: z.string(),
      address: z.string(),
      up: z.boolean(),
      since: z.string(),
      checked_since: z.string(),
      flaps: z.int(),
      verdicts: z.array(verdict),
    }),
  ),
  history: z.array(
    z.object({ at: z.string(), member: z.string(), address: z.string(), up: z.boolean(), verdicts: z.array(verdict) }),
  ),
});

/** Names whose addresses follow another name, or the health of members. */
export const makeFollowerEndpoints: MakeEndpoints = (context) => [
  ...readingAliases(context),
  ...changingAliases(context),
  ...readingPools(context),
  ...changingPools(context),
  ...draining(context),
];

const readingAliases: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/alias/:domain",
    summary: "List the aliases of a zone, with the addresses they have",
    params: domainParam,
    reply: z.object({ domain: z.string(), serial: z.int(), alias: z.array(aliasReply) }),
    act: async ({ caller, params: { domain }, headers }) => {
      const found = await listed(context, caller, domain, { kind: "alias" });
      if (!found.ok) return found;
      const { zone, followers } = found.value;
      const alias = followers.map((follower) => showAlias(follower, { apex: zone.apex, headers }));
      return ok({ domain: zone.name, serial: zone.soa.serial, alias });
    },
  }),
];

const changingAliases: MakeEndpoints = (context) => [
  dnsEndpoint("records", {
    method: "POST",
    path: "/alias/:domain",
    summary: "Make a name have the addresses of another",
    params: domainParam,
    fields: aliasFields,
    reply: serialReply.extend({ alias_id: z.int() }),
    act: async ({ caller, params, fields, headers }) => {
      const changed = await edit(context, caller, params.domain, (reading) =>
        readFollowerBatch({ create: [fields], modify: [], delete: [] }, undefined, reading),
      );
      return changed.ok
        ? ok({ alias_id: changed.value.followerIds[0]!, ...showChange(changed.value, headers) })
        : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "POST",
    path: "/alias/:domain/batch",
    summary: "Create, modify and delete many aliases at once: all or nothing",
    params: domainParam,
    fields: aliasBatch,
    admit: admitJson(context),
    reply: batchReply,
    act: async ({ caller, params, fields, headers }) => {
      const changed = await edit(context, caller, params.domain, (reading) =>
        readFollowerBatch(fields, undefined, reading),
      );
      return changed.ok
        ? ok({ ...showChange(changed.value, headers), created: [...changed.value.followerIds] })
        : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "PUT",
    path: "/alias/:domain/:alias_id",
    summary: "Have an alias follow another name",
    params: aliasParam,
    fields: aliasFields.pick({ target: true }),
    reply: serialReply.extend({ alias_id: z.int() }),
    act: async ({ caller, params: { domain, alias_id }, fields, headers }) => {
      const changed = await edit(context, caller, domain, (reading) =>
        readFollowerBatch({ create: [], modify: [{ alias_id, ...fields }], delete: [] }, undefined, reading),
      );
      return changed.ok ? ok({ alias_id, ...showChange(changed.value, headers) }) : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "DELETE",
    path: "/alias/:domain/:alias_id",
    summary: "Delete an alias, and the addresses that its name has from it",
    params: aliasParam,
    reply: deletedReply,
    act: ({ caller, params: { domain, alias_id }, headers }) =>
      remove(context, caller, domain, { kind: "alias", id: alias_id, headers }),
  }),
];

const readingPools: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/pool/:domain",
    summary: "List the pools of a zone, with the addresses they have",
    params: domainParam,
    reply: z.object({ domain: z.string(), serial: z.int(), pool: z.array(poolReply) }),
    act: async ({ caller, params: { domain }, headers }) => {
      const found = await listed(context, caller, domain, { kind: "pool" });
      if (!found.ok) return found;
      const { zone, followers } = found.value;
      const pool = followers.map((follower) => showPool(follower, { apex: zone.apex, headers }));
      return ok({ domain: zone.name, serial: zone.soa.serial, pool });
    },
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/pool/:domain/:pool_id",
    summary: "Read a pool, with what each node says of its members, and what became of them lately",
    params: poolParam,
    reply: poolState,
    act: async ({ caller, params: { domain, pool_id }, headers }) => {
      const found = await listed(context, caller, domain, { kind: "pool", id: pool_id });
      if (!found.ok) return found;
      const { zone, followers } = found.value;
      const [pool] = followers;
      if (!pool) return refuse(followerUnknown("pool", pool_id));
      const shown = showPool(pool, { apex: zone.apex, headers });
      return ok({ ...shown, ...(await stateOf(context, pool.id, headers)) });
    },
  }),
];

const changingPools: MakeEndpoints = (context) => [
  dnsEndpoint("records", {
    method: "POST",
    path: "/pool/:domain",
    summary: "Make a name have the addresses of those members that are well",
    params: domainParam,
    ...{ fields: poolFields, keepsNull: keepsCheck },
    reply: serialReply.extend({ pool_id: z.int() }),
    act: async ({ caller, params, fields, headers }) => {
      const changed = await edit(context, caller, params.domain, (reading) =>
        readFollowerBatch(undefined, { create: [fields], modify: [], delete: [] }, reading),
      );
      return changed.ok
        ? ok({ pool_id: changed.value.followerIds[0]!, ...showChange(changed.value, headers) })
        : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "POST",
    path: "/pool/:domain/batch",
    summary: "Create, modify and delete many pools at once: all or nothing",
    params: domainParam,
    ...{ fields: poolBatch, keepsNull: keepsCheck },
    admit: admitJson(context),
    reply: batchReply,
    act: async ({ caller, params, fields, headers }) => {
      const changed = await edit(context, caller, params.domain, (reading) =>
        readFollowerBatch(undefined, fields, reading),
      );
      return changed.ok
        ? ok({ ...showChange(changed.value, headers), created: [...changed.value.followerIds] })
        : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "PUT",
    path: "/pool/:domain/:pool_id",
    summary: "Modify a pool; what is absent stays",
    params: poolParam,
    ...{ fields: poolChanges, keepsNull: keepsCheck },
    reply: serialReply.extend({ pool_id: z.int() }),
    act: async ({ caller, params: { domain, pool_id }, fields, headers }) => {
      const changed = await edit(context, caller, domain, (reading) =>
        readFollowerBatch(undefined, { create: [], modify: [{ pool_id, ...fields }], delete: [] }, reading),
      );
      return changed.ok ? ok({ pool_id, ...showChange(changed.value, headers) }) : changed;
    },
  }),
  dnsEndpoint("records", {
    method: "DELETE",
    path: "/pool/:domain/:pool_id",
    summary: "Delete a pool, and the addresses that its name has from it",
    params: poolParam,
    reply: deletedReply,
    act: ({ caller, params: { domain, pool_id }, headers }) =>
      remove(context, caller, domain, { kind: "pool", id: pool_id, headers }),
  }),
];

const draining: MakeEndpoints = (context) =>
  ([true, false] as const).map((drain) =>
    dnsEndpoint("records", {
      method: "POST",
      path: drain ? "/pool/:domain/:pool_id/drain" : "/pool/:domain/:pool_id/undrain",
      summary: drain ? "Give a member of a pool to nobody, however healthy" : "Give a drained member again",
      params: poolParam,
      fields: memberFields,
      reply: serialReply.extend({ pool_id: z.int() }),
      act: async ({ caller, params: { domain, pool_id }, fields: { member }, headers }) => {
        const changed = await changeAndAnnounce(context, caller, domain, (target, now) =>
          drainMember(context.db, target, { poolId: pool_id, member, drain }, now),
        );
        return changed.ok ? ok({ pool_id, ...showChange(changed.value, headers) }) : changed;
      },
    }),
  );

/** The followers of a zone that a caller may see. */
async function listed(
  { db }: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  { kind, id: only }: { readonly kind: FollowerKind; readonly id?: number },
): Promise<Result<{ readonly zone: Zone; readonly followers: readonly ListedFollower[] }, Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const zone = await findZone(db, target.value.scope, target.value.apex);
  if (!zone) return refuse(zoneDoesNotExist(domain));
  const followers = await listFollowers(db, zone.id, kind, only);
  return ok({ zone, followers: followers.filter((follower) => mayReadFollower(caller.token, follower)) });
}

async function stateOf({ db, clock }: DnsApiContext, poolId: number, headers: Headers) {
  const now = new Date(clock.nowMs());
  const probes = await readJudgedProbes(db, [poolId], now);
  const events = await listPoolEvents(db, poolId, EVENTS_SHOWN);
  return {
    nodes: await listCheckingNodes(db, now),
    states: probes.map(({ member, address, state, madeAt, verdicts }) => ({
      ...{ member, address, up: state.up, since: new Date(state.sinceMs).toISOString(), flaps: state.flaps },
      checked_since: madeAt.toISOString(),
      verdicts: verdicts.map((said) => showVerdict(said, headers)),
    })),
    history: events.map(({ at, verdicts, ...event }) => ({
      ...{ ...event, at: at.toISOString() },
      verdicts: verdicts.map((said) => showVerdict(said, headers)),
    })),
  };
}

function showVerdict(
  { node, up, since, reason }: Omit<TimedVerdict, "since"> & { readonly since: Date | string },
  headers: Headers,
): z.input<typeof verdict> {
  return { node, up, since: new Date(since).toISOString(), reason: reason && tellSentence(reason, headers) };
}

/** Reads the edits against the zone's name, then makes them. */
function edit(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  read: (reading: FollowerReading) => Result<FollowerEdits | undefined, Refusal>,
): Promise<Result<ZoneChanged, Refusal>> {
  return changeAndAnnounce(context, caller, domain, async (target, now) => {
    const followers = read({ apex: target.apex, allowed: context.followAllow });
    if (!followers.ok) return followers;
    return changeRecords(context.db, target, { ...NO_RECORD_EDITS, followers: followers.value }, now);
  });
}

async function remove(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  { kind, id: gone, headers }: { readonly kind: FollowerKind; readonly id: number; readonly headers: Headers },
) {
  const deletions = [{ kind, id: gone }];
  const changed = await edit(context, caller, domain, () => ok({ ...NO_FOLLOWER_EDITS, deletions }));
  return changed.ok ? ok({ msg: "deleted" as const, ...showChange(changed.value, headers) }) : changed;
}

type Headers = Parameters<typeof showChange>[1];
