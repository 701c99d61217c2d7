import { expect, it } from "vitest";
import { unacceptable } from "../../../services/core/refusal.ts";
import { LargeWork, type Worker, type WorkHolder } from "../../../services/dns-api/large-work.ts";

const MIB = 2 ** 20;
const holder = (key: string, mostLarge = 9): WorkHolder => ({
  key,
  mostLarge,
  tooMuch: () => unacceptable("as-stated", { text: `${key} has enough` }),
});
/** A company is told by its reseller, a point and its name. */
const worker = (key: string, mostLarge?: number): Worker => ({
  own: holder(key, mostLarge),
  reseller: holder(key.split(".")[0]!, 9),
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

it("serves resellers in turn, however many companies one of them has, and counts these together", async () => {
  const log: string[] = [];
  const largeWork = new LargeWork(64 * MIB);
  const companies = ["a.1", "a.2", "a.3", "a.1", "a.2", "b", "a.4", "c.1"];
  const works = companies.map((key) => startWork(largeWork, key, 64 * MIB, log));
  await settle();
  for (const key of ["a.5", "a.6", "a.7"]) works.push(startWork(largeWork, key, 64 * MIB, log));
  expect(await startWork(largeWork, "a.8", 64 * MIB, log).done).toMatchObject({
    error: { values: { text: "a has enough" } },
  });
  for (const work of works) work.end();
  await Promise.all(works.map(({ done }) => done));
  expect(log.slice(0, 5)).toEqual(["a.1", "a.2", "b", "c.1", "a.3"]);
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
