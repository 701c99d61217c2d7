import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { inTime, unlessAborted, withDeadline, withTime } from "../../../services/platform/deadline.ts";

const SOON_MS = 20;
const never = new Promise<string>(() => {});

test("what comes in time counts, and what goes wrong in time", async () => {
  expect(await inTime(Promise.resolve("here"), SOON_MS, () => "late")).toBe("here");
  await expect(inTime(Promise.reject(new Error("broken")), SOON_MS, () => "late")).rejects.toThrow("broken");
  expect(await withDeadline(Promise.resolve("here"), SOON_MS)).toBe("here");
});

test("what takes longer is not waited for, and what goes wrong with it later harms nobody", async () => {
  const later = sleep(2 * SOON_MS).then(() => Promise.reject(new Error("later")));
  expect(await inTime(later, SOON_MS, () => "late")).toBe("late");
  await expect(withDeadline(never, SOON_MS)).rejects.toThrow(`no answer within ${SOON_MS} ms`);
  await sleep(2 * SOON_MS);
});

test("whoever is told to stop waits no longer, nor begins to", async () => {
  const stop = new AbortController();
  const waiting = unlessAborted(never, stop.signal, () => "stopped");
  stop.abort();
  expect(await waiting).toBe("stopped");
  expect(await unlessAborted(never, stop.signal, () => "stopped")).toBe("stopped");
});

test("time is over although nobody but the work refers to it, and when its owner stops", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const stop = new AbortController();
  const untilOver = (time: AbortSignal) =>
    new Promise<unknown>((resolve) => {
      if (time.aborted) resolve(time.reason);
      time.addEventListener("abort", () => resolve(time.reason));
    });
  const over = withTime({ limitMs: 5 * SOON_MS, stop: stop.signal }, untilOver);
  for (let times = 0; times < 3; times++) {
    collect();
    await sleep(SOON_MS / 4);
  }
  expect(await over).toEqual(new Error(`no answer within ${5 * SOON_MS} ms`));
  const stopped = withTime({ limitMs: 60_000, stop: stop.signal }, untilOver);
  stop.abort("ends");
  expect(await stopped).toBe("ends");
  expect(await withTime({ limitMs: 60_000, stop: stop.signal }, untilOver)).toBe("ends");
});
