import { describe, expect, test } from "vitest";
import { coverPeriod, splitBucket } from "../../../services/store/mail/events/event-counts.ts";
import { fc } from "../../support/property.ts";

const cover = (from: string, until: string) =>
  coverPeriod({ from: new Date(from), until: new Date(until) }).map(
    (stretch) => `${stretch.source} ${stretch.from.toISOString()} ${stretch.until.toISOString()}`,
  );

describe("coverPeriod", () => {
  test("days inside, hours and minutes around them, single events at the ends", () => {
    expect(cover("2026-01-01T22:58:30Z", "2026-01-04T01:02:01Z")).toEqual([
      "events 2026-01-01T22:58:30.000Z 2026-01-01T22:59:00.000Z",
      "minute 2026-01-01T22:59:00.000Z 2026-01-01T23:00:00.000Z",
      "hour 2026-01-01T23:00:00.000Z 2026-01-02T00:00:00.000Z",
      "day 2026-01-02T00:00:00.000Z 2026-01-04T00:00:00.000Z",
      "hour 2026-01-04T00:00:00.000Z 2026-01-04T01:00:00.000Z",
      "minute 2026-01-04T01:00:00.000Z 2026-01-04T01:02:00.000Z",
      "events 2026-01-04T01:02:00.000Z 2026-01-04T01:02:01.000Z",
    ]);
  });

  test("within a minute there is nothing but events; an empty period has no stretches", () => {
    expect(cover("2026-01-01T00:00:01Z", "2026-01-01T00:00:59Z")).toHaveLength(1);
    expect(cover("2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z")).toEqual([]);
  });

  const moment = fc.date({
    min: new Date("1970-01-02T00:00:00Z"),
    max: new Date("2100-01-01T00:00:00Z"),
    noInvalidDate: true,
  });

  test("for any period: no gap, no overlap, whole units, at most two minutes of single events", () => {
    fc.assert(
      fc.property(moment, moment, (one, other) => {
        const [from, until] = one < other ? [one, other] : [other, one];
        const stretches = coverPeriod({ from, until });
        let end = from;
        let singleMs = 0;
        for (const stretch of stretches) {
          expect(stretch.from).toEqual(end);
          expect(stretch.until.getTime()).toBeGreaterThan(stretch.from.getTime());
          const lengthMs = stretch.until.getTime() - stretch.from.getTime();
          const unitMs = { events: 1, minute: 60_000, hour: 3_600_000, day: 86_400_000 }[stretch.source];
          expect(lengthMs % unitMs).toBe(0);
          expect(stretch.from.getTime() % unitMs).toBe(0);
          if (stretch.source === "events") singleMs += lengthMs;
          end = stretch.until;
        }
        expect(end).toEqual(until);
        expect(singleMs).toBeLessThan(120_000);
        expect(stretches.length).toBeLessThanOrEqual(7);
      }),
    );
  });
});

test("a bucket splits into finer units down to single events", () => {
  const sources: string[] = [];
  let stretch = coverPeriod({ from: new Date("2026-01-01T00:00:00Z"), until: new Date("2026-01-02T00:00:00Z") })[0]!;
  while (stretch.source !== "events") {
    stretch = splitBucket(stretch)[0]!;
    sources.push(stretch.source);
  }
  expect(sources).toEqual(["hour", "minute", "events"]);
});
