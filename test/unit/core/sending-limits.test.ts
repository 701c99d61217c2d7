import { describe, expect, it } from "vitest";
import {
  type BookingRequest,
  bookSend,
  chargesOf,
  isExceeded,
  type LimitRule,
  PresentWindows,
  rampRule,
  readLimitSubject,
  roomIn,
  rulesFor,
  type SendingLimit,
  senderKey,
  WindowCounts,
} from "../../../services/core/mail/guard/sending-limits.ts";

const NOW = new Date("2026-03-28T22:40:00Z");
const at = (text: string) => new Date(`2026-03-${text}Z`);
const HOUR = { key: "instance", grain: "hour", startsAt: at("28T22:00:00") } as const;
const DAY = { key: "instance", grain: "day", startsAt: at("28T00:00:00") } as const;

const rule = (changes: Partial<LimitRule> = {}): LimitRule => ({
  ...{ key: "instance", perHour: null, perDay: null, over: "refuse" as const },
  ...changes,
});
const request = (recipients: number, ...rules: LimitRule[]): BookingRequest => ({
  ...{ rules, recipients, now: NOW, mostDaysAhead: 2 },
});

describe("a limit that refuses", () => {
  const limit = rule({ perHour: 100, perDay: 150 });

  it.each([
    [100, 0, 0, [{ at: null, count: 100 }]],
    [60, 40, 40, [{ at: null, count: 60 }]],
    [0, 100, 150, []],
  ])("lets %i recipients pass with %i in the hour and %i in the day", (recipients, hour, day, bookings) => {
    const counts = new WindowCounts([
      { ...HOUR, count: hour },
      { ...DAY, count: day },
    ]);
    expect(bookSend(counts, request(recipients, limit))).toEqual(bookings);
  });

  it.each([
    ["the hour", 61, 40, 40, "hour", 100, "28T23:00:00"],
    ["the day, which ends later", 61, 0, 90, "day", 150, "29T00:00:00"],
    ["both: then the later one tells when it goes on", 61, 40, 90, "hour", 100, "29T00:00:00"],
  ])("refuses what is above %s", (_, recipients, hour, day, grain, allowed, goesOnAt) => {
    const counts = new WindowCounts([
      { ...HOUR, count: hour },
      { ...DAY, count: day },
    ]);
    const reached = { rule: limit, grain, allowed, goesOnAt: at(goesOnAt) };
    expect(bookSend(counts, request(recipients, limit))).toEqual(reached);
  });

  it("says of more than a window allows that it never goes", () => {
    expect(bookSend(new WindowCounts(), request(101, limit))).toMatchObject({ allowed: 100, goesOnAt: null });
    expect(bookSend(new WindowCounts(), request(1, rule({ perDay: 0 })))).toMatchObject({ allowed: 0, goesOnAt: null });
  });

  it("sees what waits for windows to come", () => {
    const counts = new WindowCounts([
      { ...HOUR, count: 100 },
      { ...HOUR, startsAt: at("28T23:00:00"), count: 99 },
    ]);
    const hourly = rule({ perHour: 100 });
    expect(bookSend(counts, request(2, hourly))).toMatchObject({ goesOnAt: at("29T00:00:00") });
  });
});

describe("a limit that lets mail wait", () => {
  const limit = rule({ perHour: 100, over: "wait" });

  it("fills the windows one after the other", () => {
    const counts = new WindowCounts([{ ...HOUR, count: 30 }]);
    expect(bookSend(counts, request(250, limit))).toEqual([
      { at: null, count: 70 },
      { at: at("28T23:00:00"), count: 100 },
      { at: at("29T00:00:00"), count: 80 },
    ]);
  });

  it("counts what it has put into a day's earlier hours", () => {
    const bookings = bookSend(new WindowCounts(), request(3, rule({ perHour: 2, perDay: 2, over: "wait" })));
    expect(bookings).toEqual([
      { at: null, count: 2 },
      { at: at("29T00:00:00"), count: 1 },
    ]);
  });

  it("goes by all rules at once: the day's, and those of others", () => {
    const daily = rule({ key: "sender a@b.test", perDay: 120, over: "refuse" });
    const bookings = bookSend(new WindowCounts(), request(110, limit, daily));
    expect(bookings).toEqual([
      { at: null, count: 100 },
      { at: at("28T23:00:00"), count: 10 },
    ]);
  });

  it("refuses what would wait for too long", () => {
    expect(bookSend(new WindowCounts(), request(100 * 48, limit))).toHaveLength(48);
    const used = new WindowCounts([{ ...HOUR, count: 1 }]);
    expect(bookSend(used, request(100 * 48, limit))).toMatchObject({ goesOnAt: at("29T00:00:00") });
  });

  it.each<[string, number, LimitRule[], object]>([
    ["hours", 100 * 48, [limit], { allowed: 100, grain: "hour" }],
    // From within a day they are parts of three.
    ["days", 3 * 10, [rule({ perDay: 10, over: "wait" })], { allowed: 10, grain: "day" }],
    ["both", 3 * 10, [rule({ perHour: 2, over: "wait" }), rule({ perDay: 10, over: "wait" })], { allowed: 10 }],
    ["none", 0, [rule({ key: "campaign 7", perDay: 0, over: "wait" }), limit], { allowed: 0, grain: "day" }],
  ])("says of more than %s ever have room for that it never goes", (_, most, rules, bound) => {
    const ahead = { mostDaysAhead: 2, goesOnAt: null };
    expect(bookSend(new WindowCounts(), request(most + 1, ...rules))).toMatchObject({ ...bound, ...ahead });
    const fits = bookSend(new WindowCounts(), request(most, ...rules));
    expect(fits).not.toMatchObject(ahead);
  });

  it.each([
    ["141 with 10 a day", 141, rule({ perDay: 10, over: "wait" })],
    ["150 with 10 a day", 150, rule({ perDay: 10, over: "wait" })],
    ["150 with 10 a day and 5 an hour", 150, rule({ perDay: 10, perHour: 5, over: "wait" })],
  ])("tells of %s an hour at which they fit, where nothing is counted", (_, recipients, bound) => {
    const ahead = { ...request(recipients, bound), mostDaysAhead: 14 };
    const refused = bookSend(new WindowCounts(), { ...ahead, now: at("28T00:00:05") });
    const { goesOnAt } = refused as { readonly goesOnAt: Date };
    expect(bookSend(new WindowCounts(), { ...ahead, now: goesOnAt })).toBeInstanceOf(Array);
  });

  it("does not say never of what a ramp has room for later", () => {
    const ramp = rule({ perDay: 1, over: "wait", isRamp: true });
    expect(bookSend(new WindowCounts(), request(50, ramp))).toMatchObject({ goesOnAt: at("29T00:00:00") });
  });
});

it("charges each window once, whatever the rules that look at it", () => {
  const rules = [rule({ perHour: 10, perDay: 20 }), rule({ perDay: 5 }), rule({ key: "campaign 7", perHour: 3 })];
  expect(chargesOf(rules, [{ at: null, count: 3 }], NOW)).toEqual([
    { ...HOUR, count: 3 },
    { ...DAY, count: 3 },
    { ...HOUR, key: "campaign 7", count: 3 },
  ]);
  const later = [
    { at: null, count: 3 },
    { at: at("28T23:00:00"), count: 2 },
  ];
  expect(chargesOf([rule({ perDay: 20 })], later, NOW)).toEqual([{ ...DAY, count: 5 }]);
});

it("knows by what is counted whether somebody was quicker", () => {
  const rules = [rule({ perHour: 10 }), rule({ key: "campaign 7", perDay: 5 })];
  expect(isExceeded(rules, { ...HOUR, count: 10 })).toBe(false);
  expect(isExceeded(rules, { ...HOUR, count: 11 })).toBe(true);
  expect(isExceeded(rules, { ...DAY, count: 11 })).toBe(false);
  expect(isExceeded(rules, { ...DAY, key: "campaign 7", count: 6 })).toBe(true);
});

describe("the present windows of a source", () => {
  const rules = [rule({ perHour: 10, perDay: 20 }), rule({ perDay: 5 }), rule({ key: "campaign 7", perHour: 8 })];

  it.each([
    ["within all", 0, 0, 5, true],
    ["above the stricter of two rules of one window", 0, 0, 6, false],
    ["above the hour", 10, 0, 1, false],
    ["nobody, in a window that is full", 10, 5, 0, true],
    ["nobody, in a window that is beyond a limit of later", 11, 5, 0, false],
  ])("%s: with %i in the hour and %i in the day, room for %i is %s", (_, hour, day, recipients, fit) => {
    const counts = new WindowCounts([
      { ...HOUR, count: hour },
      { ...DAY, count: day },
    ]);
    expect(new PresentWindows(counts, rules, NOW).fit(recipients)).toBe(fit);
    // Whoever looks closer finds the same.
    expect(Array.isArray(bookSend(counts, request(recipients, ...rules)))).toBe(fit);
  });

  it("share their counts with those of other sources, and count once for two rules of one window", () => {
    const counts = new WindowCounts([{ ...DAY, count: 1 }]);
    const other = new PresentWindows(counts, [rule({ perDay: 5 })], NOW);
    new PresentWindows(counts, rules, NOW).add(3);
    expect([other.fit(1), other.fit(2)]).toEqual([true, false]);
    expect(counts.added).toEqual([
      { ...DAY, count: 3 },
      { ...HOUR, count: 3 },
      { ...HOUR, key: "campaign 7", count: 3 },
    ]);
    const trial = counts.copy();
    trial.add({ ...DAY, count: 1 });
    expect([counts.of(DAY), trial.of(DAY)]).toEqual([4, 5]);
  });
});

it("counts sends that are judged together one after the other", () => {
  const counts = new WindowCounts([{ ...HOUR, count: 8 }]);
  const limit = rule({ perHour: 10 });
  expect(roomIn(counts, [limit], NOW)).toBe(2);
  for (const charge of chargesOf([limit], [{ at: null, count: 2 }], NOW)) counts.add(charge);
  expect(bookSend(counts, request(1, limit))).toMatchObject({ goesOnAt: at("28T23:00:00") });
});

describe("which limits count", () => {
  const limit = (scope: SendingLimit["scope"], subject: string, perHour: number): SendingLimit => ({
    ...{ scope, subject, perHour, perDay: null, over: "refuse" as const },
  });
  const limits = [
    limit("instance", "", 1),
    limit("campaign", "", 2),
    limit("campaign", "7", 3),
    limit("sender", "a@b.test", 4),
  ];

  it.each([
    [7, "a@b.test", { instance: 1, "campaign 7": 3, "sender a@b.test": 4 }],
    [8, "c@b.test", { instance: 1, "campaign 8": 2 }],
  ])("for campaign %i and sender %s", (campaignNumid, sender, expected) => {
    const rules = rulesFor({ campaignNumid, sender }, limits, undefined);
    expect(Object.fromEntries(rules.map(({ key, perHour }) => [key, perHour]))).toEqual(expected);
  });

  it("each sender of a send has its own, once", () => {
    const rules = rulesFor(
      { campaignNumid: 7, sender: "c@b.test", otherSenders: ["a@b.test", "a@b.test"] },
      limits,
      undefined,
    );
    expect(rules.map(({ key }) => key)).toEqual(["instance", "campaign 7", "sender a@b.test"]);
  });

  it.each(["Info", "iNFO", "info+1", "INFO+a+b", "info+"])("%s is the sender info", (local) => {
    expect(senderKey({ local, asciiDomain: "b.test" })).toBe("info@b.test");
    expect(readLimitSubject("sender", `${local}@b.test`)).toBe("info@b.test");
  });

  it("a local part that begins with a plus is not empty", () => {
    expect(senderKey({ local: "+1", asciiDomain: "b.test" })).toBe("+1@b.test");
  });
});

it.each([
  ["2026-03-28T22:39:00Z", 500],
  ["2026-03-27T22:41:00Z", 500],
  ["2026-03-27T22:40:00Z", 1_000],
  ["2026-03-25T22:40:00Z", undefined],
])("a ramp that began at %s allows %s a day", (from, perDay) => {
  const ramp = {
    over: "wait" as const,
    days: [
      { until: 1, perDay: 500 },
      { until: 3, perDay: 1_000 },
    ],
  };
  expect(rampRule(ramp, new Date(from), NOW)?.perDay).toBe(perDay);
});
