import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import {
  applyRoles,
  listTables,
  type Right,
  rightsOf,
  roleOf,
  rolePolicy,
} from "../../services/store/database-roles.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { findNeededRights, type NeededRights } from "../support/needed-rights.ts";

/**
 * Holds config/database-roles.json to the statements that each service's code can come to, by following its imports: a role
 * may do what these do, and, but for the console, nothing in an area that none of them does.
 */
const services = Object.keys(rolePolicy.services);

/** What a service's code comes to, and the service never does. */
const NEVER_DONE: readonly {
  readonly services: readonly string[];
  readonly rights: readonly `${Right} on ${string}`[];
  readonly why: string;
}[] = [
  {
    services: ["dns-server"],
    rights: ["select on zone_keys", "insert on derived_records", "delete on derived_records"],
    why: "it changes catalogs and feeds, which are never signed",
  },
  {
    services: ["dns-server"],
    rights: ["insert on followers", "update on followers", "delete on followers"],
    why: "no name of a catalog or a feed follows another",
  },
  { services: ["dns-server"], rights: ["insert on quotas"], why: "catalogs and feeds are charged to nobody" },
  {
    services: ["mail-api", "submission", "delivery", "bounce"],
    rights: ["select on webhooks"],
    why: "on Citus alone, where roles may read what stands behind the view webhook_instances",
  },
  { services: ["submission", "delivery", "bounce"], rights: ["select on event_feeds"], why: "as webhooks" },
  { services: ["dns-api", "dns-server"], rights: ["select on instances"], why: "only for mail machines are watched" },
  {
    services: ["bounce", "tracking"],
    rights: ["select on sending_counts", "insert on sending_counts", "update on sending_counts"],
    why: "what comes back is counted in no limit",
  },
];
const neverDone = (service: string) =>
  NEVER_DONE.flatMap(({ services, rights }) => (services.includes(service) ? rights : []));

/** What each way has that reading has not. */
const RIGHTS_OF_WAYS: Readonly<Record<string, readonly Right[]>> = {
  read: ["select"],
  insert: ["insert"],
  update: ["update"],
  delete: ["delete"],
  change: ["insert", "update"],
  write: ["insert", "update", "delete"],
};

const isSpread = inject("citusWorkers").length > 0;
let database: TestDatabase;
let client: pg.Client;
let needed: ReadonlyMap<string, NeededRights>;

beforeAll(async () => {
  database = await createTestDatabase(1);
  await applyRoles(database.db);
  const tables = await listTables(database.db);
  needed = new Map(services.map((service) => [service, findNeededRights(service, tables)]));
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
  for (const service of services) {
    for (const right of neverDone(service)) await client.query(`grant ${right} to ${roleOf(service)}`);
  }
});

afterAll(async () => {
  await client?.end();
  await database?.drop();
});

describe.each(services)("%s", (service) => {
  it.skipIf(isSpread)(
    `PostgreSQL lets its role run every statement that is written out${isSpread ? " (not here: Citus plans many only with a call's values)" : ""}`,
    async () => {
      const refused: string[] = [];
      for (const { at, text } of needed.get(service)!.statements) {
        await explain(text, roleOf(service)).catch((error: Error) => refused.push(`${at}: ${error.message}`));
      }
      expect(refused).toEqual([]);
    },
  );

  it("its role may do what the code says, but for what is listed here as never done", () => {
    const granted = rightsOf(service);
    const columns = Object.keys(rolePolicy.services[service]!.columns ?? {});
    const lacking = [...needed.get(service)!.rights].flatMap(([table, rights]) =>
      [...rights]
        .filter((right) => !granted.get(table)?.includes(right) && !(right === "select" && columns.includes(table)))
        .map((right) => `${right} on ${table}`),
    );
    expect(lacking.sort()).toEqual(neverDone(service).sort());
  });

  // Operators' commands run with the console's role as well.
  if (service === "console") return;

  it("does something with each area that it is given, in each way", () => {
    const { rights } = needed.get(service)!;
    const { columns: _columns, ...ways } = rolePolicy.services[service]!;
    const isNeeded = (area: string, right: Right) =>
      rolePolicy.areas[area]!.some((table) => rights.get(table)?.has(right));
    const idle = Object.entries(ways).flatMap(([way, areas]) =>
      areas.flatMap((area) => {
        const spare = RIGHTS_OF_WAYS[way]!.filter((right) => !isNeeded(area, right));
        return spare.map((right) => `${right} on ${area}`);
      }),
    );
    expect(idle).toEqual([]);
  });
});

/** Plans it and looks at the rights, as for running it. */
async function explain(text: string, role: string): Promise<void> {
  await client.query("begin");
  try {
    await client.query(`prepare tried as ${text}`);
    const { rows } = await client.query<{ count: number }>(
      "select cardinality(parameter_types) as count from pg_prepared_statements where name = 'tried'",
    );
    const values = Array(rows[0]!.count).fill("null").join(", ");
    await client.query(`set local role ${role}`);
    await client.query(`explain execute tried${values && ` (${values})`}`);
  } finally {
    await client.query("rollback");
    await client.query("deallocate all");
  }
}
