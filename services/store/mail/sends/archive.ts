import type { EmailAddress } from "../../../core/mail/address.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** What is kept of a batch: how much, and when the last message left. */
export interface ArchiveSummary {
  readonly messages: number;
  readonly octets: number;
  readonly lastAt: Date | null;
}

export async function summariseArchive(db: Db, instanceId: number, eeid: string): Promise<ArchiveSummary> {
  const row = await db("archived_messages")
    .where({ instance_id: instanceId, eeid })
    .first(
      db.raw("count(*)::int as messages"),
      db.raw("coalesce(sum(length(octets)), 0)::bigint as octets"),
      db.raw("max(sent_at) as last_at"),
    );
  return { messages: row.messages, octets: row.octets, lastAt: row.last_at };
}

/** The exact octets that a recipient of a batch got, the latest when there are several; undefined when there are none. */
export async function readArchivedMessage(
  db: Db,
  batch: { readonly instanceId: number; readonly eeid: string },
  recipientKey: string,
): Promise<Buffer | undefined> {
  const row = await db("archived_messages")
    .where({ instance_id: batch.instanceId, eeid: batch.eeid, recipient_key: recipientKey })
    .orderBy("delivery_id", "desc")
    .first("octets");
  return row?.octets;
}

/** What of a batch to an address is kept: nothing, what leaves yet, or there was something and is no more. */
export type Archiving = "never" | "awaited" | "over";

/**
 * What becomes of the messages of a batch to an address of which nothing is kept; sends that join a batch decide each for itself.
 * @returns undefined for an address that the batch does not go to
 */
export async function findArchiving(
  db: Db,
  batch: { readonly instanceId: number; readonly eeid: string },
  address: EmailAddress,
): Promise<Archiving | undefined> {
  const [row] = await queryRows<{ archive: boolean | null; awaited: boolean | null }>(
    db,
    `select bool_or(messages.archive) as archive, bool_or(messages.archive and deliveries.state = 'queued') as awaited
     from partitions
       join messages on messages.instance_id = partitions.instance_id and messages.id = partitions.message_id
       join deliveries on deliveries.instance_id = partitions.instance_id and deliveries.partition_id = partitions.id
     where partitions.instance_id = $4 and partitions.eeid = $1 and partitions.destination = $2
       and split_part(deliveries.recipient, '@', 1) = $3`,
    [batch.eeid, address.asciiDomain, address.local, batch.instanceId],
  );
  const { archive, awaited } = row!;
  if (archive === null) return undefined;
  if (!archive) return "never";
  return awaited ? "awaited" : "over";
}
