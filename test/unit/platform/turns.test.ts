import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Turn } from "../../../services/platform/turns.ts";

test("a turn is over after some milliseconds, until the next begins", async () => {
  const turn = new Turn();
  expect(turn.isOver).toBe(false);
  await sleep(10);
  expect(turn.isOver).toBe(true);
  await turn.next();
  expect(turn.isOver).toBe(false);
});

test("only each so manieth question is one to the clock", async () => {
  const turn = new Turn(3);
  await sleep(10);
  expect(Array.from({ length: 7 }, () => turn.isOver)).toEqual([false, false, true, false, false, true, false]);
});
