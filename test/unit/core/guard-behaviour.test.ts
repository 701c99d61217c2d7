import { describe, expect, it, test } from "vitest";
import {
  type Behaviour,
  type BehaviourPolicy,
  isAboveShare,
  judgeBehaviour,
} from "../../../services/core/mail/guard/behaviour.ts";

const share = { action: "hold", windowMinutes: 60, leastTried: 200, leastWrong: 10, percent: 5 } as const;
const POLICY: BehaviourPolicy = {
  complaints: { ...share, leastWrong: 3, percent: 0.3 },
  hardBounces: share,
  unknownAddresses: { ...share, percent: 4 },
  rise: { action: "hold", leastSent: 1_000, factor: 10, historyDays: 28, leastAgeDays: 7 },
  newCountry: { action: "tell", settledHours: 72 },
};
const QUIET: Behaviour = {
  complaints: { tried: 0, wrong: 0 },
  hardBounces: { tried: 0, wrong: 0 },
  unknownAddresses: { tried: 0, wrong: 0 },
  rise: { sent: 0, busiest: 0, ageDays: 100 },
  newPlaces: [],
};

test.each([
  // One of three says nothing, and neither do many of few.
  [3, 1, false],
  [199, 199, false],
  [200, 9, false],
  [200, 10, true],
  [300, 14, false],
  [300, 15, true],
  [10_000, 499, false],
  [10_000, 500, true],
])("of %i tried, %i wrong: above the share is %s", (tried, wrong, isAbove) => {
  expect(isAboveShare({ tried, wrong }, share)).toBe(isAbove);
});

it("says nothing against who does nothing", () => {
  expect(judgeBehaviour(QUIET, POLICY)).toEqual([]);
});

test.each([
  ["complaints", { complaints: { tried: 1_000, wrong: 3 } }, "complaints: 3 of 1000 recipients (limit 0.3%)"],
  ["hardBounces", { hardBounces: { tried: 200, wrong: 20 } }, "hard bounces: 20 of 200 recipients (limit 5%)"],
  [
    "unknownAddresses",
    { unknownAddresses: { tried: 300, wrong: 12 } },
    "unknown addresses: 12 of 300 recipients (limit 4%)",
  ],
  [
    "rise",
    { rise: { sent: 5_000, busiest: 400, ageDays: 8 } },
    "5000 recipients in an hour, where the busiest hour before had 400",
  ],
])("finds %s", (detector, changes, message) => {
  const findings = judgeBehaviour({ ...QUIET, ...changes }, POLICY);
  expect(findings).toMatchObject([{ detector, action: "hold", reason: { message } }]);
});

test.each([
  ["a young instance has no history", { sent: 50_000, busiest: 0, ageDays: 6.9 }, false],
  ["few are too few to matter", { sent: 999, busiest: 1, ageDays: 100 }, false],
  ["nine times as much is much, and no rise", { sent: 9_000, busiest: 1_000, ageDays: 100 }, false],
  ["ten times as much is one", { sent: 10_000, busiest: 1_000, ageDays: 100 }, true],
  ["one that never sent much and begins at once", { sent: 1_000, busiest: 0, ageDays: 7 }, true],
])("a sudden rise: %s", (_, rise, isOne) => {
  expect(judgeBehaviour({ ...QUIET, rise }, POLICY).length === 1).toBe(isOne);
});

describe("a credential from a new country", () => {
  const place = (...known: { country: string; hours: number }[]): Behaviour => ({
    ...QUIET,
    newPlaces: [{ credential: "campaign 7", country: "BR", known }],
  });

  test.each([
    ["its first one is none", [], false],
    ["nor is one beside another that is as new", [{ country: "AR", hours: 71 }], false],
    ["one beside what is settled is", [{ country: "AR", hours: 72 }], true],
  ])("%s", (_, known, isOne) => {
    expect(judgeBehaviour(place(...known), POLICY).length === 1).toBe(isOne);
  });

  it("is named with where it was known from", () => {
    const known = [
      { country: "UY", hours: 100 },
      { country: "AR", hours: 900 },
    ];
    expect(judgeBehaviour(place(...known), POLICY)).toMatchObject([
      { action: "tell", reason: { message: "campaign 7 is used from BR, and was known from AR, UY" } },
    ]);
  });
});

it("an instance may have actions of its own", () => {
  const behaviour = { ...QUIET, hardBounces: { tried: 200, wrong: 20 }, complaints: { tried: 1_000, wrong: 9 } };
  const own = { hardBounces: "off", complaints: "tell" } as const;
  expect(judgeBehaviour(behaviour, POLICY, own).map(({ detector, action }) => [detector, action])).toEqual([
    ["complaints", "tell"],
  ]);
});
