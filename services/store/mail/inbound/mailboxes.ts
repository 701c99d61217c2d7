import type { KeyRing } from "../../../core/key-ring.ts";
import { open, seal } from "../../../core/secret-box.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** `none` is for servers on this machine: nothing is encrypted. */
export const MAILBOX_SECURITY = ["tls", "starttls", "none"] as const;
export type MailboxSecurity = (typeof MAILBOX_SECURITY)[number];

/** A mailbox at a provider, whose messages are taken like those of the MX listener. */
export interface Mailbox {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly security: MailboxSecurity;
  readonly username: string;
  readonly folder: string;
  /** The folder that taken messages move to; null: they stay, flagged as seen. */
  readonly processed: string | null;
  /** The address that messages without a token count as sent to. */
  readonly feedback: string;
}

/** How polling a mailbox went. */
export interface MailboxState extends Mailbox {
  /** The last time that all went well. */
  readonly polledAt: Date | null;
  /** Of the last attempt; null when it went well. */
  readonly problem: string | null;
}

export interface LeasedMailbox extends Mailbox {
  readonly password: string;
}

const PASSWORD_PURPOSE = "mailbox-password";

/** Adds a mailbox, or replaces the one of that name. */
export async function saveMailbox(db: Db, keyRing: KeyRing, { password, ...mailbox }: LeasedMailbox): Promise<void> {
  await db("mailboxes")
    .insert({ ...mailbox, password_sealed: seal(keyRing, PASSWORD_PURPOSE, password) })
    .onConflict("name")
    .merge();
}

/** @returns false when there is none of that name */
export async function removeMailbox(db: Db, name: string): Promise<boolean> {
  return (await db("mailboxes").where({ name }).delete()) > 0;
}

export async function listMailboxes(db: Db): Promise<MailboxState[]> {
  return queryRows(db, `select ${COLUMNS}, polled_at as "polledAt", problem from mailboxes order by name`);
}

/** @returns a mailbox that is due and that nobody else polls until the lease ends, or undefined */
export async function leaseMailbox(
  db: Db,
  keyRing: KeyRing,
  { owner, seconds }: { readonly owner: string; readonly seconds: number },
): Promise<LeasedMailbox | undefined> {
  const [row] = await queryRows<SealedMailbox>(
    db,
    `update mailboxes set lease_owner = $1, lease_until = now() + make_interval(secs => $2)
     where name = (
       select name from mailboxes
       where next_poll_at <= now() and (lease_until is null or lease_until < now())
       order by next_poll_at limit 1 for update skip locked)
     returning ${COLUMNS}, password_sealed as sealed`,
    [owner, seconds],
  );
  return row && withPassword(row, keyRing);
}

/** The mailboxes whose last poll went well. */
export function listPolledMailboxes(db: Db): Promise<SealedMailbox[]> {
  return queryRows(
    db,
    `select ${COLUMNS}, password_sealed as sealed from mailboxes where polled_at is not null and problem is null`,
  );
}

/** Lets a mailbox be polled at once. @returns false while somebody polls it, who may have looked already */
export async function hastenMailbox(db: Db, name: string): Promise<boolean> {
  const [leased] = await queryRows(
    db,
    `with hastened as (
       update mailboxes set next_poll_at = least(next_poll_at, now())
       where name = $1 and (lease_until is null or lease_until < now()) returning name)
     select name from mailboxes where name = $2 and not exists (select 1 from hastened)`,
    [name, name],
  );
  return leased === undefined;
}

/** Gives a mailbox back. @param outcome.problem null when all went well */
export async function settleMailbox(
  db: Db,
  name: string,
  owner: string,
  outcome: { readonly problem: string | null; readonly nextInSeconds: number },
): Promise<void> {
  const { problem, nextInSeconds } = outcome;
  await queryRows(
    db,
    `update mailboxes set lease_owner = null, lease_until = null, problem = $1,
       polled_at = case when $2 then now() else polled_at end, next_poll_at = now() + make_interval(secs => $3)
     where name = $4 and lease_owner = $5`,
    [problem, problem === null, nextInSeconds, name, owner],
  );
}

/** Its password is to be unsealed yet. */
export type SealedMailbox = Mailbox & { readonly sealed: string };

/** @throws where the password was sealed under another secret */
export function withPassword({ sealed, ...mailbox }: SealedMailbox, keyRing: KeyRing): LeasedMailbox {
  const password = open(keyRing, PASSWORD_PURPOSE, sealed);
  if (!password.ok) throw new Error(`the password of mailbox ${mailbox.name} was sealed under another secret`);
  return { ...mailbox, password: password.value.toString("utf8") };
}

const COLUMNS = "name, host, port, security, username, folder, processed, feedback";
