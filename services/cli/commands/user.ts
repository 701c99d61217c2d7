import { type Command, Option } from "commander";
import { hashPassword, makePassword } from "../../core/password.ts";
import {
  addUser,
  deleteUser,
  findUser,
  LOGIN,
  listUsers,
  removeTotp,
  scopeExists,
  setPassword,
  USER_ROLES,
  type UserRole,
} from "../../store/console/users.ts";
import type { CommandRuntime } from "../runtime.ts";

/** `palomar user`: who may sign in at the console. */
export function registerUserCommand(program: Command, runtime: CommandRuntime): void {
  const user = program.command("user").description("console accounts");
  registerAdd(user, runtime);
  registerList(user, runtime);
  registerReset(user, runtime);
  registerRemove(user, runtime);
}

function registerAdd(user: Command, runtime: CommandRuntime): void {
  user
    .command("add")
    .argument("<login>")
    .addOption(new Option("--role <role>", "whose work the account is for").choices(USER_ROLES).makeOptionMandatory())
    .option("--scope <scope>", "the reseller id, reseller/crm_id, or instance name that the user is confined to")
    .description("add a console account; prints its password, once")
    .action(async (login: string, options: { role: UserRole; scope?: string }) => {
      const { role } = options;
      const scope = options.scope ?? null;
      if (!LOGIN.test(login)) runtime.refuse("a login has 1 to 64 letters, digits and . _ @ -");
      if ((role === "operator") !== (scope === null)) {
        runtime.misused("operators have no --scope, all others need one");
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

function registerList(user: Command, runtime: CommandRuntime): void {
  user
    .command("list")
    .description("list console accounts")
    .action(async () => {
      const users = await runtime.withDatabase(({ db }) => listUsers(db, undefined));
      const rows = users.map(({ login, role, scope, hasTotp, seenAt }) => ({
        ...{ login, role, scope, totp: hasTotp, seen: seenAt?.toISOString() ?? null },
      }));
      runtime.print(rows, rows.map(({ login, role, scope }) => [login, role, scope ?? ""].join("\t")).join("\n"));
    });
}

function registerReset(user: Command, runtime: CommandRuntime): void {
  user
    .command("reset")
    .argument("<login>")
    .option("--totp", "take its one-time codes away as well", false)
    .description("give an account a new password and end its sessions; prints the password, once")
    .action(async (login: string, options: { readonly totp: boolean }) => {
      const password = makePassword();
      const passwordHash = await hashPassword(password);
      await runtime.withDatabase(async ({ db }) => {
        const known = await findUser(db, login);
        if (!known) return runtime.refuse(`there is no user ${login}`);
        await setPassword(db, login, passwordHash);
        if (options.totp) await removeTotp(db, known.id);
      });
      runtime.print({ login, password }, `${login} ${password}`);
    });
}

function registerRemove(user: Command, runtime: CommandRuntime): void {
  user
    .command("remove")
    .argument("<login>")
    .description("delete an account and end its sessions")
    .action(async (login: string) => {
      const outcome = await runtime.withDatabase(({ db }) => deleteUser(db, login));
      if (outcome === "unknown") runtime.refuse(`there is no user ${login}`);
      if (outcome === "last-operator") runtime.refuse("the last operator must stay");
      runtime.print({ login }, `${login} removed`);
    });
}
