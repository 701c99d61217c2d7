import { type Db, isUniqueViolation } from "../platform/db.ts";

export const USER_ROLES = ["operator", "reseller", "company", "instance"] as const;
export type UserRole = (typeof USER_ROLES)[number];

export interface User {
  readonly login: string;
  readonly role: UserRole;
  /** What the user is confined to: a reseller id, `reseller/crm_id`, or an instance's name; null for operators. */
  readonly scope: string | null;
}

/** @returns false when the login is taken */
export async function addUser(db: Db, user: User & { readonly passwordHash: string }): Promise<boolean> {
  try {
    await db("users").insert({
      login: user.login,
      role: user.role,
      scope: user.scope,
      password_hash: user.passwordHash,
    });
    return true;
  } catch (error) {
    if (isUniqueViolation(error)) return false;
    throw error;
  }
}

export async function findUser(db: Db, login: string): Promise<(User & { readonly passwordHash: string }) | undefined> {
  const row = await db("users").where({ login }).first("login", "role", "scope", "password_hash");
  return row && { login: row.login, role: row.role, scope: row.scope, passwordHash: row.password_hash };
}

/** Whether what a user would be confined to exists: a reseller id, `reseller/crm_id`, or an instance's name. */
export async function scopeExists(db: Db, role: UserRole, scope: string): Promise<boolean> {
  const [resellerId, crmId = ""] = scope.split("/");
  switch (role) {
    case "operator":
      return false;
    case "reseller":
      return (await db("resellers").where({ id: scope }).first("id")) !== undefined;
    case "company":
      return (await db("companies").where({ reseller_id: resellerId, crm_id: crmId }).first("id")) !== undefined;
    case "instance":
      return (await db("instances").where({ name: scope }).first("id")) !== undefined;
  }
}
