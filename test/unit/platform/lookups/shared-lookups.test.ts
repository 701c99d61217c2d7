import { describe, expect, it } from "vitest";
import { SharedLookups } from "../../../../services/platform/lookups/shared-lookups.ts";

/** A look that waits until it is let go, and gives the number that it began with. */
function makeLook() {
  const pending: (() => void)[] = [];
  let begun = 0;
  return {
    look: () => {
      begun += 1;
      const number = begun;
      return new Promise<number>((resolve) => pending.push(() => resolve(number)));
    },
    letGo: async () => {
      pending.shift()?.();
      await nextTurn();
    },
    get begun() {
      return begun;
    },
  };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe("SharedLookups", () => {
  it("lets those who come meanwhile share the next look, never the one under way", async () => {
    const lookups = new SharedLookups<number>();
    const { look, letGo } = makeLook();
    const first = lookups.find("a", look);
    await nextTurn();
    const second = lookups.find("a", look);
    const third = lookups.find("a", look);
    await letGo();
    expect(await first).toBe(1);
    await letGo();
    expect(await Promise.all([second, third])).toEqual([2, 2]);
    const fourth = lookups.find("a", look);
    await nextTurn();
    await letGo();
    expect(await fourth).toBe(3);
  });

  it("looks once for all who come in one turn of the event loop", async () => {
    const lookups = new SharedLookups<number>();
    const { look, letGo } = makeLook();
    const both = [lookups.find("a", look), lookups.find("a", look)];
    await nextTurn();
    await letGo();
    expect(await Promise.all(both)).toEqual([1, 1]);
  });

  it("keeps keys apart", async () => {
    const lookups = new SharedLookups<number>();
    const a = makeLook();
    const b = makeLook();
    const answers = [lookups.find("a", a.look), lookups.find("b", b.look)];
    await nextTurn();
    await a.letGo();
    await b.letGo();
    expect(await Promise.all(answers)).toEqual([1, 1]);
  });

  it("hands a failure to those who share it, and looks again for the next", async () => {
    const lookups = new SharedLookups<number>();
    const fails = () => Promise.reject(new Error("away"));
    const answers = [lookups.find("a", fails), lookups.find("a", fails)];
    expect((await Promise.allSettled(answers)).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(await lookups.find("a", async () => 7)).toBe(7);
  });
});
