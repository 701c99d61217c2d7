import type { IncomingHttpHeaders } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type DomainName, formatRelative, nameFromStoredText } from "../core/dns/name.ts";
import type { ResourceRecord } from "../core/dns/record.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import { decodeSoaRdata } from "../core/dns/soa.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result } from "../core/result.ts";
import type { ZonePreview } from "../operations/dns/zone-preview.ts";
import type { RawReply, Sharer } from "../platform/http/endpoint.ts";
import { tellWarnings } from "../platform/http/problem.ts";
import type { StreamFor } from "../platform/http/stream-places.ts";
import { streamedReply } from "../platform/http/streamed-reply.ts";
import type { HistoryEntry, JournalFollower } from "../store/dns/zone-history.ts";
import { showRecord } from "./record-json.ts";

/** Records in one piece of text: few enough that nobody waits for their making. */
const RECORDS_A_PIECE = 500;

type Difference = Pick<HistoryEntry, "deleted" | "added" | "followers">;

/** A page of a zone's history, sent piece by piece: a change of a large zone is never held as text. */
export function replyHistory(
  entries: readonly HistoryEntry[],
  apex: DomainName,
  sharer: Sharer,
): Promise<Result<RawReply, Refusal>> {
  return replyJson(() => historyPieces(entries, apex), sharer);
}

/** A preview, sent piece by piece as well. */
export function replyPreview(
  preview: ZonePreview,
  sharer: Sharer,
  headers: IncomingHttpHeaders,
): Promise<Result<RawReply, Refusal>> {
  return replyJson(() => previewPieces(preview, headers), sharer);
}

async function replyJson(makePieces: () => Iterable<string>, sharer: Sharer): Promise<Result<RawReply, Refusal>> {
  const makeInTurns = () => oneATurn(makePieces());
  // The difference is in memory, and holds a place of large work: others would wait with it.
  const whose: StreamFor = { sharer, holds: "memory" };
  const reply = await streamedReply("application/json", makeInTurns, whose, { patienceMs: 0 });
  // There is always a piece.
  return reply.ok ? ok(reply.value as RawReply) : reply;
}

/** A client that reads as fast as we write would otherwise have all turns. */
async function* oneATurn(pieces: Iterable<string>): AsyncGenerator<string> {
  for (const piece of pieces) {
    yield piece;
    await nextTurn();
  }
}

function* historyPieces(entries: readonly HistoryEntry[], apex: DomainName): Generator<string, void> {
  let separator = '{"history":[';
  for (const entry of entries) {
    const { serial, at, actor, signing } = entry;
    yield `${separator}{"serial":${serial},"timestamp":"${at.toISOString()}","actor":${JSON.stringify(actor)}`;
    yield* memberPieces("deleted", entry, apex);
    yield* memberPieces("added", entry, apex);
    yield `${followersMember(entry, apex)}${signing ? `,"signing":"${signing}"` : ""}}`;
    separator = ",";
  }
  yield separator === "," ? "]}" : `${separator}]}`;
}

function* previewPieces(
  { zone, atSerial, entry, warnings }: ZonePreview,
  headers: IncomingHttpHeaders,
): Generator<string, void> {
  const difference = entry ?? { deleted: [], added: [], followers: null };
  yield `{"at_serial":${atSerial},"serial":${zone.soa.serial}`;
  yield* memberPieces("added", difference, zone.apex);
  yield* memberPieces("deleted", difference, zone.apex);
  yield followersMember(difference, zone.apex);
  yield `,"warnings":${JSON.stringify(tellWarnings(warnings, headers))}}`;
}

/** Aliases and pools that became others, where some did. */
function followersMember({ followers }: Difference, apex: DomainName): string {
  if (!followers) return "";
  const show = ({ owner, kind, definition }: JournalFollower) => ({
    ...{ name: formatRelative(nameFromStoredText(owner), apex), kind },
    ...definition,
  });
  return `,"followers":${JSON.stringify({ deleted: followers.deleted.map(show), added: followers.added.map(show) })}`;
}

/** One side of a difference as a member of an object, with the comma before it. */
function* memberPieces(side: "deleted" | "added", difference: Difference, apex: DomainName): Generator<string, void> {
  const showsSoa = differsBeyondSerial(firstOf(difference.deleted), firstOf(difference.added));
  yield `,"${side}":[`;
  let separator = "";
  let piece: string[] = [];
  for (const record of difference[side]) {
    if (record.type === TYPE.SOA && !showsSoa) continue;
    piece.push(JSON.stringify(showRecord(record, apex)));
    if (piece.length < RECORDS_A_PIECE) continue;
    yield separator + piece.join(",");
    separator = ",";
    piece = [];
  }
  yield piece.length > 0 ? `${separator}${piece.join(",")}]` : "]";
}

/** Every change alters the SOA's serial; what more it altered is worth showing. */
function differsBeyondSerial(before: ResourceRecord | undefined, after: ResourceRecord | undefined): boolean {
  if (!before || !after) return true;
  const soas = [before, after].map(({ ttl, rdata }) => {
    const { mname, rname, refresh, retry, expire, minimum } = decodeSoaRdata(rdata);
    return JSON.stringify([ttl, mname.key, rname.key, refresh, retry, expire, minimum]);
  });
  return soas[0] !== soas[1];
}

function firstOf<T>(items: Iterable<T>): T | undefined {
  for (const item of items) return item;
  return undefined;
}
