import type { UserRole } from "./users.ts";

/** What something of the console is about, or what a user is confined to: written as in `users`. */
export interface ConsoleScope {
  readonly role: UserRole;
  /** A reseller id, `reseller/crm_id`, or an instance's name; null of the deployment as a whole. */
  readonly scope: string | null;
}

/**
 * An SQL condition on `scope_role` and `scope` that holds for what a user may see: operators all, resellers what is
 * theirs and their companies', all others what is their own.
 */
export function visibleTo({ role, scope }: ConsoleScope): { readonly sql: string; readonly values: readonly string[] } {
  if (role === "operator") return { sql: "true", values: [] };
  const own = scope ?? "";
  if (role === "reseller") {
    return {
      sql: `(scope_role = 'reseller' and scope = ? or scope_role = 'company' and split_part(scope, '/', 1) = ?)`,
      values: [own, own],
    };
  }
  return { sql: "(scope_role = ? and scope = ?)", values: [role, own] };
}
