import type { Phrase } from "../../../core/mail/bounce/phrases.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";

/** What an operator says that words mean. */
export interface OwnWording extends Phrase {
  readonly id: number;
  readonly createdAt: Date;
  readonly createdBy: string;
}

/** Newest first. */
export async function listWordings(db: Db): Promise<OwnWording[]> {
  const rows = await db("bounce_wordings")
    .orderBy("id", "desc")
    .select("id", "words", "reason", "command", "created_at as createdAt", "created_by as createdBy");
  return rows.map(({ command, ...wording }) => ({ ...wording, at: command ?? undefined }));
}

/** @returns undefined where the words are known already */
export async function addWording(
  db: Db,
  { words, reason, at }: Phrase,
  createdBy: string,
): Promise<number | undefined> {
  const [row] = await db("bounce_wordings")
    .insert({ words, reason, command: at ?? null, created_by: createdBy })
    .onConflict("words")
    .ignore()
    .returning("id");
  return row?.id;
}

/** @returns false when there is none */
export async function removeWording(db: Db, id: number): Promise<boolean> {
  return (await db("bounce_wordings").where({ id }).delete()) > 0;
}

/** Messages that came back, newest first, a page of them below an id. */
export async function readRecentInbound(
  db: Db,
  page: { readonly before: number | undefined; readonly limit: number },
): Promise<{ readonly id: number; readonly octets: Buffer }[]> {
  return queryRows(
    db,
    "select id, octets from inbound_messages where id < coalesce($1, 9223372036854775807) order by id desc limit $2",
    [page.before ?? null, page.limit],
  );
}

/** Words that nobody understood, of the newest messages that have any. */
export async function readUnknownWords(
  db: Db,
  limit: number,
): Promise<{ readonly words: string; readonly receivedAt: Date }[]> {
  return queryRows(
    db,
    `select words, received_at as "receivedAt"
       from (select received_at, finding from inbound_messages where finding -> 'unknown' is not null
              order by id desc limit $1) newest, jsonb_array_elements_text(finding -> 'unknown') words
      order by received_at desc`,
    [limit],
  );
}

/** The last words of servers that refused a recipient for good, of the newest deliveries. */
export async function readRefusals(
  db: Db,
  limit: number,
): Promise<{ readonly words: string; readonly receivedAt: Date }[]> {
  return queryRows(
    db,
    `select reply as words, finished_at as "receivedAt" from deliveries
      where id > (select coalesce(max(id), 0) from deliveries where ${onPresent(db)}) - $1 and ${onPresent(db)} and state = 'refused' and reply is not null and finished_at is not null
      order by id desc limit $2`,
    [NEWEST_DELIVERIES, limit],
  );
}

/** Refusals are looked for among so many: what delivers well has few, and they have no index of their own. */
const NEWEST_DELIVERIES = 500_000;
