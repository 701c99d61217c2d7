import { randomBytes } from "node:crypto";
import { z } from "zod";
import { bySchema, readConfigFile } from "../platform/config/config-file.ts";
import { type Db, queryRows, type Transaction } from "../platform/postgres/db.ts";
import { makeScramVerifier } from "../platform/postgres/scram-verifier.ts";
import { hasSpreadTables } from "./mail/by-instance.ts";

const names = z.array(z.string().min(1)).readonly();

/** What a service may do with the tables of an area, by the word that config/database-roles.json has for it. */
const RIGHTS = {
  read: ["select"],
  insert: ["select", "insert"],
  update: ["select", "update"],
  delete: ["select", "delete"],
  change: ["select", "insert", "update"],
  write: ["select", "insert", "update", "delete"],
} as const;

type Word = keyof typeof RIGHTS;
export type Right = (typeof RIGHTS)[Word][number];

const WORDS = Object.keys(RIGHTS) as Word[];
/** In the order in which statements name them. */
const ALL_RIGHTS: readonly Right[] = RIGHTS.write;

/**
 * Which service may do what: the content of config/database-roles.json.
 * `areas`: tables by area; every table is in one of them. `services`: areas by service and by what it may do there, which
 * adds up where an area is named twice; everybody reads `deployment` and writes `nodes`. `columns`: those that it may read
 * of tables that are otherwise none of its business.
 */
const roleFile = z.strictObject({
  areas: z.record(z.string(), names),
  services: z.record(
    z.string(),
    z.strictObject({
      read: names,
      insert: names.exactOptional(),
      update: names.exactOptional(),
      delete: names.exactOptional(),
      change: names.exactOptional(),
      write: names.exactOptional(),
      columns: z.record(z.string(), names).exactOptional(),
    }),
  ),
});

export type RolePolicy = z.output<typeof roleFile>;

/** A service's role in the database, and the statements that give it its rights. */
export interface ServiceRole {
  readonly service: string;
  readonly role: string;
  readonly grants: readonly string[];
  /** For each machine of a Citus that spreads the tables, once these are there: undefined where none does. */
  readonly onMachines: string | undefined;
}

export const rolePolicy: RolePolicy = readConfigFile("database-roles.json", bySchema(roleFile));

/** Every table and view of the schema but the parts of partitioned ones, whose rights are those of the whole, and an extension's. */
export async function listTables(db: Db): Promise<string[]> {
  const rows = await queryRows<{ name: string }>(
    db,
    `select relname as name from pg_class
      where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
        and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype = 'e')
      order by 1`,
  );
  return rows.map(({ name }) => name);
}

/** The roles of all services, as the policy has them, for the tables that there are. */
export async function composeRoles(db: Db, policy: RolePolicy = rolePolicy): Promise<ServiceRole[]> {
  const tables = new Set(await listTables(db));
  const [place] = await queryRows<{ schema: string }>(db, "select current_schema() as schema");
  const isSpread = await hasSpreadTables(db);
  const behind = isSpread ? await listTablesBehind(db) : new Map<string, readonly string[]>();
  return Object.keys(policy.services).map((service) => {
    const role = roleOf(service);
    const on = (names: readonly string[]) => names.map((name) => `${place!.schema}.${name}`).join(", ");
    const granted = new Map([...rightsOf(service, policy)].filter(([table]) => tables.has(table)));
    for (const table of [...granted.keys()].flatMap((name) => behind.get(name) ?? [])) {
      if (!granted.has(table)) granted.set(table, RIGHTS.read);
    }
    const named = new Map([...granted].map(([table, rights]) => [table, rights.join(", ")]));
    const grants = [...new Set(named.values())].map((rights) => {
      const tablesOf = [...named.keys()].filter((table) => named.get(table) === rights);
      return `grant ${rights} on ${on(tablesOf)} to ${role}`;
    });
    const columns = Object.entries(policy.services[service]!.columns ?? {});
    // Numbers alone; what they number is guarded otherwise. Citus passes on no rights on those that number rows.
    const numbers = `grant usage on all sequences in schema ${place!.schema} to ${role}`;
    return {
      service,
      role,
      grants: [
        `revoke all on all tables in schema ${place!.schema} from ${role}`,
        `revoke all on all sequences in schema ${place!.schema} from ${role}`,
        `grant usage on schema ${place!.schema} to ${role}`,
        ...grants,
        ...columns.map(([table, names]) => `grant select (${names.join(", ")}) on ${on([table])} to ${role}`),
        numbers,
      ],
      onMachines: isSpread
        ? `do $$ begin set local citus.enable_ddl_propagation to off; ${numbers}; end $$`
        : undefined,
    };
  });
}

/** What a service may do, by table. */
export function rightsOf(service: string, policy: RolePolicy = rolePolicy): ReadonlyMap<string, readonly Right[]> {
  const wanted = policy.services[service]!;
  const found = new Map<string, readonly Right[]>();
  const add = (area: string, rights: readonly Right[]) => {
    for (const table of policy.areas[area] ?? []) {
      const before = found.get(table) ?? [];
      found.set(
        table,
        ALL_RIGHTS.filter((right) => before.includes(right) || rights.includes(right)),
      );
    }
  };
  add("deployment", RIGHTS.read);
  add("nodes", RIGHTS.write);
  for (const word of WORDS) for (const area of wanted[word] ?? []) add(area, RIGHTS[word]);
  return found;
}

/** What a service needs and the role that asks lacks. */
export interface MissingRights {
  readonly role: string;
  /** Such as `update on zones`; empty where nothing is missing, as for the owner of the tables. */
  readonly rights: readonly string[];
}

/** Compares the rights of whoever asks with those of a service. */
export async function findMissingRights(db: Db, service: string): Promise<MissingRights> {
  const columns = Object.entries(rolePolicy.services[service]!.columns ?? {});
  const needed = [
    ...[...rightsOf(service)].flatMap(([name, rights]) => rights.map((right) => ({ name, right }))),
    ...columns.flatMap(([name, parts]) => parts.map((part) => ({ name, part, right: "select" }))),
  ];
  const [found] = await queryRows<MissingRights>(
    db,
    `select current_user::text as role,
            coalesce(array_agg("right" || ' on ' || name || coalesce('.' || part, '') order by name, part, "right")
              filter (where not coalesce(has_column_privilege(name, part, "right"), has_table_privilege(name, "right"))),
              '{}') as rights
       from jsonb_to_recordset($1::jsonb) as needed (name text, part text, "right" text)
      where to_regclass(name) is not null`,
    [JSON.stringify(needed)],
  );
  return found!;
}

/** What views read, by view: Citus asks tables in the place of a view, in the name of whoever asks it. */
async function listTablesBehind(db: Db): Promise<Map<string, readonly string[]>> {
  const rows = await queryRows<{ view: string; tables: string[] }>(
    db,
    `select view_name::text as view, array_agg(table_name::text) as tables from information_schema.view_table_usage
     where view_schema = current_schema() and table_schema = current_schema() group by 1`,
  );
  return new Map(rows.map(({ view, tables }) => [view, tables]));
}

/** A role that was made, or had its rights brought up to date. */
export interface AppliedRole {
  readonly service: string;
  readonly role: string;
  /** Of a role that is new; null where it was there. */
  readonly password: string | null;
}

/**
 * Makes the roles that are missing, each with a random password, and gives all of them their rights.
 * @param db as the owner of the tables, who may make roles
 * @param chosen passwords by role: those roles have them from now on, new or not, and they are not told again
 */
export async function applyRoles(db: Db, chosen: ReadonlyMap<string, string> = new Map()): Promise<AppliedRole[]> {
  const roles = await composeRoles(db);
  const applied = await db.transaction(async (transaction) => {
    // Two that grant at once would be refused: they change the same rows of the catalogue.
    await transaction.raw("select pg_advisory_xact_lock(hashtextextended('palomar roles', 0))");
    const made: AppliedRole[] = [];
    for (const { service, role, grants } of roles) {
      const password = await makeRole(transaction, role, chosen.get(role));
      for (const grant of grants) await transaction.raw(grant);
      made.push({ service, role, password });
    }
    return made;
  });
  // Other machines know the roles from here on.
  for (const { onMachines } of roles) await grantOnMachines(db, onMachines);
  return applied;
}

async function grantOnMachines(db: Db, grant: string | undefined): Promise<void> {
  if (grant === undefined) return;
  const { rows } = await db.raw("select * from run_command_on_workers(?) where not success", [grant]);
  for (const { nodename, nodeport, result } of rows) throw new Error(`${nodename}:${nodeport}: ${result}`);
}

/** Whether whoever asks may read all tables of these areas: what is not allowed leaves an error in the server's log. */
export async function mayRead(db: Db, areas: readonly string[]): Promise<boolean> {
  const [row] = await queryRows<{ may: boolean }>(
    db,
    "select bool_and(has_table_privilege(name, 'select')) as may from unnest($1::text[]) as name",
    [areas.flatMap((area) => rolePolicy.areas[area]!)],
  );
  return row!.may;
}

/** The role of a service. */
export function roleOf(service: string): string {
  return `palomar_${service.replaceAll("-", "_")}`;
}

/** @returns the password of a role that is new and for which none was chosen */
async function makeRole(transaction: Transaction, role: string, chosen: string | undefined): Promise<string | null> {
  const [known] = await queryRows(transaction, "select from pg_roles where rolname = $1", [role]);
  if (known !== undefined && chosen === undefined) return null;
  // Letters and digits, so that it stands in a URL as it is.
  const password = chosen ?? randomBytes(24).toString("hex");
  const verb = known === undefined ? "create" : "alter";
  // Utility statements take no parameters, so the server itself quotes them.
  const [composed] = await queryRows<{ statement: string }>(
    transaction,
    "select format('%s role %I login password %L', $1::text, $2::text, $3::text) as statement",
    [verb, role, makeScramVerifier(password)],
  );
  await queryRows(transaction, composed!.statement);
  return chosen === undefined ? password : null;
}
