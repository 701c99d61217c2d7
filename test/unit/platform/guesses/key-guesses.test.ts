import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ok, type Result, refuse } from "../../../../services/core/result.ts";
import { type KeyAttempt, KeyGuesses } from "../../../../services/platform/guesses/key-guesses.ts";
import { API_KEY_GUESSES, SUBMISSION_GUESSES } from "../../../../services/platform/guesses/policy.ts";

const MINUTE = 60_000;
const RIGHT = "the right key";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Guesses at one target, of which one key is right, and how many were looked at. */
function makeDoor(policy = API_KEY_GUESSES, limitLoopback = true) {
  const guesses = new KeyGuesses({ policy, limitLoopback, observe: () => {} });
  const door = { guesses, looked: 0, right: RIGHT };
  const knock = (address: string, key: string, more: Partial<KeyAttempt> = {}) =>
    guesses
      .judge({ address, digest: key, target: () => "reseller one", isGone: () => false, ...more }, async () => {
        door.looked += 1;
        return (key === door.right ? ok("in") : refuse({ kind: "unauthenticated" })) as Result<
          string,
          { kind: "unauthenticated" }
        >;
      })
      .then((outcome) => (outcome.ok ? "in" : outcome.error));
  return Object.assign(door, { knock });
}
const WRONG = { kind: "unauthenticated" };
const wait = (retryAfterSeconds: number) => ({ kind: "rate-limited", retryAfterSeconds });
const anyWait = { kind: "rate-limited", retryAfterSeconds: expect.any(Number) };

let guessed = 0;
const aGuess = () => {
  guessed += 1;
  return `guess ${guessed}`;
};

/** An address of a /24 of its own. */
const botOf = (index: number) => `10.${index >> 8}.${index & 255}.1`;

describe("one source", () => {
  test("has thirty wrong keys, then waits that double up to a quarter of an hour, right or wrong", async () => {
    const door = makeDoor();
    for (let failure = 0; failure < 30; failure += 1) expect(await door.knock("192.0.2.1", aGuess())).toEqual(WRONG);
    expect(await door.knock("192.0.2.1", aGuess())).toEqual(wait(5));
    expect(await door.knock("192.0.2.1", RIGHT)).toEqual(wait(5));
    expect(door.looked).toBe(30);
    const waits: number[] = [];
    for (let failure = 0; failure < 10; failure += 1) {
      const refused = await door.knock("192.0.2.1", aGuess());
      const seconds = (refused as { retryAfterSeconds: number }).retryAfterSeconds;
      waits.push(seconds);
      vi.advanceTimersByTime(seconds * 1_000);
      expect(await door.knock("192.0.2.1", aGuess())).toEqual(WRONG);
    }
    expect(waits).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
  });

  test("in a day has at most 135 keys looked at, however many it tries", async () => {
    const door = makeDoor();
    for (let second = 0; second < 86_400; second += 5) {
      await door.knock("192.0.2.1", aGuess());
      vi.advanceTimersByTime(5_000);
    }
    expect(door.looked).toBeLessThanOrEqual(135);
    expect(door.looked).toBeGreaterThan(100);
  });

  test("counts attempts at the same moment as many", async () => {
    const door = makeDoor();
    const outcomes = await Promise.all(Array.from({ length: 500 }, () => door.knock("192.0.2.1", aGuess())));
    expect(outcomes.filter((outcome) => outcome !== "in" && outcome.kind === "unauthenticated")).toHaveLength(30);
  });

  test("counts nothing for keys that are right, at the same moment too", async () => {
    const door = makeDoor();
    const outcomes = await Promise.all(Array.from({ length: 500 }, () => door.knock("192.0.2.1", RIGHT)));
    expect(new Set(outcomes)).toEqual(new Set(["in"]));
    for (let failure = 0; failure < 30; failure += 1) expect(await door.knock("192.0.2.1", aGuess())).toEqual(WRONG);
  });

  test("is an IPv6 /64, and stands in a /48 with others", async () => {
    const door = makeDoor();
    for (let at = 0; at < 30; at += 1) expect(await door.knock(`2001:db8:1:1::${at}`, aGuess())).toEqual(WRONG);
    expect(await door.knock("2001:db8:1:1:ffff::1", aGuess())).toEqual(wait(5));
    vi.advanceTimersByTime(MINUTE);
    // Each of the /64s of one /48 once: three hundred together, then one a minute.
    let looked = 0;
    for (let at = 0; at < 1_000; at += 1) {
      const target = () => `reseller ${at}`;
      if ((await door.knock(`2001:db8:2:${at.toString(16)}::1`, aGuess(), { target })) !== "in") looked = door.looked;
    }
    expect(looked - 30).toBe(300);
    expect(await door.knock("2001:db8:2:ffff::1", aGuess())).toEqual(wait(60));
    expect(await door.knock("2001:db8:3::1", aGuess())).toEqual(WRONG);
  });

  test("may repeat its last wrong key without longer waits for others behind it, and is heard once that is right", async () => {
    const door = makeDoor();
    for (let failure = 0; failure < 30; failure += 1) await door.knock("192.0.2.1", aGuess());
    vi.advanceTimersByTime(5_000);
    expect(await door.knock("192.0.2.1", "an old key")).toEqual(WRONG);
    for (let second = 0; second < 3_600; second += 1) {
      expect(await door.knock("192.0.2.1", "an old key")).not.toBe("in");
      vi.advanceTimersByTime(1_000);
    }
    expect(door.looked).toBeLessThanOrEqual(31 + 60);
    expect(await door.knock("192.0.2.1", RIGHT)).toBe("in");
    door.right = "an old key";
    vi.advanceTimersByTime(MINUTE);
    expect([await door.knock("192.0.2.1", "an old key"), await door.knock("192.0.2.1", "an old key")]).toEqual([
      "in",
      "in",
    ]);
  });
});

describe("a key that was right lately from its source", () => {
  test("passes whatever others guess from there, and nothing rides on it", async () => {
    const door = makeDoor();
    expect(await door.knock("192.0.2.1", RIGHT)).toBe("in");
    for (let guess = 0; guess < 1_000; guess += 1) {
      await door.knock("192.0.2.1", aGuess());
      if (guess % 100 === 0) expect(await door.knock("192.0.2.1", RIGHT)).toBe("in");
    }
    expect(door.looked).toBe(1 + 10 + 30);
    // Elsewhere it is known to nobody.
    for (let failure = 0; failure < 30; failure += 1) await door.knock("192.0.2.2", aGuess());
    expect(await door.knock("192.0.2.2", RIGHT)).toEqual(wait(5));
  });

  test("is a guess again after a day without it, and once it was wrong", async () => {
    const door = makeDoor();
    await door.knock("192.0.2.1", RIGHT);
    vi.advanceTimersByTime(24 * 60 * MINUTE + 1);
    for (let failure = 0; failure < 30; failure += 1) await door.knock("192.0.2.1", aGuess());
    expect(await door.knock("192.0.2.1", RIGHT)).toEqual(wait(5));

    const other = makeDoor();
    await other.knock("192.0.2.1", RIGHT);
    other.right = "a new key";
    expect(await other.knock("192.0.2.1", RIGHT)).toEqual(WRONG);
    for (let failure = 0; failure < 29; failure += 1) expect(await other.knock("192.0.2.1", aGuess())).toEqual(WRONG);
    expect(await other.knock("192.0.2.1", aGuess())).toEqual(wait(5));
  });
});

describe("one target, from any number of sources", () => {
  test("has sixty guesses at once and one a second after", async () => {
    const door = makeDoor();
    const outcomes: unknown[] = [];
    const seconds = 600;
    for (let second = 0; second < seconds; second += 1) {
      for (let bot = 0; bot < 100; bot += 1) {
        void door.knock(botOf(second * 100 + bot), aGuess()).then((outcome) => outcomes.push(outcome));
      }
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(door.looked).toBeLessThanOrEqual(60 + seconds);
    expect(door.looked).toBeGreaterThan(60 + seconds * 0.9);
    expect(door.guesses.sizes.waiting).toBeLessThanOrEqual(30);
  });

  test("an owner from a new address overtakes all who have been wrong, one from a known one does not wait", async () => {
    const door = makeDoor();
    expect(await door.knock("198.51.100.1", RIGHT)).toBe("in");
    const bots = Array.from({ length: 3_000 }, (_, index) => botOf(index));
    for (const bot of bots) void door.knock(bot, aGuess());
    // Each of them has been wrong once when they come again.
    await vi.advanceTimersByTimeAsync(31_000);
    for (const bot of bots.slice(0, 60)) void door.knock(bot, aGuess());
    expect(await door.knock("198.51.100.1", RIGHT)).toBe("in");
    let got: unknown;
    void door.knock("203.0.113.7", RIGHT).then((outcome) => {
      got = outcome;
    });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(got).toBe("in");
  });

  test("nobody waits longer than half a minute, and those who leave free their place", async () => {
    const door = makeDoor();
    for (let bot = 0; bot < 60; bot += 1) await door.knock(botOf(bot), aGuess());
    const gone = new Set<string>();
    const settled: number[] = [];
    const startedAt = performance.now();
    for (let bot = 100; bot < 140; bot += 1) {
      const address = botOf(bot);
      const isGone = () => gone.has(address);
      void door.knock(address, aGuess(), { isGone }).then(() => settled.push(performance.now() - startedAt));
    }
    await vi.advanceTimersByTimeAsync(0);
    expect([settled.length, door.guesses.sizes.waiting]).toEqual([10, 30]);
    for (let bot = 100; bot < 110; bot += 1) gone.add(botOf(bot));
    void door.knock(botOf(200), RIGHT);
    await vi.advanceTimersByTimeAsync(0);
    expect(door.guesses.sizes.waiting).toBe(21);
    await vi.advanceTimersByTimeAsync(40_000);
    expect(Math.max(...settled)).toBeLessThanOrEqual(30_500);
    expect(door.guesses.sizes.waiting).toBe(0);
  });

  test("a source waits in one place of a target", async () => {
    const door = makeDoor();
    for (let bot = 0; bot < 60; bot += 1) await door.knock(botOf(bot), aGuess());
    void door.knock("192.0.2.1", aGuess());
    await vi.advanceTimersByTimeAsync(0);
    expect(await door.knock("192.0.2.1", aGuess())).toEqual(anyWait);
    expect(door.guesses.sizes.waiting).toBe(1);
  });
});

test("what cannot be judged counts for nobody", async () => {
  const { guesses } = makeDoor();
  const attempt = { address: "192.0.2.1", target: () => "reseller one", isGone: () => false };
  for (let failure = 0; failure < 200; failure += 1) {
    const away = guesses.judge({ ...attempt, digest: aGuess() }, () =>
      Promise.reject(new Error("the database is away")),
    );
    await expect(away).rejects.toThrow("away");
  }
  expect(await guesses.judge({ ...attempt, digest: "x" }, async () => ok("in"))).toEqual(ok("in"));
});

test("loopback is exempt unless told", async () => {
  const door = makeDoor(API_KEY_GUESSES, false);
  for (let failure = 0; failure < 500; failure += 1) expect(await door.knock("127.0.0.9", aGuess())).toEqual(WRONG);
});

test("where the protocol locks sources out by itself, only targets are counted here", async () => {
  const door = makeDoor(SUBMISSION_GUESSES);
  for (let guess = 0; guess < 60; guess += 1) expect(await door.knock("192.0.2.1", aGuess())).toEqual(WRONG);
  void door.knock("192.0.2.1", aGuess());
  await vi.advanceTimersByTimeAsync(0);
  expect(door.looked).toBe(60);
  await vi.advanceTimersByTimeAsync(1_100);
  expect(door.looked).toBe(61);
});

test("a flood of sources and of targets takes a bounded memory", async () => {
  const door = makeDoor();
  for (let at = 0; at < 120_000; at += 1) {
    const address = `2001:db8:${(at >> 8).toString(16)}:${(at & 255).toString(16)}::1`;
    await door.knock(address, `guess ${at}`, { target: () => `reseller ${at}` });
  }
  expect(door.guesses.sizes).toMatchObject({ keys: 0, waiting: 0 });
  expect(door.guesses.sizes.sources).toBeLessThanOrEqual(100_000);
});
