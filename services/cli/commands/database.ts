import type { Command } from "commander";
import { composeRoles } from "../../store/database-roles.ts";
import { makeRoles } from "../make-roles.ts";
import type { CommandRuntime } from "../runtime.ts";

export function registerDatabaseCommand(program: Command, runtime: CommandRuntime): void {
  const database = program.command("database").description("the database that everything stands on");
  database
    .command("roles")
    .option("--apply", "make them; prints the password of each new one, once", false)
    .description("a role for each service, with the rights that it needs and no more")
    .action(async ({ apply }: { apply: boolean }) => {
      if (apply) {
        const roles = await runtime.withDatabase(({ db }) => makeRoles(db));
        runtime.print(roles, roles.map(({ role, password }) => `${role}\t${password ?? "(as it was)"}`).join("\n"));
        return;
      }
      const roles = await runtime.withDatabase(({ db }) => composeRoles(db));
      const statements = roles.flatMap(({ grants, onMachines }) => [
        ...grants,
        ...(onMachines === undefined ? [] : [`select run_command_on_workers('${onMachines}')`]),
      ]);
      runtime.print(roles, statements.map((statement) => `${statement};`).join("\n"));
    });
}
