import { z } from "zod";
import { makePassword } from "../../core/password.ts";
import { invalidField, missingField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import {
  addUser,
  deleteUser,
  findUser,
  LOGIN,
  listUsers,
  resetUser,
  scopeExists,
  USER_ROLES,
  type User,
} from "../../store/console/users.ts";
import { type AdminCaller, areaOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { newPassword } from "./session.ts";

const manages = areaOf("reseller");
const role = z.enum(USER_ROLES);
const user = z.object({ login: z.string(), role, scope: z.string().nullable() });
const loginParam = z.object({ login: z.string() });
const withPassword = user.extend({ password: z.string().meta({ description: "shown this once" }) });

/** Accounts of the console: the operator's all, a reseller those of its companies' people. */
export const makeUserEndpoints: MakeConsoleEndpoints = (context) => [
  ...listAndAddition(context),
  ...singleAccounts(context),
];

/** Which accounts there are. */
const listAndAddition: MakeConsoleEndpoints = (context) => {
  const { db, signIn } = context;
  return [
    consoleEndpoint({
      method: "GET",
      path: "/users",
      summary: "Accounts of the console",
      authorise: manages,
      reply: z.object({
        users: z.array(user.extend({ totp: z.boolean(), created: z.string(), seen: z.string().nullable() })),
      }),
      act: async ({ caller }) => {
        const users = await listUsers(db, caller.role === "operator" ? undefined : (caller.scope ?? ""));
        return ok({
          users: users.map(({ login, role: of, scope, hasTotp, createdAt, seenAt }) => ({
            ...{ login, role: of, scope, totp: hasTotp },
            created: createdAt.toISOString(),
            seen: seenAt?.toISOString() ?? null,
          })),
        });
      },
    }),
    consoleEndpoint({
      method: "POST",
      path: "/users",
      summary: "Add an account; without a password it gets a random one",
      authorise: manages,
      fields: z.object({
        login: z.string().regex(LOGIN, "login-form"),
        role,
        scope: z
          .string()
          .optional()
          .meta({ description: "reseller id, reseller/crm_id, or instance; none for operators" }),
        password: newPassword.optional(),
      }),
      change: {
        action: "user.add",
        object: ({ fields }) => fields.login,
        detail: ({ fields }) => ({ role: fields.role, scope: fields.scope ?? null }),
      },
      reply: withPassword,
      act: async ({ caller, fields, clientAddress: address }) => {
        const added = await readNewUser(context, caller, fields);
        if (!added.ok) return added;
        const password = fields.password ?? makePassword();
        const hashed = await signIn.hash({ login: caller.login, address }, password);
        if (!hashed.ok) return hashed;
        const isNew = await addUser(db, { ...added.value, passwordHash: hashed.value });
        return isNew ? ok({ ...added.value, password }) : refuse(problem("user-exists", { login: fields.login }));
      },
    }),
  ];
};

/** The end of an account, and its new beginning. */
const singleAccounts: MakeConsoleEndpoints = (context) => {
  const { db, signIn } = context;
  return [
    consoleEndpoint({
      method: "DELETE",
      path: "/users/:login",
      summary: "Delete an account, and end its sessions",
      authorise: manages,
      params: loginParam,
      change: { action: "user.delete", object: ({ params }) => params.login },
      reply: z.object({ msg: z.literal("deleted") }),
      act: async ({ caller, params }) => {
        const managed = await managedUser(context, caller, params.login);
        if (!managed.ok) return managed;
        if (params.login === caller.login) return refuse(problem("own-account"));
        const outcome = await deleteUser(db, params.login);
        if (outcome === "last-operator") return refuse(problem("last-operator"));
        return outcome === "deleted" ? ok({ msg: "deleted" as const }) : refuse(NO_SUCH_USER);
      },
    }),
    consoleEndpoint({
      method: "POST",
      path: "/users/:login/reset",
      summary: "Give an account a new random password, take its one-time codes away, and end its sessions",
      authorise: manages,
      params: loginParam,
      change: { action: "user.reset", object: ({ params }) => params.login, detail: () => ({ totp: false }) },
      reply: withPassword,
      act: async ({ caller, params, clientAddress: address }) => {
        // The session would end with the answer that has the new password.
        if (params.login === caller.login) return refuse(problem("own-reset"));
        const managed = await managedUser(context, caller, params.login);
        if (!managed.ok) return managed;
        const password = makePassword();
        const { login, role: of, scope } = managed.value;
        const hashed = await signIn.hash({ login: caller.login, address }, password);
        if (!hashed.ok) return hashed;
        const known = await resetUser(db, login, hashed.value);
        return known ? ok({ login, role: of, scope, password }) : refuse(NO_SUCH_USER);
      },
    }),
  ];
};

const NO_SUCH_USER = problem("no-such-user");

async function readNewUser(
  { db }: ConsoleContext,
  caller: AdminCaller,
  fields: { readonly login: string; readonly role: User["role"]; readonly scope?: string | undefined },
): Promise<Result<User, Refusal>> {
  const { login, role: of, scope = null } = fields;
  if (of === "operator") {
    if (scope !== null) return refuse(invalidField("scope", "operators-without-scope"));
  } else if (scope === null) return refuse(missingField("scope"));
  if (!mayManage(caller, { login, role: of, scope })) {
    return refuse(problem("users-of-companies-only"));
  }
  if (scope !== null && !(await scopeExists(db, of, scope))) {
    return refuse(invalidField("scope", "no-such-scope", { role: of, name: scope }));
  }
  return ok({ login, role: of, scope });
}

async function managedUser({ db }: ConsoleContext, caller: AdminCaller, login: string): Promise<Result<User, Refusal>> {
  const found = await findUser(db, login);
  return found && mayManage(caller, found) ? ok(found) : refuse(NO_SUCH_USER);
}

/** Operators manage everybody, a reseller the accounts of its companies. */
function mayManage(caller: AdminCaller, managed: User): boolean {
  if (caller.role === "operator") return true;
  return managed.role === "company" && (managed.scope ?? "").startsWith(`${caller.scope}/`);
}
