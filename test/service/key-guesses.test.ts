import { type ClientRequest, request } from "node:http";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RESELLER_ONE, RESELLER_TWO, type RunningApi, startApi } from "../support/dns-api.ts";
import { startMailApi } from "../support/mail-api.ts";
import { eventually } from "../support/stack.ts";

let api: RunningApi;

beforeAll(async () => {
  api = await startApi({ PALOMAR_LIMIT_LOOPBACK: "true" });
});
afterAll(() => api.stop());

interface Reply {
  readonly status: number;
  readonly retryAfter: number;
}

/** Requests that are not answered yet. */
const open = new Set<ClientRequest>();

/** Ends them all, as clients do that have waited long enough. */
function hangUp(): void {
  for (const sent of open) sent.destroy();
}

/** One request from an address of this machine's loopback network. */
function askFrom(localAddress: string, url: string, headers: Record<string, string>): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { localAddress, headers, agent: false }, (response) => {
      response.resume();
      response.on("end", () => {
        resolve({ status: response.statusCode!, retryAfter: Number(response.headers["retry-after"] ?? 0) });
      });
    });
    open.add(sent);
    sent.on("close", () => open.delete(sent));
    sent.on("error", reject);
    sent.end();
  });
}

const tryKey = (address: string, reseller: string, key: string) =>
  askFrom(address, `${api.url}/api/v1/companies`, { Authorization: key, Reseller: reseller });

let guessed = 0;
const aGuess = () => {
  guessed += 1;
  return `guess-number-${guessed}`;
};

/** How often each status was answered. */
class Tally {
  readonly #counts = new Map<number, number>();

  of(status: number): number {
    return this.#counts.get(status) ?? 0;
  }

  add(status: number): void {
    this.#counts.set(status, this.of(status) + 1);
  }
}

/** Runs so many loops beside each other until it is enough, or their connections are cut. */
async function attack(
  lanes: number,
  isEnough: (tally: Tally) => boolean,
  guess: (lane: number) => Promise<Reply>,
  tally = new Tally(),
): Promise<Tally> {
  const run = async (lane: number) => {
    while (!isEnough(tally)) {
      const reply = await guess(lane).catch(() => undefined);
      if (!reply) return;
      tally.add(reply.status);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, lane) => run(lane)));
  return tally;
}

/** How many keys of one source may have been looked at after so long: thirty, and one after each wait, which doubles. */
const mostOfOneSource = (sinceMs: number) => 30 + Math.ceil(Math.log2((performance.now() - sinceMs) / 5_000 + 1)) + 1;

describe("the DNS API's listener", () => {
  test("one source: thousands of guesses, of which thirty are looked at; the owner beside it goes on working", async () => {
    const address = "127.1.0.1";
    expect((await tryKey(address, "one", RESELLER_ONE.key)).status).toBe(200);
    const owner: number[] = [];
    let isFarOff = false;
    const startedAt = performance.now();
    const tally = await attack(
      9,
      (seen) => seen.of(429) > 1_000,
      async (lane) => {
        if (lane > 0) return tryKey(address, "one", aGuess());
        const reply = await tryKey(address, "one", RESELLER_ONE.key);
        owner.push(reply.status);
        await sleep(50);
        return reply;
      },
    );
    expect(new Set(owner)).toEqual(new Set([200]));
    expect(tally.of(403)).toBeLessThanOrEqual(mostOfOneSource(startedAt));
    // What was never right from there is not looked at, while the next look is some time off: another right key does not
    // ride on the owner's.
    await attack(
      1,
      () => isFarOff,
      async () => {
        const reply = await tryKey(address, "one", aGuess());
        isFarOff = reply.status === 429 && reply.retryAfter >= 3;
        return reply;
      },
    );
    const refused = await tryKey(address, "two", RESELLER_TWO.key);
    expect(refused.status).toBe(429);
    expect(refused.retryAfter).toBeGreaterThanOrEqual(1);
    // And the owner of that other key is known to nobody elsewhere as a guesser.
    expect((await tryKey("127.1.1.1", "two", RESELLER_TWO.key)).status).toBe(200);
  });

  test("many sources: sixty guesses and one a second; owners get in from known addresses and from new ones", async () => {
    const known = "127.2.255.1";
    expect((await tryKey(known, "two", RESELLER_TWO.key)).status).toBe(200);
    const startedAt = performance.now();
    const tally = new Tally();
    let isOver = false;
    const guess = async (lane: number) => {
      const reply = await tryKey(`127.3.${lane}.1`, "two", aGuess());
      if (reply.status === 429) await sleep(100);
      return reply;
    };
    const attacking = attack(70, () => isOver, guess, tally);
    await eventually(
      async () => tally.of(403),
      (lookedAt) => lookedAt >= 60,
    );
    const askedAt = performance.now();
    expect((await tryKey(known, "two", RESELLER_TWO.key)).status).toBe(200);
    // A program tries again when it is told to come later; the lane is full until one of those ahead was served.
    let fromNew = await tryKey("127.4.0.1", "two", RESELLER_TWO.key);
    while (fromNew.status === 429) {
      await sleep(500);
      fromNew = await tryKey("127.4.0.1", "two", RESELLER_TWO.key);
    }
    expect(fromNew.status).toBe(200);
    expect(performance.now() - askedAt).toBeLessThan(60_000);
    const elapsedSeconds = (performance.now() - startedAt) / 1_000;
    const lookedAt = tally.of(403);
    isOver = true;
    hangUp();
    await attacking;
    expect(lookedAt).toBeLessThanOrEqual(60 + elapsedSeconds + 1);
  });

  test("a reseller that does not exist is guessed at no faster and no slower", async () => {
    const startedAt = performance.now();
    const tally = await attack(
      8,
      (seen) => seen.of(429) > 100,
      () => tryKey("127.5.0.1", "nobody", aGuess()),
    );
    expect(tally.of(403)).toBeGreaterThanOrEqual(30);
    expect(tally.of(403)).toBeLessThanOrEqual(mostOfOneSource(startedAt));
  });
});

test("the mail API's listener counts guesses at hosts that are made up as guesses at all instances", async () => {
  const mail = await startMailApi({ PALOMAR_LIMIT_LOOPBACK: "true" });
  let lookedAt = 0;
  const startedAt = performance.now();
  const guess = async (bot: number) => {
    const Host = bot % 3 === 0 ? "north.test" : `made-up-${bot}.test`;
    const reply = await askFrom(`127.6.${bot % 200}.${1 + Math.floor(bot / 200)}`, `${mail.url}/v1/version`, {
      Authorization: aGuess(),
      Host,
    });
    if (reply.status === 403) lookedAt += 1;
  };
  const attacking = Promise.allSettled(Array.from({ length: 400 }, (_, bot) => guess(bot)));
  await eventually(
    async () => lookedAt,
    (count) => count > 115,
  );
  await sleep(1_000);
  const elapsedSeconds = (performance.now() - startedAt) / 1_000;
  expect(lookedAt).toBeLessThanOrEqual(2 * (60 + elapsedSeconds + 1));
  hangUp();
  await attacking;
  await mail.stop();
}, 120_000);
