import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import type { PoolDefinition } from "../../core/dns/follow/follower.ts";
import { nameOf } from "../../core/dns/follow/follower-edits.ts";
import { type DomainName, parseDomainName } from "../../core/dns/name.ts";
import { drainMember } from "../../operations/dns/pool-drain.ts";
import { systemClock } from "../../platform/clock.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type ListedFollower, listFollowers } from "../../store/dns/followers.ts";
import {
  type DownMember,
  listCheckingNodes,
  listDownMembers,
  listPoolEvents,
  readJudgedProbes,
} from "../../store/dns/pool-probes.ts";
import { notifyZones } from "../../store/dns/zone-notices.ts";
import { findZone, type Zone } from "../../store/dns/zones.ts";
import { noteWarnings, orRefuse } from "../input.ts";
import { COMMAND_ACTOR, type CommandRuntime } from "../runtime.ts";
import { readZoneName } from "./zone-names.ts";

const EVENTS_SHOWN = 20;
const DOWN_SHOWN = 1_000;

/** `palomar pool`: pools of a zone, what their members are like, and members that are to be spared. */
export function registerPoolCommand(program: Command, runtime: CommandRuntime): void {
  const pool = program
    .command("pool")
    .description("pools: names that have the addresses of those members that are well");
  registerList(pool, runtime);
  registerShow(pool, runtime);
  registerDown(pool, runtime);
  registerDrain(pool, runtime, true);
  registerDrain(pool, runtime, false);
}

function registerList(pool: Command, runtime: CommandRuntime): void {
  pool
    .command("list")
    .argument("<fqdn>", "the zone")
    .description("list the pools of a zone, with the addresses they have")
    .action(async (fqdn: string) => {
      const pools = await runtime.withDatabase(async ({ db }) => {
        const zone = await findOwnZone(runtime, db, fqdn);
        return listFollowers(db, zone.id, "pool");
      });
      runtime.print(pools.map(poolJson), pools.map(describe).join("\n"));
    });
}

function registerShow(pool: Command, runtime: CommandRuntime): void {
  pool
    .command("show")
    .argument("<fqdn>", "the zone")
    .argument("<name>", "the pool's name; @ for the zone's own")
    .description("show a pool: its members, what each node says of them, and what became of them lately")
    .action(async (fqdn: string, name: string) => {
      const shown = await runtime.withDatabase(async ({ db }) => {
        const zone = await findOwnZone(runtime, db, fqdn);
        const found = await findPool(runtime, db, zone, name);
        const now = new Date();
        const probes = await readJudgedProbes(db, [found.id], now);
        const events = await listPoolEvents(db, found.id, EVENTS_SHOWN);
        return { found, probes, events, nodes: await listCheckingNodes(db, now) };
      });
      const { found, probes, events, nodes } = shown;
      const states = probes.map(({ member, address, state, verdicts }) => ({
        ...{ member, address, up: state.up, since: new Date(state.sinceMs), flaps: state.flaps },
        verdicts: verdicts.map(({ reason, ...said }) => ({ ...said, reason: reason?.message ?? null })),
      }));
      const lines = states.map(({ member, address, up, since, verdicts }) => {
        const reasons = verdicts.flatMap(({ node, reason }) => (reason ? [`${node}: ${reason}`] : []));
        return [member, address, up ? "up" : "down", since.toISOString(), reasons.join("; ")].join("\t");
      });
      const past = events.map(({ at, member, address, up }) =>
        [at.toISOString(), member, address, up ? "came up" : "went down"].join("\t"),
      );
      const text = [describe(found), ...lines, ...past].join("\n");
      runtime.print({ ...poolJson(found), nodes, states, history: events }, text);
    });
}

function registerDown(pool: Command, runtime: CommandRuntime): void {
  pool
    .command("down")
    .description(`list the members of all zones' pools that are down, and why: the ${DOWN_SHOWN} that went last`)
    .action(async () => {
      const down = await runtime.withDatabase(({ db }) => listDownMembers(db, DOWN_SHOWN, new Date()));
      runtime.print(down.map(downJson), down.length === 0 ? "none" : down.map(describeDown).join("\n"));
    });
}

function downJson({ zone, owner, member, address, since, reasons }: DownMember) {
  const said = reasons.map(({ node, reason }) => ({ node, reason: reason?.message ?? null }));
  return { zone, pool: nameOf(owner), member, address, since, reasons: said };
}

function describeDown({ zone, owner, member, address, since, reasons }: DownMember): string {
  const why = reasons.flatMap(({ node, reason }) => (reason ? [`${node}: ${reason.message}`] : []));
  return [zone, nameOf(owner), member, address, since.toISOString(), why.join("; ")].join("\t").trimEnd();
}

function registerDrain(pool: Command, runtime: CommandRuntime, drain: boolean): void {
  pool
    .command(drain ? "drain" : "undrain")
    .argument("<fqdn>", "the zone")
    .argument("<name>", "the pool's name; @ for the zone's own")
    .argument("<member>")
    .description(drain ? "give a member to nobody, however healthy" : "give a drained member again")
    .action(async (fqdn: string, name: string, member: string) => {
      const changed = await runtime.withDatabase(async ({ db, keyRing }) => {
        const zone = await findOwnZone(runtime, db, fqdn);
        const found = await findPool(runtime, db, zone, name);
        const signer = { keyRing, clock: systemClock };
        const target = { scope: {}, apex: zone.apex, domain: zone.name, actor: COMMAND_ACTOR, signer };
        const drained = await drainMember(db, target, { poolId: found.id, member, drain }, new Date());
        if (drained.ok) await notifyZones(db, [zone.id]);
        return drained;
      });
      const { zone, warnings } = orRefuse(runtime, changed);
      noteWarnings(runtime, warnings);
      const said = drain ? "is drained" : "is given again";
      runtime.print({ domain: zone.name, member, drain, serial: zone.soa.serial }, `${member} ${said}`);
    });
}

async function findOwnZone(runtime: CommandRuntime, db: Db, fqdn: string): Promise<Zone> {
  const zone = await findZone(db, {}, readZoneName(runtime, fqdn));
  return zone ?? runtime.refuse(`${fqdn} does not exist`);
}

async function findPool(runtime: CommandRuntime, db: Db, zone: Zone, name: string): Promise<ListedFollower> {
  const owner = parseDomainName(name, zone.apex);
  const pools = await listFollowers(db, zone.id, "pool");
  // Relative to the zone, or as lists have it.
  const isMeant = (one: DomainName) => (owner.ok && one.key === owner.value.key) || nameOf(one) === name.toLowerCase();
  const found = pools.find((one) => isMeant(one.owner));
  return found || runtime.refuse(`${zone.name} has no pool ${name}`);
}

function poolJson({ id, owner, definition, addresses, problem }: ListedFollower) {
  const { ipv4: a, ipv6: aaaa } = addresses;
  return { pool_id: id, name: nameOf(owner), a, aaaa, problem: problem?.message ?? null, ...definition };
}

function describe({ owner, definition, addresses }: ListedFollower): string {
  const { rule, members } = definition as PoolDefinition;
  const drained = members.filter(({ drain }) => drain).map((member) => member.name);
  const given = [...addresses.ipv4, ...addresses.ipv6].join(" ") || "-";
  return [
    nameOf(owner),
    rule,
    counted(members.length, "member"),
    given,
    drained.length > 0 ? `drained: ${drained}` : "",
  ]
    .join("\t")
    .trimEnd();
}
