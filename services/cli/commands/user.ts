import { type Command, Option } from "commander";
import { hashPassword, makePassword } from "../../core/password.ts";
import { beginAudit, settleAudit } from "../../store/console/audit.ts";
import {
  addUser,
  deleteUser,
  findUser,
  LOGIN,
  listUsers,
  resetUser,
  scopeExists,
  USER_ROLES,
  type UserRole,
} from "../../store/console/users.ts";
import type { CommandRuntime } from "../runtime.ts";

/** Who acts, in the audit log: no login has a space. */
const COMMAND = "palomar user";

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
    .description(
      "give an account a new password, take its one-time codes away, and end its sessions; prints the password, once",
    )
    .action(async (login: string) => {
      const password = makePassword();
      const passwordHash = await hashPassword(password);
      await runtime.withDatabase(async ({ db }) => {
        const known = await findUser(db, login);
        if (!known) return runtime.refuse(`there is no user ${login}`);
        const entry = { actor: COMMAND, address: "", action: "user.reset", object: login, detail: { totp: false } };
        const entryId = await beginAudit(db, { ...entry, about: { role: known.role, scope: known.scope } }, new Date());
        await resetUser(db, login, passwordHash);
        await settleAudit(db, entryId);
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
