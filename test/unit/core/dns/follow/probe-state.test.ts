import { expect, test } from "vitest";
import { judgeProbe, type ProbeState } from "../../../../../services/core/dns/follow/probe-state.ts";

const UP: ProbeState = { up: true, sinceMs: 0, flaps: 0, wellSinceMs: undefined };
const RULE = { recovery: 30, quorum: 51 };
const said = (...verdicts: boolean[]) => verdicts.map((up, index) => ({ node: `n${index}`, up }));

test.each([
  [[], true],
  [[true], true],
  [[false], false],
  [[false, true], true],
  [[false, false, true], false],
])("verdicts %j of nodes make a member up: %s", (verdicts, up) => {
  expect(judgeProbe(UP, said(...verdicts), RULE, 1_000).state.up).toBe(up);
});

test("a member is up again when it was well for its recovery time, and not before", () => {
  const down = judgeProbe(UP, said(false), RULE, 1_000).state;
  expect(down).toEqual({ up: false, sinceMs: 1_000, flaps: 1, wellSinceMs: undefined });
  const waiting = judgeProbe(down, said(true), RULE, 5_000);
  expect(waiting).toEqual({ state: { ...down, wellSinceMs: 5_000 }, changesAtMs: 35_000 });
  const again = judgeProbe(waiting.state, said(false), RULE, 6_000).state;
  expect(again).toEqual(down);
  expect(judgeProbe(waiting.state, said(true), RULE, 34_999).state.up).toBe(false);
  expect(judgeProbe(waiting.state, said(true), RULE, 35_000).state).toEqual({
    ...{ up: true, sinceMs: 35_000, flaps: 1, wellSinceMs: undefined },
  });
});

test("without a node at work all stays as it is", () => {
  const down = judgeProbe(UP, said(false), RULE, 1_000).state;
  expect(judgeProbe(down, [], RULE, 9_000_000).state).toBe(down);
});

/** Changes of a member that is judged each second by a node whose mind changes every `period` seconds. */
function changesOf(period: number, hours: number, recovery: number): number {
  let state = UP;
  let changes = 0;
  for (let second = 0; second < hours * 3_600; second += 1) {
    const next = judgeProbe(
      state,
      said(Math.floor(second / period) % 2 === 0),
      { recovery, quorum: 51 },
      second * 1_000,
    );
    if (next.state.up !== state.up) changes += 1;
    state = next.state;
  }
  return changes;
}

test.each([5, 20, 60, 300, 900])(
  "a member that turns each %d s changes its zone a bounded number of times",
  (period) => {
    for (const recovery of [0, 1]) {
      const first = changesOf(period, 1, recovery);
      expect(first).toBeLessThanOrEqual(26);
      expect(changesOf(period, 24, recovery) - first).toBeLessThanOrEqual(23 * 4);
    }
  },
);
