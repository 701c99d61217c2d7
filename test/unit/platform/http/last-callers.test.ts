import { expect, test } from "vitest";
import { LastCallers } from "../../../../services/platform/http/last-callers.ts";

test("a client is the only one until 5 s after each request of any other", () => {
  let nowMs = 1_000;
  const callers = new LastCallers(() => nowMs);
  expect(callers.isAlone("a")).toBe(true);
  callers.note("a");
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([true, false]);
  nowMs += 1_000;
  callers.note("b");
  expect([callers.isAlone("a"), callers.isAlone("b"), callers.isAlone("c")]).toEqual([false, false, false]);
  callers.note("b");
  nowMs += 4_500;
  callers.note("b");
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([false, true]);
  callers.note("a");
  nowMs += 5_001;
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([true, true]);
});
