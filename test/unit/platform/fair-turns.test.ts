import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { FairTurns } from "../../../services/platform/fair-turns.ts";

/** Work that ends when it is told to; tells the order in which it was begun. */
function bench(turns: FairTurns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const done: Promise<string>[] = [];
  return {
    begun,
    done,
    ask: (client: string, name: string, group?: string) => {
      const work = () => {
        begun.push(name);
        return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
      };
      done.push(turns.run(client, work, group));
    },
    end: async (name: string) => {
      ends.get(name)!();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

describe("FairTurns", () => {
  test("one client has its share, and those who wait are taken in turn by client", async () => {
    const { ask, begun, end } = bench(new FairTurns({ atOnce: 2, perClient: 1 }));
    for (const name of ["a1", "a2", "a3"]) ask("a", name);
    ask("b", "b1");
    ask("b", "b2");
    ask("c", "c1");
    expect(begun).toEqual(["a1", "b1"]);
    await end("a1");
    expect(begun).toEqual(["a1", "b1", "a2"]);
    await end("a2");
    expect(begun).toEqual(["a1", "b1", "a2", "c1"]);
    await end("b1");
    expect(begun.at(-1)).toBe("b2");
    await end("c1");
    expect(begun.at(-1)).toBe("a3");
  });

  test("what is done aside leaves its place to others, and has one again afterwards, however it ends", async () => {
    const turns = new FairTurns({ atOnce: 1, perClient: 1 });
    const { ask, begun, end } = bench(turns);
    const steps: string[] = [];
    let fail!: (error: Error) => void;
    const away = turns.run("a", async (aside) => {
      const waited = aside(
        () =>
          new Promise((_, reject) => {
            fail = reject;
          }),
      );
      await waited.catch(() => steps.push("a is back"));
    });
    ask("b", "b1");
    expect(begun).toEqual(["b1"]);
    fail(new Error("no answer"));
    ask("c", "c1");
    await new Promise((resolve) => setImmediate(resolve));
    expect(steps).toEqual([]);
    await end("b1");
    await end("c1");
    await away;
    expect(steps).toEqual(["a is back"]);
    expect(await turns.run("d", async () => 1)).toBe(1);
  });

  test("work that fails gives its turn back, and is the caller's to hear of", async () => {
    const turns = new FairTurns({ atOnce: 1, perClient: 1 });
    await expect(turns.run("a", () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
    expect(await turns.run("b", async () => 1)).toBe(1);
    expect(turns.waitingOf("a")).toBe(0);
  });

  test("the clients of a group leave places to others, however many they are", async () => {
    const { ask, begun, end } = bench(new FairTurns({ atOnce: 3, perClient: 1, perGroup: 2 }));
    for (const name of ["a1", "a2", "a3", "a4"]) ask(name, name, "a");
    ask("b", "b1");
    expect(begun).toEqual(["a1", "a2", "b1"]);
    ask("c", "c1");
    await end("b1");
    expect(begun.at(-1)).toBe("c1");
    await end("a1");
    expect(begun.at(-1)).toBe("a3");
  });

  test("where the place rests, what waits for the event loop goes on between two pieces of work", async () => {
    const resting = new FairTurns({ atOnce: 1, perClient: 1 });
    const order: string[] = [];
    const work = (name: string) => () => {
      const end = performance.now() + 20;
      while (performance.now() < end);
      order.push(name);
    };
    const done = ["one", "two", "three"].map((name) => resting.runThenRest("a", work(name)));
    done.push(resting.runThenRest("b", work("neighbour")));
    let turns = 0;
    const isOver = Promise.all(done).then(() => true);
    while (!(await Promise.race([isOver, turn(false)]))) turns += 1;
    expect(order).toEqual(["one", "two", "neighbour", "three"]);
    expect(turns).toBeGreaterThan(10);
    const failing = resting.runThenRest("a", () => Promise.reject(new Error("broken")));
    await expect(failing).rejects.toThrow("broken");
    expect(await resting.runThenRest("b", () => 1)).toBe(1);
  });

  test("it tells how many wait", async () => {
    const turns = new FairTurns({ atOnce: 1, perClient: 1 });
    const { ask, end } = bench(turns);
    for (const name of ["a1", "a2", "a3"]) ask("a", name);
    expect(turns.waitingOf("a")).toBe(2);
    await end("a1");
    expect(turns.waitingOf("a")).toBe(1);
  });
});
