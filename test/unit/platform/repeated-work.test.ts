import { describe, expect, test, vi } from "vitest";
import { RepeatedWork } from "../../../services/platform/repeated-work.ts";

const LONG_MS = 3_600_000;

describe("repeated work", () => {
  test("rests between turns until it is woken, be it in the middle of one", async () => {
    let turns = 0;
    const work: RepeatedWork = new RepeatedWork({
      take: async () => {
        turns += 1;
        await Promise.resolve();
        if (turns === 2) work.wake();
        return LONG_MS;
      },
      failed: () => LONG_MS,
    });
    await expect.poll(() => turns).toBe(1);
    work.wake();
    await expect.poll(() => turns).toBe(3);
    await work.stop();
    expect(turns).toBe(3);
  });

  test("goes on after a turn that failed", async () => {
    const failures: unknown[] = [];
    let turns = 0;
    const work = new RepeatedWork({
      take: async () => {
        turns += 1;
        if (turns < 3) throw new Error(`turn ${turns}`);
        return LONG_MS;
      },
      failed: (error) => {
        failures.push(error);
        return 1;
      },
    });
    await expect.poll(() => turns).toBe(3);
    await work.stop();
    expect(failures).toEqual([new Error("turn 1"), new Error("turn 2")]);
  });

  test("stops when its turn has ended, and hears nothing of what the stop cut short", async () => {
    const failed = vi.fn(() => LONG_MS);
    const work = new RepeatedWork({
      take: (signal) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("cut short")))),
      failed,
    });
    await work.stop();
    await work.stop();
    expect(failed).not.toHaveBeenCalled();
  });
});
