import { expect, it } from "vitest";
import { unacceptable } from "../../../services/core/refusal.ts";
import { LargeWork, type Worker } from "../../../services/dns-api/large-work.ts";

const MIB = 2 ** 20;
const worker = (key: string, mostLarge = 9): Worker => ({
  key,
  mostLarge,
  tooMuch: () => unacceptable("as-stated", { text: `${key} has enough` }),
});

/** A work that is under way until it is told to end. */
function startWork(largeWork: LargeWork, key: string, weight: number, log: string[], mostLarge?: number) {
  let end = (_failure?: Error) => {};
  const lasting = new Promise<void>((resolve, reject) => {
    end = (failure) => (failure ? reject(failure) : resolve());
  });
  const done = largeWork.run(worker(key, mostLarge), weight, async () => {
    log.push(key);
    await lasting;
    return { ok: true, value: key } as const;
  });
  return { done, end };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

it("does large work one after the other, also after one that failed, while small work passes", async () => {
  const log: string[] = [];
  const largeWork = new LargeWork(64 * MIB);
  const first = startWork(largeWork, "one", 100 * MIB, log);
  const second = startWork(largeWork, "two", 100 * MIB, log);
  await settle();
  expect(log).toEqual(["one"]);
  const small = startWork(largeWork, "small", MIB, log);
  small.end();
  expect(await small.done).toEqual({ ok: true, value: "small" });
  first.end(new Error("broken"));
  await expect(first.done).rejects.toThrow("broken");
  second.end();
  expect(await second.done).toEqual({ ok: true, value: "two" });
});

it("lets work in together as far as there is room, and nobody past who waits", async () => {
  const log: string[] = [];
  const largeWork = new LargeWork(64 * MIB);
  const works = [20, 20, 40, 5].map((mebibytes, index) => startWork(largeWork, `${index}`, mebibytes * MIB, log));
  await settle();
  expect(log).toEqual(["0", "1"]);
  works[0]!.end();
  await works[0]!.done;
  await settle();
  expect(log).toEqual(["0", "1", "2"]);
  works[1]!.end();
  await works[1]!.done;
  await settle();
  expect(log).toEqual(["0", "1", "2", "3"]);
  for (const work of works) work.end();
});

it("serves callers in turn, however long the queue of one of them", async () => {
  const log: string[] = [];
  const largeWork = new LargeWork(64 * MIB);
  const works = ["a", "a", "a", "a", "b", "c", "b"].map((key) => startWork(largeWork, key, 64 * MIB, log));
  for (const work of works) work.end();
  await Promise.all(works.map(({ done }) => done));
  expect(log).toEqual(["a", "a", "b", "c", "a", "b", "a"]);
});

it("refuses a caller more large works than it may have under way or waiting, and counts none that ended", async () => {
  const log: string[] = [];
  const largeWork = new LargeWork(64 * MIB);
  const works = [1, 2].map(() => startWork(largeWork, "a", 32 * MIB, log, 2));
  expect(await startWork(largeWork, "a", 32 * MIB, log, 2).done).toMatchObject({
    ok: false,
    error: { values: { text: "a has enough" } },
  });
  // What is not large is not counted.
  const middling = startWork(largeWork, "a", 8 * MIB, log, 2);
  for (const work of [...works, middling]) work.end();
  await Promise.all([...works, middling].map(({ done }) => done));
  const again = startWork(largeWork, "a", 32 * MIB, log, 2);
  again.end();
  expect(await again.done).toEqual({ ok: true, value: "a" });
});
