import { expect, test } from "vitest";
import { GatheredWork } from "../../../services/platform/gathered-work.ts";

/** Work that ends when the test says so. */
function workbench({ atOnce = 1, most = 100, patienceMs = 0 } = {}) {
  const runs: { readonly asks: readonly number[]; end(): void; fail(error: Error): void }[] = [];
  const work = new GatheredWork<number, string>({
    atOnce,
    most,
    patienceMs,
    run: (asks) =>
      new Promise((resolve, reject) => {
        runs.push({ asks, end: () => resolve(asks.map((ask) => `answer ${ask}`)), fail: reject });
      }),
  });
  return { work, runs, askedFor: () => runs.map(({ asks }) => asks) };
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

test("what is asked for in one turn of the event loop is done by one run, and each gets its own answer", async () => {
  const { work, runs, askedFor } = workbench();
  const answers = Promise.all([work.ask(1), work.ask(2), work.ask(3)]);
  await nextTurn();
  expect(askedFor()).toEqual([[1, 2, 3]]);
  runs[0]!.end();
  expect(await answers).toEqual(["answer 1", "answer 2", "answer 3"]);
});

test("what is asked for meanwhile waits for the next run, which serves all of it", async () => {
  const { work, runs, askedFor } = workbench();
  void work.ask(1);
  await nextTurn();
  void work.ask(2);
  await nextTurn();
  const last = work.ask(3);
  await nextTurn();
  expect(askedFor()).toEqual([[1]]);
  runs[0]!.end();
  await nextTurn();
  await nextTurn();
  expect(askedFor()).toEqual([[1], [2, 3]]);
  runs[1]!.end();
  expect(await last).toBe("answer 3");
});

test("so many runs go on at a time, and a run serves so many at most", async () => {
  const { work, runs, askedFor } = workbench({ atOnce: 2, most: 2 });
  for (const ask of [1, 2, 3, 4, 5]) void work.ask(ask);
  for (let turn = 0; turn < 5; turn += 1) await nextTurn();
  expect(askedFor()).toEqual([
    [1, 2],
    [3, 4],
  ]);
  runs[1]!.end();
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(askedFor().at(-1)).toEqual([5]);
});

test("a run that fails fails for those that it serves, and the next goes on", async () => {
  const { work, runs } = workbench();
  const failed = work.ask(1).catch((error: Error) => error.message);
  await nextTurn();
  const served = work.ask(2);
  runs[0]!.fail(new Error("away"));
  expect(await failed).toBe("away");
  await nextTurn();
  await nextTurn();
  runs[1]!.end();
  expect(await served).toBe("answer 2");
});

test("a run that few ask for waits a moment where the last one served many", async () => {
  const { work, runs, askedFor } = workbench({ patienceMs: 60_000 });
  for (const ask of [1, 2, 3, 4]) void work.ask(ask);
  await nextTurn();
  runs[0]!.end();
  await nextTurn();
  // One of two waits for the other, and goes with it at once.
  void work.ask(5);
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(askedFor()).toHaveLength(1);
  void work.ask(6);
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(askedFor()).toEqual([
    [1, 2, 3, 4],
    [5, 6],
  ]);
  runs[1]!.end();
  // Nobody else comes after a run of two: one alone is enough.
  await nextTurn();
  void work.ask(7);
  for (let turn = 0; turn < 3; turn += 1) await nextTurn();
  expect(askedFor().at(-1)).toEqual([7]);
});

test("nobody waits for others who do not come", async () => {
  const { work, runs } = workbench({ patienceMs: 5 });
  for (const ask of [1, 2, 3, 4]) void work.ask(ask);
  await nextTurn();
  runs[0]!.end();
  await nextTurn();
  const alone = work.ask(5);
  while (runs.length < 2) await nextTurn();
  runs[1]!.end();
  expect(await alone).toBe("answer 5");
});
