import { formatKeyFile } from "../../services/core/key-file.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { applyRoles } from "../../services/store/database-roles.ts";
import type { TestDatabase } from "./database.ts";

/**
 * A role for each service, with the rights of config/database-roles.json. Roles are the server's, and other tests may have
 * made them already: their passwords are set anew.
 * @returns by service the URL that it connects with
 */
export async function makeRoles({ db, url }: TestDatabase): Promise<Map<string, string>> {
  const made = new Map<string, string>();
  for (const { role } of await applyRoles(db)) {
    await db.raw(`alter role ${role} password 'known'`);
    const own = new URL(url);
    own.username = role;
    own.password = "known";
    made.set(role.replace("palomar_", "").replaceAll("_", "-"), own.href);
  }
  return made;
}

/** The keys of a service that is started with its own file. */
export function keyRingOfFile(whole: KeyRing, service: string): KeyRing {
  const read = KeyRing.parse(formatKeyFile(whole, service));
  if (!read.ok) throw new Error(read.error);
  return read.value;
}
