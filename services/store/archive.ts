import type { Db } from "../platform/db.ts";

/** What is kept of a batch: how much, and when the last message left. */
export interface ArchiveSummary {
  readonly messages: number;
  readonly octets: number;
  readonly lastAt: Date | null;
}

export async function summariseArchive(db: Db, eeid: string): Promise<ArchiveSummary> {
  const row = await db("archived_messages")
    .where({ eeid })
    .first(
      db.raw("count(*)::int as messages"),
      db.raw("coalesce(sum(length(octets)), 0)::bigint as octets"),
      db.raw("max(sent_at) as last_at"),
    );
  return { messages: row.messages, octets: row.octets, lastAt: row.last_at };
}

/** The exact octets that a recipient of a batch got, the latest when there are several; undefined when there are none. */
export async function readArchivedMessage(db: Db, eeid: string, recipientKey: string): Promise<Buffer | undefined> {
  const row = await db("archived_messages")
    .where({ eeid, recipient_key: recipientKey })
    .orderBy("delivery_id", "desc")
    .first("octets");
  return row?.octets;
}

/** Whether an address is among those that a batch goes to, sent already or not. @param recipients spellings of it */
export async function isRecipient(db: Db, eeid: string, recipients: readonly string[]): Promise<boolean> {
  const row = await db("deliveries")
    .join("partitions", "partitions.id", "deliveries.partition_id")
    .where({ eeid })
    .whereIn("recipient", [...recipients])
    .first("deliveries.id");
  return row !== undefined;
}
