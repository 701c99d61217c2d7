/**
 * `npm run bench:explorer -- [deliveries] [--days n] [--keep folder]`: searches for messages among so many deliveries, with
 * three attempts each (10,000,000 with 30,000,000 unless given; some 10 GB), in a PostgreSQL of its own: a page of each kind
 * of search, the pages behind it, and the story of a message. With `--keep` the data is laid out once and stays.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type MessageSearch, planSearch, searchMessages } from "../../services/operations/mail/message-search.ts";
import { readMessageStory } from "../../services/operations/mail/message-story.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { layOutExplorerData } from "./explorer-data.ts";
import { percentile } from "./percentile.ts";

const { positionals, values: options } = parseArgs({
  allowPositionals: true,
  options: { days: { type: "string", default: "28" }, keep: { type: "string" } },
});
const DELIVERIES = Number(positionals[0] ?? 10_000_000) || 10_000_000;
const ROUNDS = 20;

const folder = options.keep ?? mkdtempSync(join(tmpdir(), "palomar-bench-"));
mkdirSync(folder, { recursive: true });
const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("bench", "error") });
const db = openDb(postgres.url, { connections: 4, name: "bench" });
try {
  await migrate(db);
  const [known] = await queryRows<{ deliveries: number }>(db, "select count(*) as deliveries from instances");
  if (known!.deliveries === 0) await layOutExplorerData(db, { deliveries: DELIVERIES, days: Number(options.days) });
  await measure(db);
} finally {
  await db.destroy();
  await postgres.release();
  if (options.keep === undefined) rmSync(folder, { recursive: true, force: true });
}

/** Searches, each varied by the round. */
function searches(round: number): Readonly<Record<string, MessageSearch>> {
  const n = Math.floor((DELIVERIES / (ROUNDS + 1)) * (round + 1));
  const contact = (n % (DELIVERIES / 10)) + 1;
  const day = new Date(Date.now() - (2 + round) * 86_400_000);
  const period = { from: day, until: new Date(day.getTime() + 3_600_000) };
  return {
    everything: {},
    "a period": period,
    "a recipient": { recipient: `r${contact}@large.example.org` },
    "a large domain": { domain: "large.example.org" },
    "a small domain": { domain: `d${(round * 7919) % 20000}.example.net` },
    "a sender": { sender: "ana@sender.example.org" },
    "a number": { id: String(n) },
    "common words of the subject": { subject: "your invoice" },
    "rare words of the subject": { subject: "unusual" },
    "a campaign": { campaign: round + 1 },
    "what bounced": { state: "bounced" },
    "what is deferred": { state: "deferred" },
    "what was cancelled": { state: "cancelled" },
    "a common reason": { reason: "userunknown" },
    "a rare reason": { reason: "virusdetected" },
    "common words of replies": { reply: "greylisted" },
    "rare words of replies": { reply: "exceptional trouble" },
    "words of thousands of replies": { reply: "words of" },
    "an id in replies": { reply: `queued ${"0123456789abcdef".slice(0, 8)}` },
    "a source": { source: `198.51.100.${round}` },
    "a domain and a state in a period": { domain: "large.example.org", state: "bounced", ...period },
    "a campaign and words of replies": { campaign: round + 1, reply: "greylisted" },
  };
}

async function measure(db: Db): Promise<void> {
  const times = new Map<string, number[]>();
  const found = new Map<string, number>();
  const note = async <T>(what: string, ask: () => Promise<T>): Promise<T> => {
    const beganAt = performance.now();
    const answer = await ask();
    times.set(what, [...(times.get(what) ?? []), performance.now() - beganAt]);
    return answer;
  };
  for (let round = 0; round < ROUNDS; round++) {
    for (const [what, search] of Object.entries(searches(round))) {
      const page = await note(what, async () => {
        const plan = await planSearch(db, 1, search);
        return searchMessages(db, 1, plan, { limit: 50 });
      });
      found.set(what, Math.max(found.get(what) ?? 0, page.messages.length));
      if (page.next === undefined) continue;
      await note(`${what}, the next page`, async () => {
        const plan = await planSearch(db, 1, search);
        return searchMessages(db, 1, plan, { limit: 50, after: page.next });
      });
      const [message] = page.messages;
      if (message !== undefined) await note("the story of a message", () => readMessageStory(db, 1, message.id));
    }
  }
  const figures = [...times].map(([name, taken]) => {
    const [p50Ms = 0, p95Ms = 0, mostMs = 0] = [50, 95, 100].map((part) => Math.round(percentile(taken, part)));
    process.stdout.write(`${name}: median ${p50Ms}, p95 ${p95Ms}, most ${mostMs} ms, ${found.get(name) ?? ""}\n`);
    return { name, p50Ms, p95Ms };
  });
  const p95Ms = Math.round(percentile([...times.values()].flat(), 95));
  process.stdout.write(`all searches and pages: p95 ${p95Ms} ms (bar: 300)\n`);
  process.stdout.write(`${JSON.stringify({ deliveries: DELIVERIES, p95Ms, searches: figures })}\n`);
}
