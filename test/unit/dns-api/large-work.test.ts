import { expect, it } from "vitest";
import { unacceptable } from "../../../services/core/refusal.ts";
import { LargeWork, type Worker, type WorkHolder } from "../../../services/dns-api/large-work.ts";
import { FairTurns } from "../../../services/platform/fair-turns.ts";

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

it("begins work anew in a place when it turns out to be large, and lets it in without another place there", async () => {
  const largeWork = new LargeWork(1);
  const steps: string[] = [];
  const findWorker = () => Promise.resolve(worker("one"));
  const outcome = await largeWork.begin(findWorker, async (admitMuch) => {
    steps.push("begun");
    admitMuch({ records: 100_000, octets: 0 });
    steps.push("admitted");
    // As what is done for it may be large work too.
    return largeWork.run(worker("one"), 100 * MIB, () => Promise.resolve({ ok: true, value: "done" } as const));
  });
  expect(outcome).toEqual({ ok: true, value: "done" });
  expect(steps).toEqual(["begun", "begun", "admitted"]);
  const small = await largeWork.begin(findWorker, async (admitMuch) => {
    admitMuch({ records: 10, octets: 100 });
    return { ok: true, value: "small" } as const;
  });
  expect(small).toEqual({ ok: true, value: "small" });
});

it("holds no turn of a zone while work waits for its place", async () => {
  const largeWork = new LargeWork(1);
  const turns = new FairTurns({ atOnce: 9, perClient: 1 });
  const findWorker = () => Promise.resolve(worker("one"));
  const inTurn = <T>(work: () => Promise<T>) => turns.run("zone", work);
  const done = { ok: true, value: "done" } as const;
  let goOn = () => {};
  const reading = new Promise<void>((resolve) => (goOn = resolve));
  // One is in its place and waits for the zone's turn, which the other has until it knows that it needs a place.
  const second = largeWork.begin(findWorker, (admitMuch) =>
    inTurn(async () => {
      await reading;
      admitMuch({ records: 100_000, octets: 0 });
      return done;
    }),
  );
  const first = largeWork.run(worker("one"), 100 * MIB, () => inTurn(() => Promise.resolve(done)));
  await settle();
  goOn();
  expect(await Promise.all([first, second])).toEqual([done, done]);
});
