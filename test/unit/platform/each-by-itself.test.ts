import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EachByItself } from "../../../services/platform/each-by-itself.ts";

const withCode = (code: string) => Object.assign(new Error(code), { code });
const succeed = async () => "done";

beforeEach(() => void vi.useFakeTimers({ toFake: ["performance"] }));
afterEach(() => void vi.useRealTimers());

describe("each by itself", () => {
  const failed = vi.fn();
  beforeEach(() => failed.mockReset());
  const failing = (error: unknown) => async () => {
    throw error;
  };

  test("one that fails is told of, rests longer each time, and begins anew once it succeeds", async () => {
    const each = new EachByItself<string>(failed);
    const error = new Error("its own");
    for (const restMs of [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]) {
      expect(await each.attempt("one", failing(error))).toBeUndefined();
      expect(failed).toHaveBeenLastCalledWith("one", error);
      vi.advanceTimersByTime(restMs - 1);
      expect(await each.attempt("one", succeed)).toBeUndefined();
      expect(each.resting).toEqual(["one"]);
      expect(await each.attempt("other", succeed)).toBe("done");
      vi.advanceTimersByTime(1);
      expect(each.resting).toEqual([]);
    }
    expect(await each.attempt("one", succeed)).toBe("done");
    await each.attempt("one", failing(error));
    vi.advanceTimersByTime(5_000);
    expect(await each.attempt("one", succeed)).toBe("done");
    expect(failed).toHaveBeenCalledTimes(9);
  });

  test.each([
    ["no answer", withCode("ECONNREFUSED"), false],
    ["shutting down", withCode("57P01"), false],
    ["read only", withCode("25006"), false],
    ["no room", withCode("53100"), false],
    ["a value that does not fit", withCode("22P02"), true],
    ["a statement that takes too long", withCode("57014"), true],
    ["a machine of several", withCode("08006"), true],
    ["no word of a database", new TypeError("of undefined"), true],
  ])("%s", async (_, error, isOwn) => {
    const attempt = new EachByItself<number>(failed).attempt(1, failing(error));
    await (isOwn ? expect(attempt).resolves.toBeUndefined() : expect(attempt).rejects.toBe(error));
    expect(failed).toHaveBeenCalledTimes(isOwn ? 1 : 0);
  });
});
