import { setImmediate } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import { giveBackMemorySoon } from "../../../services/platform/give-back-memory.ts";

afterEach(() => void vi.useRealTimers());

/** Held by nothing once it is returned. */
const makeGarbage = () => new WeakRef({ text: "what a start needs" });

it("collects, a while after the start, what nothing needs any more", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  const garbage = makeGarbage();
  giveBackMemorySoon();
  // Until the end of its turn it is held all the same.
  await setImmediate();
  vi.advanceTimersByTime(60_000);
  expect(garbage.deref()).toBeUndefined();
  expect("gc" in globalThis).toBe(false);
});
