import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Turn } from "../../../services/platform/turns.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

test("a turn is over after some milliseconds, until the next begins", async () => {
  const turn = new Turn();
  expect(turn.isOver).toBe(false);
  vi.advanceTimersByTime(10);
  expect(turn.isOver).toBe(true);
  await turn.next();
  expect(turn.isOver).toBe(false);
});

test("only each so manieth question is one to the clock", () => {
  const turn = new Turn(3);
  vi.advanceTimersByTime(10);
  expect(Array.from({ length: 7 }, () => turn.isOver)).toEqual([false, false, true, false, false, true, false]);
});
