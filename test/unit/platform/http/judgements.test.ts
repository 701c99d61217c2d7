import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Judgements } from "../../../../services/platform/http/judgements.ts";

const busy = (ms: number) => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};
const of = (key: string) => ({ key, group: key });

test("callers take turns, and what waits for the event loop goes on between two judgements", async () => {
  const judgements = new Judgements();
  const order: string[] = [];
  const judge = (name: string) => {
    busy(20);
    order.push(name);
  };
  const judged = ["one", "two", "three"].map((name) => judgements.run(of("a"), () => judge(name)));
  judged.push(judgements.run(of("b"), () => judge("neighbour")));
  let turns = 0;
  const isOver = Promise.all(judged).then(() => true);
  while (!(await Promise.race([isOver, turn(false)]))) turns += 1;
  expect(order).toEqual(["one", "two", "neighbour", "three"]);
  expect(turns).toBeGreaterThan(10);
});

test("one that throws ends its turn", async () => {
  const judgements = new Judgements();
  const failing = judgements.run(of("a"), () => {
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  expect(await judgements.run(of("a"), () => 1)).toBe(1);
});
