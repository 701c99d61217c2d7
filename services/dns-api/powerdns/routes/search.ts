import { z } from "zod";
import { typeMnemonic } from "../../../core/dns/rr-types.ts";
import { mayRead } from "../../../core/dns/token.ts";
import { type Refusal, unacceptable } from "../../../core/refusal.ts";
import { ok, type Result, refuse } from "../../../core/result.ts";
import { RecordSearchTurns } from "../../../operations/dns/record-search-turns.ts";
import type { StreamFor } from "../../../platform/http/stream-places.ts";
import { jsonArray } from "../../../platform/http/streamed-json.ts";
import { streamedReply } from "../../../platform/http/streamed-reply.ts";
import { type Db, escapeLike } from "../../../platform/postgres/db.ts";
import type { DnsCaller } from "../../../store/dns/dns-callers.ts";
import { type PowerdnsZone, readComments } from "../../../store/dns/powerdns-zones.ts";
import { type FoundRecords, searchRecords } from "../../../store/dns/record-search.ts";
import { type DnsEndpoint, dnsEndpoint, type MakeEndpoints } from "../../context.ts";
import { canonical, contentOf, soaOfZone, zoneId } from "../zone-json.ts";
import { zonePages } from "../zone-pages.ts";

/** In so many zones records are searched: each is a query. */
const MOST_SEARCHED = 500;
const MOST_FOUND = 1_000;
/** Records of all zones together that a pattern is compared with. */
const MOST_LOOKED_AT = 200_000;
/** Characters of names and contents that are shown: a thousand records may have 256 million. */
const MOST_SHOWN = 4 * 2 ** 20;
/** A search that takes longer is given up. */
const LONGEST_MS = 10_000;
/** Characters of all names and contents that are compared in vain: some tenths of a second. */
const MOST_STEPS = 50_000_000;

const KINDS = ["zone", "record", "comment"] as const;
type Kind = (typeof KINDS)[number];

const found = z.object({
  object_type: z.enum(KINDS),
  ...{ name: z.string(), zone_id: z.string(), zone: z.string().optional(), type: z.string().optional() },
  ...{ content: z.string().optional(), ttl: z.int().optional(), disabled: z.boolean().optional() },
});
type Found = z.input<typeof found>;

interface Search {
  readonly kinds: readonly Kind[];
  /** Where zones alone are wanted: what their names are like, and how many are enough. */
  readonly ofZones: { readonly like: string; readonly most: number } | undefined;
  /** Texts that each match has, the longest first. */
  readonly pieces: readonly string[];
  readonly isMatch: (text: string) => boolean;
  readonly budget: Budget;
}

/** What a search may still do, in all of its zones. */
interface Budget {
  records: number;
  /** Comparisons of characters. */
  steps: number;
  /** As of performance.now(). */
  readonly endsAtMs: number;
}

/** What names, contents and remarks are found by. */
export const makePowerdnsSearchEndpoints: MakeEndpoints = ({ db }) => searchEndpoints(db, new RecordSearchTurns());

const searchEndpoints = (db: Db, turns: RecordSearchTurns): readonly DnsEndpoint[] => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/search-data",
    summary: "Find zones, records and comments: * stands for any text, ? for one character",
    fields: z.object({
      q: z.string().min(1).max(1_000),
      max: z.int().min(1).max(MOST_FOUND).default(100),
      object_type: z.enum(["all", ...KINDS]).default("all"),
    }),
    reply: z.array(found),
    act: ({ caller, sharer, fields }) =>
      turns.run(sharer, async () => {
        const found = await gather(db, caller, fields);
        if (!found.ok) return found;
        const makePieces = () => jsonArray([found.value], (one) => one);
        // All is found by now, and others would wait with it.
        const whose: StreamFor = { sharer, holds: "memory" };
        const reply = await streamedReply("application/json", makePieces, whose, { patienceMs: 0 });
        return reply.ok ? ok(reply.value ?? []) : reply;
      }),
  }),
];

/** What is found, each by itself. Refuses what would be too much to look through or to show. */
async function gather(
  db: Db,
  caller: DnsCaller,
  { q, max, object_type: wanted }: { readonly q: string; readonly max: number; readonly object_type: Kind | "all" },
): Promise<Result<readonly Found[], Refusal>> {
  const kinds = wanted === "all" ? KINDS : [wanted];
  const ofZones = wanted === "zone" ? { like: likeOf(q), most: max } : undefined;
  const budget = { records: MOST_LOOKED_AT, steps: MOST_STEPS, endsAtMs: performance.now() + LONGEST_MS };
  const isMatch = matcherOf(q, budget);
  const results: Found[] = [];
  let shown = 0;
  for await (const one of findAll(db, caller, { kinds, ofZones, pieces: piecesOf(q), isMatch, budget })) {
    if (one === "too-much") return refuse(unacceptable("pdns-search", { most: MOST_SEARCHED }));
    shown += one.name.length + (one.content?.length ?? 0);
    if (shown > MOST_SHOWN) return refuse(unacceptable("pdns-search-long", { most: MOST_SHOWN }));
    results.push(one);
    if (results.length === max) break;
  }
  return ok(results);
}

async function* findAll(db: Db, caller: DnsCaller, search: Search): AsyncGenerator<Found | "too-much"> {
  let searched = 0;
  const { budget, ofZones } = search;
  for await (const page of zonePages(db, caller, { limit: ofZones?.most ?? MOST_SEARCHED, like: ofZones?.like })) {
    for (const zone of page) {
      const name = canonical(zone.zone.apex);
      if (search.kinds.includes("zone") && search.isMatch(name)) {
        yield { object_type: "zone", name, zone_id: zoneId(name) };
      }
      if (!search.kinds.includes("record") && !search.kinds.includes("comment")) continue;
      searched += 1;
      yield* findInZone(db, caller, zone, search);
      if (searched > MOST_SEARCHED || isSpent(budget)) return yield "too-much";
    }
  }
}

async function* findInZone(
  db: Db,
  { token }: DnsCaller,
  found: PowerdnsZone,
  { kinds, pieces, isMatch, budget }: Search,
): AsyncGenerator<Found> {
  const zone = canonical(found.zone.apex);
  const place = { zone, zone_id: zoneId(zone) };
  // What the zone's own name has says nothing of its records.
  const [text = ""] = pieces.filter((piece) => !zone.includes(piece.toLowerCase()));
  for (let page: FoundRecords | undefined; kinds.includes("record"); ) {
    const isFirst: boolean = page === undefined;
    page = await searchRecords(db, found.zone, {
      ...{ text, valueOf: contentOf, limit: MOST_FOUND, after: page?.next, endsAtMs: budget.endsAtMs },
    });
    budget.records -= page.records.length;
    for (const record of isFirst ? [soaOfZone(found), ...page.records] : page.records) {
      if (!mayRead(token, record)) continue;
      const [name, content] = [canonical(record.owner), contentOf(record)];
      if (!isMatch(name) && !isMatch(content)) continue;
      const shown = { name, type: typeMnemonic(record.type), content, ttl: record.ttl, disabled: false };
      yield { object_type: "record", ...shown, ...place };
    }
    if (!page.next || isSpent(budget)) break;
  }
  if (!kinds.includes("comment")) return;
  for (const { owner, type, content } of await readComments(db, found.zone.id)) {
    if (!isMatch(content) || !mayRead(token, { owner, type })) continue;
    yield { object_type: "comment", name: canonical(owner), type: typeMnemonic(type), content, ...place };
  }
}

function isSpent({ records, steps, endsAtMs }: Budget): boolean {
  return records <= 0 || steps <= 0 || performance.now() >= endsAtMs;
}

/** Whether a whole text is as a pattern has it, case and a final dot aside. */
function matcherOf(pattern: string, budget: Budget): (text: string) => boolean {
  const wanted = folded(pattern);
  return (text) => isWholeMatch(wanted, folded(text), budget);
}

/** The pattern as LIKE has it, for names as they are stored. */
function likeOf(pattern: string): string {
  return escapeLike(folded(pattern)).replaceAll("*", "%").replaceAll("?", "_");
}

function folded(text: string): string {
  return text.replace(/\.$/, "").toLowerCase();
}

/**
 * Goes back to the last asterisk alone, so that no pattern takes longer than the product of both lengths. Nothing is found
 * once the budget is spent.
 */
function isWholeMatch(pattern: string, text: string, budget: Budget): boolean {
  let [at, place, asterisk, resumed] = [0, 0, -1, 0];
  while (place < text.length) {
    if (pattern[at] === "*") {
      asterisk = at;
      resumed = place;
      at += 1;
    } else if (pattern[at] === "?" || pattern[at] === text[place]) {
      at += 1;
      place += 1;
    } else if (asterisk >= 0 && budget.steps > 0) {
      budget.steps -= place - resumed + 1;
      resumed += 1;
      place = resumed;
      at = asterisk + 1;
    } else {
      return false;
    }
  }
  while (pattern[at] === "*") at += 1;
  return at === pattern.length;
}

/** What is found has each of these, the longest first: labels and words of the pattern, for a name is shown in part. */
function piecesOf(pattern: string): string[] {
  return pattern
    .split(/[*?.]/)
    .filter((piece) => piece !== "")
    .sort((a, b) => b.length - a.length);
}
