import { type Db, isRefused, wordsOfServer } from "../platform/postgres/db.ts";
import { type AppliedRole, applyRoles } from "../store/database-roles.ts";
import { CommandRefused } from "./command-errors.ts";

/**
 * Makes the services' roles, or gives them their rights anew.
 * @throws CommandRefused with the server's words, and who may do it
 */
export async function makeRoles(db: Db, chosen?: ReadonlyMap<string, string>): Promise<AppliedRole[]> {
  try {
    return await applyRoles(db, chosen);
  } catch (error) {
    if (!isRefused(error)) throw error;
    throw new CommandRefused(
      `the roles are not made: ${wordsOfServer(error as Error)}. It takes the owner of the tables, with CREATEROLE and, ` +
        "for a role that somebody else has made, ADMIN OPTION on it (grant <role> to <owner> with admin option)",
    );
  }
}
