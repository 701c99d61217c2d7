import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { RawReply, Sharer } from "../platform/http/endpoint.ts";
import { streamedReply } from "../platform/http/streamed-reply.ts";
import type { Db, Transaction } from "../platform/postgres/db.ts";
import { zoneDoesNotExist } from "../store/dns/zones.ts";
import { streamInSnapshot } from "../store/transactions.ts";

/** Whom a zone is shown to, and what they called it. */
interface ZoneReader {
  readonly sharer: Sharer;
  readonly domain: string;
}

/**
 * A zone as it is at one moment, read while its client reads.
 * @param write writes nothing where there is no such zone
 */
export async function replyFromZone(
  db: Db,
  contentType: string,
  { sharer, domain }: ZoneReader,
  write: (snapshot: Transaction) => AsyncGenerator<string>,
): Promise<Result<RawReply, Refusal>> {
  const reply = await streamedReply(contentType, () => streamInSnapshot(db, write), { sharer, holds: "connection" });
  if (!reply.ok) return reply;
  return reply.value ? ok(reply.value) : refuse(zoneDoesNotExist(domain));
}
