import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import groups from "../../../../../config/domain-groups.json" with { type: "json" };
import {
  DAY_MS,
  dayAt,
  dayNumber,
  daysOf,
  judgeDay,
  plannedFor,
  roomOf,
  type WarmUpDay,
  type WarmUpPlan,
} from "../../../../../services/core/mail/pace/warm-up.ts";
import { warmUpPlan } from "../../../../../services/platform/config/warm-up-policy.ts";

const HOUR_MS = 3_600_000;
const plan: WarmUpPlan = {
  messagesPerDay: { default: [10, 20, 40], gmail: [5, 50] },
  spreadHours: 4,
  engagement: [
    { fromHour: 0, touchedWithinDays: 30 },
    { fromHour: 2, touchedWithinDays: null },
  ],
  pause: {
    hours: 6,
    deferrals: { least: 3, percent: 10 },
    complaints: { least: 2, percent: 1, days: 3 },
  },
};
const nobody = { recentlySent: 0, recentComplaints: 0 };
const day = (changes: Partial<WarmUpDay> = {}): WarmUpDay => ({
  ...dayAt(plan, "b.example", 0, undefined)!,
  ...changes,
});

describe("the plan of config/warm-up.json", () => {
  test("is the table of the how-to", () => {
    const lines = readFileSync("docs/howto/warm-up-an-address.md", "utf8").split("\n");
    const row = (name: string) => {
      const line = lines.find((one) => one.startsWith(`| ${name}`));
      if (line === undefined) throw new Error(`no row ${name}`);
      const cells = line.split("|").slice(2, -1);
      return cells.map((cell) => Number(cell.trim().replaceAll(",", "")));
    };
    const from = row("day");
    const perDay = row("messages a day");
    const planned = Array.from(
      { length: from.at(-1)! },
      (_, index) => perDay[from.findLastIndex((first) => first <= index + 1)],
    );
    expect(planned).toEqual(warmUpPlan.messagesPerDay.default);
    expect(daysOf(warmUpPlan)).toBe(17);
  });

  test("knows its providers", () => {
    const known = new Set(["default", ...groups.map(({ name }) => name)]);
    expect(Object.keys(warmUpPlan.messagesPerDay).filter((name) => !known.has(name))).toEqual([]);
  });
});

describe("a day", () => {
  test("lasts 24 hours from the beginning, and a clock that was set back is at the first", () => {
    expect([-5, 0, DAY_MS - 1, DAY_MS, 5 * DAY_MS].map((ms) => dayNumber(1_000, 1_000 + ms))).toEqual([0, 0, 0, 1, 5]);
  });

  test("has what is planned for its provider, else for all others", () => {
    expect(plannedFor(plan, "gmail")).toEqual([5, 50]);
    expect(plannedFor(plan, "constructor")).toEqual([10, 20, 40]);
    expect(dayAt(plan, "gmail", 1, undefined)).toMatchObject({ number: 1, step: 1, planned: 50, sent: 0 });
    expect(dayAt(plan, "gmail", 2, undefined)).toBeUndefined();
  });

  test("follows the last one, and has the same plan where that is to be repeated", () => {
    expect(dayAt(plan, "b.example", 1, day({ sent: 10 }))).toMatchObject({ number: 1, step: 1, planned: 20, sent: 0 });
    expect(dayAt(plan, "b.example", 1, day({ isRepeated: true }))).toMatchObject({ number: 1, step: 0, planned: 10 });
    expect(dayAt(plan, "b.example", 3, day({ isRepeated: true }))).toMatchObject({ number: 3, step: 2, planned: 40 });
    expect(dayAt(plan, "b.example", 3, day())).toBeUndefined();
    const again = day({ sent: 4 });
    expect(dayAt(plan, "b.example", 0, again)).toBe(again);
  });
});

describe("what may be sent", () => {
  test.each([
    [0, 0, 3, 0, 30],
    [0, 3, 0, 1, 30],
    [0.5, 3, 0, 0.5, 30],
    [1, 3, 2, 0, 30],
    [3, 9, 1, 0, null],
    [3.5, 10, 0, 20.5, null],
    [23.9, 0, 10, 0, null],
  ])("comes bit by bit: after %s hours, of ten with %s sent", (hours, sent, messages, nextHours, within) => {
    const room = roomOf(plan, day({ sent }), hours * HOUR_MS, 0);
    expect(room).toEqual({ messages, nextMs: expect.closeTo(nextHours * HOUR_MS), touchedWithinDays: within });
  });

  test("is nothing while it pauses", () => {
    expect(roomOf(plan, day({ pausedUntilMs: 5_000 }), HOUR_MS, 1_000)).toMatchObject({ messages: 0, nextMs: 4_000 });
  });
});

describe("a plan pauses", () => {
  const NOW_MS = 1_000_000;
  test.each([
    [20, 2, nobody, null],
    [30, 3, nobody, null],
    [29, 3, nobody, "deferrals"],
    [29, 0, { recentlySent: 200, recentComplaints: 2 }, null],
    [29, 0, { recentlySent: 199, recentComplaints: 2 }, "complaints"],
    [29, 0, { recentlySent: 10, recentComplaints: 1 }, null],
  ])("%s sent and %s deferred, %j: %s", (sent, deferred, past, pausedFor) => {
    const judged = judgeDay(plan, day({ sent, deferred }), past, NOW_MS);
    expect(judged.pausedFor).toBe(pausedFor);
    expect(judged.pausedUntilMs).toBe(pausedFor === null ? 0 : NOW_MS + 6 * HOUR_MS);
    expect(judged.isRepeated).toBe(pausedFor !== null);
  });

  test("for as long as it says, then it goes on, and only what follows is judged", () => {
    const paused = judgeDay(plan, day({ sent: 9, deferred: 5 }), nobody, 0);
    expect(judgeDay(plan, paused, nobody, 6 * HOUR_MS - 1).pausedUntilMs).toBe(6 * HOUR_MS);
    const goneOn = judgeDay(plan, paused, nobody, 6 * HOUR_MS);
    expect(goneOn).toMatchObject({ pausedFor: null, pausedUntilMs: 0, isRepeated: true });
    expect(judgeDay(plan, { ...goneOn, sent: 30, deferred: 7 }, nobody, 7 * HOUR_MS).pausedFor).toBeNull();
    expect(judgeDay(plan, { ...goneOn, sent: 30, deferred: 8 }, nobody, 7 * HOUR_MS).pausedFor).toBe("deferrals");
  });

  test("again while complaints stay, and the day that it reaches into is repeated as well", () => {
    const many = { recentlySent: 100, recentComplaints: 5 };
    const paused = judgeDay(plan, day({ sent: 9 }), many, 20 * HOUR_MS);
    const next = dayAt(plan, "b.example", 1, paused)!;
    expect(judgeDay(plan, next, many, 25 * HOUR_MS).isRepeated).toBe(true);
    expect(judgeDay(plan, next, many, 27 * HOUR_MS)).toMatchObject({ pausedFor: "complaints", isRepeated: true });
    expect(judgeDay(plan, next, nobody, 27 * HOUR_MS)).toMatchObject({ pausedFor: null, isRepeated: false });
  });
});
