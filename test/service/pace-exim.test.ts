import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { findPace, type SourcePace } from "../../services/store/mail/pace/source-paces.ts";
import { accept, database, eventually, numbered, setUpDelivery, stops } from "../support/delivery.ts";
import { eximMissing, startLimitedExim } from "../support/exim.ts";
import { bundlePaceWorker, startPaceWorker } from "../support/pace-processes.ts";

/** Takes minutes of a machine that does nothing else: `npm run check:pace`. */
const why = process.env.PALOMAR_TEST_PACE === undefined ? "by npm run check:pace" : eximMissing;
const title = why === undefined ? "against Exim's ratelimit" : `against Exim's ratelimit (skipped: ${why})`;
const WORKERS = 3;
/** Ten minutes pass in two and a half: faster, and what a worker does by the real clock would be slow for its portions. */
const TIMES_FASTER = 4;
const PERIOD_SECONDS = 6;
const PER_PERIOD = 60;
const TEN_MINUTES_MS = 600_000 / TIMES_FASTER;

setUpDelivery();
beforeAll(async () => {
  if (why === undefined) await bundlePaceWorker();
});

describe.skipIf(why !== undefined)(title, () => {
  test("three workers find what an address may send, and find it again; the other address notices nothing", async () => {
    const exim = await startLimitedExim(PER_PERIOD, PERIOD_SECONDS);
    stops.push(() => exim.stop());
    await accept(numbered(6_000, "big.example.net"));
    startWorkers(exim.port);
    const neighbour = watchNeighbour();
    stops.push(() => neighbour.stop());

    // It has found its way when what it goes by went well for long.
    await eventually(
      () => paceOf("127.0.0.9"),
      (pace) => (pace?.memory.heldPerHour ?? 0) > 0,
    );
    expect(await findsWay(PER_PERIOD)).toBeLessThan(TEN_MINUTES_MS);
    const before = await countsOf("127.0.0.9");
    const begunAtMs = performance.now();
    await sleep(600_000 / TIMES_FASTER);
    const after = await countsOf("127.0.0.9");
    const seconds = (performance.now() - begunAtMs) / 1000;
    const delivered = after.delivered - before.delivered;
    const deferred = after.deferred - before.deferred;
    const share = delivered / ((PER_PERIOD / PERIOD_SECONDS) * seconds);
    const { memory, triedPerHour } = (await paceOf("127.0.0.9"))!;
    process.stdout.write(
      `of the rate ${share.toFixed(3)}, deferred ${(deferred / delivered).toFixed(4)}; ` +
        `goes by ${memory.ratePerHour?.toFixed()} an hour, tried ${triedPerHour.toFixed()}\n`,
    );
    expect(share).toBeGreaterThan(0.9);
    expect(deferred / delivered).toBeLessThan(0.01);

    for (const changed of [PER_PERIOD / 2, PER_PERIOD]) {
      exim.limit(changed);
      const foundMs = await findsWay(changed);
      process.stdout.write(`${changed} a period found after ${(foundMs / 1000).toFixed(1)} s\n`);
      expect(foundMs).toBeLessThan(TEN_MINUTES_MS);
    }
    const { longestMs, sent } = await neighbour.stop();
    process.stdout.write(`neighbour: ${sent} sent, longest ${longestMs.toFixed(0)} ms\n`);
    expect(await paceOf("127.0.0.10")).toBeUndefined();
    expect(longestMs).toBeLessThan(10_000);
  }, 1_200_000);
});

/** @returns when a minute began that used most of a limit that is known, with few messages put off: milliseconds from now */
async function findsWay(perPeriod: number): Promise<number> {
  const startedAtMs = performance.now();
  for (;;) {
    const begunAtMs = performance.now();
    const before = await countsOf("127.0.0.9");
    await sleep(60_000 / TIMES_FASTER);
    const after = await countsOf("127.0.0.9");
    const delivered = after.delivered - before.delivered;
    const seconds = (performance.now() - begunAtMs) / 1000;
    const isUsed = delivered > 0.8 * (perPeriod / PERIOD_SECONDS) * seconds;
    // What it remembers from before the change is not what it found.
    const { memory } = (await paceOf("127.0.0.9"))!;
    const allowedPerHour = ((perPeriod / PERIOD_SECONDS) * 3_600) / TIMES_FASTER;
    const isKnown = (memory.ratePerHour ?? Number.POSITIVE_INFINITY) < 1.1 * allowedPerHour;
    if (isUsed && isKnown && after.deferred - before.deferred < 0.05 * delivered) return begunAtMs - startedAtMs;
    if (begunAtMs - startedAtMs > 2 * TEN_MINUTES_MS) return Number.POSITIVE_INFINITY;
  }
}

function startWorkers(port: number): void {
  const unlimited = { connections: null, messagesPerMinute: null };
  const plan = {
    port,
    epochMs: Date.now(),
    timesFaster: TIMES_FASTER,
    changes: {
      pools: {
        default: { ...unlimited, addresses: [{ address: "127.0.0.9", weight: 1 }] },
        other: { ...unlimited, addresses: [{ address: "127.0.0.10", weight: 1 }] },
      },
      poolOf: [{ instance: "test", campaign: 2, pool: "other" }],
    },
  };
  for (let worker = 0; worker < WORKERS; worker += 1) startPaceWorker(plan);
}

/** Sends a message now and then through the other address, and sees how long each takes. */
function watchNeighbour(): { stop(): Promise<{ longestMs: number; sent: number }> } {
  let isStopping = false;
  let longestMs = 0;
  let sent = 0;
  const running = (async () => {
    while (!isStopping) {
      const startedAtMs = performance.now();
      const eeid = await accept([`n${sent}@big.example.net`], "<p>Hi</p>", false, [], 2);
      await eventually(
        () => database.db("partitions").where({ eeid }).pluck("state"),
        (states) => states.every((state) => state === "finished"),
      );
      longestMs = Math.max(longestMs, performance.now() - startedAtMs);
      sent += 1;
      await sleep(500);
    }
  })();
  return {
    stop: async () => {
      isStopping = true;
      await running;
      return { longestMs, sent };
    },
  };
}

async function paceOf(source: string): Promise<SourcePace | undefined> {
  const key = await database.db("source_paces").where({ source }).first("source", "provider");
  return key && findPace(database.db, key);
}

async function countsOf(source: string): Promise<{ delivered: number; deferred: number }> {
  const [counts] = await database
    .db("pace_counts")
    .where({ source })
    .select(
      database.db.raw("coalesce(sum(delivered), 0)::int as delivered, coalesce(sum(deferred), 0)::int as deferred"),
    );
  return counts;
}
