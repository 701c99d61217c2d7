import type { KeyRing } from "../../core/key-ring.ts";
import { open, seal } from "../../core/secret-box.ts";
import { type Db, isUniqueViolation, queryRows, type Transaction } from "../../platform/postgres/db.ts";

export const USER_ROLES = ["operator", "reseller", "company", "instance"] as const;
export type UserRole = (typeof USER_ROLES)[number];

/** What a login looks like. */
export const LOGIN = /^[A-Za-z0-9._@-]{1,64}$/;

export interface User {
  readonly login: string;
  readonly role: UserRole;
  /** What the user is confined to: a reseller id, `reseller/crm_id`, or an instance's name; null for operators. */
  readonly scope: string | null;
}

/** A user as sign-in needs it. */
export interface StoredUser extends User {
  readonly id: number;
  readonly passwordHash: string;
  /** Whether signing in takes a one-time code. */
  readonly hasTotp: boolean;
}

/** A user as lists show it. */
export interface ListedUser extends User {
  readonly hasTotp: boolean;
  readonly createdAt: Date;
  /** When a session of the user was last used; null when there is none. */
  readonly seenAt: Date | null;
}

const TOTP_PURPOSE = "console-totp";

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

export async function findUser(db: Db, login: string): Promise<StoredUser | undefined> {
  const [row] = await queryRows<UserRow>(db, `select ${USER_COLUMNS} from users where login = $1`, [login]);
  return row && storedUserOf(row);
}

/** The users that a caller manages: all for operators (`undefined`), for a reseller those of its companies. By login. */
export async function listUsers(db: Db, companiesOf: string | undefined): Promise<ListedUser[]> {
  const rows = await queryRows<UserRow & { created_at: Date; seen_at: Date | null }>(
    db,
    `select ${USER_COLUMNS}, created_at, (select max(seen_at) from console_sessions where user_id = users.id) as seen_at
       from users
      where $1::text is null or role = 'company' and split_part(scope, '/', 1) = $2
      order by login`,
    [companiesOf ?? null, companiesOf ?? null],
  );
  return rows.map((row) => ({ ...listedUserOf(row), createdAt: row.created_at, seenAt: row.seen_at }));
}

/** Deletes a user with its sessions, unless it is the last operator. @returns what became of it */
export async function deleteUser(db: Db, login: string): Promise<"deleted" | "last-operator" | "unknown"> {
  return db.transaction(async (transaction) => {
    // One at a time: two operators that delete each other must not both succeed.
    const operators = await transaction("users").where({ role: "operator" }).orderBy("id").forUpdate().pluck("login");
    if (operators.length === 1 && operators[0] === login) return "last-operator";
    return (await transaction("users").where({ login }).delete()) > 0 ? "deleted" : "unknown";
  });
}

/** Sets a password and ends the user's sessions, all but one if wanted. @returns false when there is no such user */
export function setPassword(
  db: Db,
  login: string,
  passwordHash: string,
  keptSessionId: number | null = null,
): Promise<boolean> {
  return changeAccess(db, keptSessionId, (transaction) =>
    queryRows(
      transaction,
      "update users set password_hash = $1, password_changed_at = now() where login = $2 returning id",
      [passwordHash, login],
    ),
  );
}

/** Gives an account another password, takes its one-time codes away, and ends its sessions. @returns false when there is none */
export function resetUser(db: Db, login: string, passwordHash: string): Promise<boolean> {
  return changeAccess(db, null, (transaction) =>
    queryRows(
      transaction,
      `update users set password_hash = $1, password_changed_at = now(), totp_sealed = null, totp_pending_sealed = null,
                        recovery_hashes = '{}' where login = $2 returning id`,
      [passwordHash, login],
    ),
  );
}

/**
 * Changes how a user signs in, and ends the sessions but the kept one. Two statements: only the second sees a session that
 * was begun by the old way while the first waited for it.
 * @returns whether there was such a user
 */
function changeAccess(
  db: Db,
  keptSessionId: number | null,
  change: (transaction: Transaction) => Promise<{ readonly id: number }[]>,
): Promise<boolean> {
  return db.transaction(async (transaction) => {
    const [changed] = await change(transaction);
    if (!changed) return false;
    await queryRows(transaction, "delete from console_sessions where user_id = $1 and id is distinct from $2::bigint", [
      changed.id,
      keptSessionId,
    ]);
    return true;
  });
}

/** Keeps a new secret of one-time codes, which counts once a code of it has been given. */
export async function setPendingTotp(db: Db, keyRing: KeyRing, userId: number, totpSecret: string): Promise<void> {
  await db("users")
    .where({ id: userId })
    .update({ totp_pending_sealed: seal(keyRing, TOTP_PURPOSE, totpSecret) });
}

/** The secrets of a user's one-time codes, in base32: the one in force, and the one that waits for its first code. */
export async function findTotp(
  db: Db,
  keyRing: KeyRing,
  userId: number,
): Promise<{ readonly current: string | null; readonly pending: string | null }> {
  const row = await db("users").where({ id: userId }).first("totp_sealed", "totp_pending_sealed");
  return {
    current: openTotp(keyRing, row?.totp_sealed ?? null),
    pending: openTotp(keyRing, row?.totp_pending_sealed ?? null),
  };
}

/**
 * Puts the pending secret in force, and ends the user's other sessions, which were signed in without a code of it.
 * @param confirmed.step the time step of the code that proved it
 * @param confirmed.recoveryHashes of the codes that stand in for a lost device, once each
 * @param keptSessionId the session that stays; null: none
 */
export async function confirmTotp(
  db: Db,
  userId: number,
  { step, recoveryHashes }: { readonly step: number; readonly recoveryHashes: readonly Buffer[] },
  keptSessionId: number | null,
): Promise<void> {
  await changeAccess(db, keptSessionId, (transaction) =>
    queryRows(
      transaction,
      `update users set totp_sealed = totp_pending_sealed, totp_pending_sealed = null, totp_step = $1,
                        recovery_hashes = $2::bytea[] where id = $3 and totp_pending_sealed is not null returning id`,
      [step, recoveryHashes, userId],
    ),
  );
}

/** Takes a user's one-time codes away, and ends its sessions, all but one if wanted. */
export async function removeTotp(db: Db, userId: number, keptSessionId: number | null): Promise<void> {
  await changeAccess(db, keptSessionId, (transaction) =>
    queryRows(
      transaction,
      `update users set totp_sealed = null, totp_pending_sealed = null, recovery_hashes = '{}' where id = $1 returning id`,
      [userId],
    ),
  );
}

/** Uses up a time step. @returns false when it, or a later one, was used before (RFC 6238 §5.2) */
export async function takeTotpStep(db: Db, userId: number, step: number): Promise<boolean> {
  const rows = await queryRows(db, "update users set totp_step = $1 where id = $2 and totp_step < $3 returning id", [
    step,
    userId,
    step,
  ]);
  return rows.length > 0;
}

/** Uses up a recovery code. @returns false when the user has none of this digest */
export async function takeRecoveryCode(db: Db, userId: number, hash: Buffer): Promise<boolean> {
  const rows = await queryRows(
    db,
    `update users set recovery_hashes = array_remove(recovery_hashes, $1::bytea)
      where id = $2 and $3::bytea = any(recovery_hashes) returning id`,
    [hash, userId, hash],
  );
  return rows.length > 0;
}

/** Whether what a user would be confined to exists: a reseller id, `reseller/crm_id`, or an instance's name. */
export async function scopeExists(db: Db, role: UserRole, scope: string): Promise<boolean> {
  switch (role) {
    case "operator":
      return false;
    case "reseller":
      return (await db("resellers").where({ id: scope }).first("id")) !== undefined;
    case "company": {
      const [resellerId, crmId, ...more] = scope.split("/");
      if (crmId === undefined || more.length > 0) return false;
      return (await db("companies").where({ reseller_id: resellerId, crm_id: crmId }).first("id")) !== undefined;
    }
    case "instance":
      return (await db("instances").where({ name: scope }).first("id")) !== undefined;
  }
}

const USER_COLUMNS = "users.id, login, role, scope, password_hash, totp_sealed is not null as has_totp";

export interface UserRow {
  readonly id: number;
  readonly login: string;
  readonly role: UserRole;
  readonly scope: string | null;
  readonly password_hash: string;
  readonly has_totp: boolean;
}

function listedUserOf({ login, role, scope, has_totp }: UserRow): User & { readonly hasTotp: boolean } {
  return { login, role, scope, hasTotp: has_totp };
}

function storedUserOf(row: UserRow): StoredUser {
  return { ...listedUserOf(row), id: row.id, passwordHash: row.password_hash };
}

function openTotp(keyRing: KeyRing, sealed: string | null): string | null {
  if (sealed === null) return null;
  const opened = open(keyRing, TOTP_PURPOSE, sealed);
  if (!opened.ok) throw new Error(`a stored one-time code secret is ${opened.error}: was PALOMAR_SECRET changed?`);
  return opened.value.toString("utf8");
}
