import { type Db, queryRows, StatementValues } from "../../platform/postgres/db.ts";
import { deleteUnlocked } from "../transactions.ts";
import { type ConsoleScope, visibleTo } from "./console-scope.ts";

/** A change made through the console. */
export interface AuditEntry {
  readonly actor: string;
  /** Where the request came from. */
  readonly address: string;
  /** What was done, such as `acl.add`. */
  readonly action: string;
  /** To what. */
  readonly object: string;
  /** What else is worth knowing; never a secret. */
  readonly detail: object;
  /** Whose it is: who may read of it. */
  readonly about: ConsoleScope;
}

export interface ListedAuditEntry extends Omit<AuditEntry, "about"> {
  readonly id: number;
  readonly at: Date;
  /** `begun`: it is not known how it ended. */
  readonly outcome: "begun" | "done";
}

export interface AuditQuery {
  /** Only entries older than this id. */
  readonly before?: number | undefined;
  readonly actor?: string | undefined;
  readonly limit: number;
}

/** Writes down that a change is about to be made. @returns the entry's id */
export async function beginAudit(db: Db, entry: AuditEntry, now: Date): Promise<number> {
  const [row] = await db("console_audit").insert(toColumns(entry, now)).returning("id");
  return row.id;
}

/** Writes down a change that is made in the same transaction, by no request of the console's. */
export async function recordAudit(db: Db, entry: AuditEntry, now: Date): Promise<void> {
  await db("console_audit").insert({ ...toColumns(entry, now), outcome: "done" });
}

function toColumns(entry: AuditEntry, now: Date) {
  return {
    at: now,
    actor: entry.actor,
    address: entry.address,
    action: entry.action,
    object: entry.object,
    detail: JSON.stringify(entry.detail),
    scope_role: entry.about.role,
    scope: entry.about.scope,
  };
}

/** The change was made. */
export async function settleAudit(db: Db, id: number): Promise<void> {
  await db("console_audit").where({ id }).update({ outcome: "done" });
}

/** The change was refused: there is nothing to tell. */
export async function withdrawAudit(db: Db, id: number): Promise<void> {
  await db("console_audit").where({ id }).delete();
}

/** What a user may read, newest first. */
export async function listAudit(db: Db, reader: ConsoleScope, query: AuditQuery): Promise<ListedAuditEntry[]> {
  const values = new StatementValues(query.before ?? null, query.actor ?? null, query.limit);
  return queryRows<ListedAuditEntry>(
    db,
    `select id, at, actor, address, action, object, detail, outcome from console_audit
      where ${visibleTo(reader, values)} and ($1::bigint is null or id < $1) and ($2::text is null or actor = $2)
      order by id desc limit $3`,
    values.all,
  );
}

/** Where somebody signed in from since then. */
export async function listSignInAddresses(db: Db, login: string, since: Date): Promise<string[]> {
  const entries = db("console_audit").where({ actor: login, action: "session.begin", outcome: "done" });
  return entries.where("at", ">", since).distinct("address").pluck("address");
}

/** Removes what is older; where several processes do so at once, each takes what no other has. */
export async function purgeAudit(db: Db, before: Date): Promise<void> {
  await deleteUnlocked(db, { table: "console_audit", key: "id" }, "at < $1", [before]);
}
