import { expect, test } from "vitest";
import { LastCallers } from "../../../../services/platform/http/last-callers.ts";

test("a client is the only one from 5 s after the last request of any other has ended", () => {
  let nowMs = 1_000;
  const callers = new LastCallers(() => nowMs);
  const ask = (client: string) => {
    callers.begin(client);
    callers.end(client);
  };
  expect(callers.isAlone("a")).toBe(true);
  ask("a");
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([true, false]);
  nowMs += 1_000;
  callers.begin("b");
  expect([callers.isAlone("a"), callers.isAlone("b"), callers.isAlone("c")]).toEqual([false, false, false]);
  nowMs += 60_000;
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([false, true]);
  ask("a");
  callers.end("b");
  nowMs += 4_500;
  ask("b");
  ask("a");
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([false, false]);
  nowMs += 5_001;
  ask("a");
  expect([callers.isAlone("a"), callers.isAlone("b")]).toEqual([true, false]);
});
