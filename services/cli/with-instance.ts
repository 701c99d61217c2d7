import { findInstanceByName, type Instance } from "../store/mail/instances/instances.ts";
import type { CommandDatabase } from "./database.ts";
import type { CommandRuntime } from "./runtime.ts";

/** Runs with an instance, or refuses when there is none of the name. */
export function withInstance<T>(
  runtime: CommandRuntime,
  name: string,
  use: (database: CommandDatabase, instance: Instance) => Promise<T>,
): Promise<T> {
  return runtime.withDatabase(async (database) => {
    const instance = await findInstanceByName(database.db, name);
    return instance === undefined ? runtime.refuse(`there is no instance ${name}`) : use(database, instance);
  });
}
