import type pg from "pg";
import type { Db } from "../../platform/postgres/db.ts";

/** A machine over which Citus spreads instances, as the coordinator names it. */
export interface Machine {
  readonly name: string;
  readonly port: number;
}

/** Instances whose machines do not answer, and all the others. */
interface Absence {
  readonly away: ReadonlySet<number>;
  readonly present: readonly number[];
}

/** By what all handles to one pool share; without an entry everybody is there. */
const absences = new WeakMap<object, Absence>();

/** Those that have rows of instances; none without Citus. */
export async function listMachines(client: pg.Client): Promise<Machine[]> {
  const { rows } = await client.query("select from pg_extension where extname = 'citus'");
  if (rows.length === 0) return [];
  const listed = await client.query<Machine>(
    "select nodename as name, nodeport as port from pg_dist_node where isactive and shouldhaveshards and noderole = 'primary' order by nodename, nodeport",
  );
  return listed.rows;
}

/**
 * Whether the coordinator can reach a machine, and that one answers.
 * @param client a connection that was made for this: one of before to that machine would be asked, and waited for
 */
export async function canBeReached(client: pg.Client, { name, port }: Machine, timeoutMs: number): Promise<boolean> {
  await client.query(`set citus.node_connection_timeout to ${timeoutMs}`);
  const asked = { text: "select citus_check_connection_to_node($1, $2) as there", values: [name, port] };
  return (await client.query<{ there: boolean }>(asked)).rows[0]!.there;
}

/** Has statements about instances of these machines be refused from now on, and left out by `onPresent`. */
export async function setAway(db: Db, client: pg.Client, machines: readonly Machine[]): Promise<void> {
  const { config } = db.client;
  if (machines.length === 0) {
    absences.delete(config);
    return;
  }
  const { rows } = await client.query<{ id: number; is_away: boolean }>({
    text: `select i.id, exists (
             select 1 from pg_dist_shard_placement s, unnest($1::text[], $2::integer[]) as away (name, port)
             where s.shardid = get_shard_id_for_distribution_column('instance_domains', i.id)
               and s.nodename = away.name and s.nodeport = away.port) as is_away
           from instances i order by i.id`,
    values: [machines.map(({ name }) => name), machines.map(({ port }) => port)],
  });
  absences.set(config, {
    away: new Set(rows.flatMap(({ id, is_away }) => (is_away ? [id] : []))),
    present: rows.flatMap(({ id, is_away }) => (is_away ? [] : [id])),
  });
}

/** A statement was not begun: the machine that has the instance does not answer. */
export class MachineAway extends Error {
  override readonly name = "MachineAway";
  /** As where PostgreSQL says so: connection failure. */
  readonly code = "08006";

  constructor() {
    super("the machine that has the instance's rows does not answer");
  }
}

/** Whether all machines are there, as far as is known. */
export function isWhole(db: Db): boolean {
  return !absences.has(db.client.config);
}

export function isAway(db: Db, instanceId: number): boolean {
  return absences.get(db.client.config)?.away.has(instanceId) ?? false;
}

/** Names of instances that cannot be asked about. */
export async function listAwayInstances(db: Db): Promise<string[]> {
  const away = absences.get(db.client.config)?.away ?? new Set<number>();
  return db("instances")
    .whereIn("id", [...away])
    .orderBy("name")
    .pluck("name");
}

/** @throws MachineAway where one of the instances cannot be asked about */
export function refuseAway(db: Db, instanceIds: readonly number[]): void {
  const away = absences.get(db.client.config)?.away;
  if (away !== undefined && instanceIds.some((id) => away.has(id))) throw new MachineAway();
}

/**
 * The condition on a table of a statement about all instances that leaves out those that cannot be asked about.
 * @param column SQL of the table's instance
 */
export function onPresent(db: Db, column?: string): string {
  const absence = absences.get(db.client.config);
  return absence === undefined ? "true" : ofPresent(column, absence.present);
}

/** What `onPresent` says while a machine is away. */
export function ofPresent(column: string | undefined, present: readonly number[]): string {
  return `${column ?? "instance_id"} = any('{${present}}'::bigint[])`;
}

/** What was looked for by its id alone. @throws MachineAway where it was not found and may be on a machine that does not answer */
export function foundOnPresent<T>(db: Db, found: T | undefined): T | undefined {
  if (found === undefined && !isWhole(db)) throw new MachineAway();
  return found;
}
