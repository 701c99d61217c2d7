import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { deleteUnlocked } from "../transactions.ts";
import type { StoredUser, User, UserRole } from "./users.ts";

/** How long a session lasts: unused, and at all; seconds. */
export interface SessionLifetime {
  readonly idleSeconds: number;
  readonly mostSeconds: number;
}

/** Who is signed in by a session. */
export interface SignedInUser extends User {
  readonly userId: number;
  readonly sessionId: number;
  readonly hasTotp: boolean;
}

/** A session as its user sees it. */
export interface ListedSession {
  readonly id: number;
  readonly createdAt: Date;
  readonly seenAt: Date;
  readonly address: string;
  readonly agent: string;
}

/** A session's use is noted once in so many seconds, not on every request. */
const NOTE_SECONDS = 60;

/**
 * Begins a session of a user as it was when it was judged, and waits for a change of it that is under way.
 * @returns false when the user has another password or other one-time codes by now, or is gone
 */
export async function addSession(
  db: Db,
  { id, passwordHash, hasTotp }: StoredUser,
  session: { readonly tokenHash: Buffer; readonly address: string; readonly agent: string; readonly now: Date },
): Promise<boolean> {
  const rows = await queryRows(
    db,
    `insert into console_sessions (token_hash, user_id, created_at, seen_at, address, agent)
     select $1::bytea, u.id, $2::timestamptz, $3::timestamptz, $4::text, $5::text from users u
      where u.id = $6 and u.password_hash = $7 and (u.totp_sealed is not null) = $8 for share
     returning id`,
    [session.tokenHash, session.now, session.now, session.address, session.agent, id, passwordHash, hasTotp],
  );
  return rows.length > 0;
}

/** The user of a session that has not run out, and notes that it is in use. */
export async function findSession(
  db: Db,
  tokenHash: Buffer,
  lifetime: SessionLifetime,
  now: Date,
): Promise<SignedInUser | undefined> {
  const at = now.toISOString();
  const [row] = await queryRows<SessionRow>(
    db,
    `with found as (
       select s.id, s.seen_at, u.id as user_id, u.login, u.role, u.scope, u.totp_sealed is not null as has_totp
         from console_sessions s join users u on u.id = s.user_id
        where s.token_hash = $1 and s.seen_at > $2::timestamptz - make_interval(secs => $3)
          and s.created_at > $4::timestamptz - make_interval(secs => $5)
     ), noted as (
       update console_sessions s set seen_at = $6::timestamptz from found
        where s.id = found.id and found.seen_at <= $7::timestamptz - make_interval(secs => $8)
     )
     select * from found`,
    [tokenHash, at, lifetime.idleSeconds, at, lifetime.mostSeconds, at, at, NOTE_SECONDS],
  );
  return (
    row && {
      userId: row.user_id,
      sessionId: row.id,
      login: row.login,
      role: row.role,
      scope: row.scope,
      hasTotp: row.has_totp,
    }
  );
}

/** A user's sessions, the latest first. */
export async function listSessions(db: Db, userId: number): Promise<ListedSession[]> {
  const rows = await db("console_sessions")
    .where({ user_id: userId })
    .orderBy("id", "desc")
    .select("id", "created_at", "seen_at", "address", "agent");
  return rows.map(({ id, created_at, seen_at, address, agent }) => ({
    id,
    createdAt: created_at,
    seenAt: seen_at,
    address,
    agent,
  }));
}

/** Ends a session of a user. @returns false when the user has no such session */
export async function endSession(db: Db, userId: number, sessionId: number): Promise<boolean> {
  return (await db("console_sessions").where({ id: sessionId, user_id: userId }).delete()) > 0;
}

/** Ends the session of a token, if there is one. */
export async function endSessionOf(db: Db, tokenHash: Buffer): Promise<void> {
  await db("console_sessions").where({ token_hash: tokenHash }).delete();
}

/** Removes the sessions that have run out; what somebody else is about to change waits for the next time. */
export async function purgeSessions(db: Db, lifetime: SessionLifetime, now: Date): Promise<void> {
  const at = now.toISOString();
  await deleteUnlocked(
    db,
    { table: "console_sessions", key: "id" },
    "seen_at <= $1::timestamptz - make_interval(secs => $2) or created_at <= $1::timestamptz - make_interval(secs => $3)",
    [at, lifetime.idleSeconds, lifetime.mostSeconds],
  );
}

interface SessionRow {
  readonly id: number;
  readonly user_id: number;
  readonly login: string;
  readonly role: UserRole;
  readonly scope: string | null;
  readonly has_totp: boolean;
}
