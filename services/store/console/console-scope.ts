import type { StatementValues } from "../../platform/postgres/db.ts";
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
export function visibleTo({ role, scope }: ConsoleScope, values: StatementValues): string {
  if (role === "operator") return "true";
  const own = values.add(scope ?? "");
  if (role === "reseller") {
    return `(scope_role = 'reseller' and scope = ${own} or scope_role = 'company' and split_part(scope, '/', 1) = ${own})`;
  }
  return `(scope_role = ${values.add(role)} and scope = ${own})`;
}
