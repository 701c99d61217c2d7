import { randomBytes } from "node:crypto";
import { type Command, Option } from "commander";
import { hashPassword } from "../../core/password.ts";
import { addUser, scopeExists, USER_ROLES, type UserRole } from "../../store/users.ts";
import type { CommandRuntime } from "../runtime.ts";

export function registerUserCommand(program: Command, runtime: CommandRuntime): void {
  const user = program.command("user").description("console accounts");
  user
    .command("add")
    .argument("<login>")
    .addOption(new Option("--role <role>").choices(USER_ROLES).makeOptionMandatory())
    .option("--scope <scope>", "the reseller id, reseller/crm_id, or instance name that the user is confined to")
    .description("add a console account; prints its password, once")
    .action(async (login: string, options: { role: UserRole; scope?: string }) => {
      const { role } = options;
      const scope = options.scope ?? null;
      if (!/^[A-Za-z0-9._@-]{1,64}$/.test(login)) runtime.refuse("a login has 1 to 64 letters, digits and . _ @ -");
      if ((role === "operator") !== (scope === null)) {
        runtime.refuse("operators have no --scope, all others need one");
      }
      const password = makePassword();
      const passwordHash = await hashPassword(password);
      await runtime.withDatabase(async ({ db }) => {
        if (scope !== null && !(await scopeExists(db, role, scope))) runtime.refuse(`there is no ${role} ${scope}`);
        const added = await addUser(db, { login, role, scope, passwordHash });
        if (!added) runtime.refuse(`user ${login} already exists`);
      });
      runtime.print({ login, role, scope, password }, `${login} ${password}`);
    });
}

/** A password of 120 random bits. */
export function makePassword(): string {
  return randomBytes(15).toString("base64url");
}
