import { expect, test } from "vitest";
import { OctetBudget } from "../../../services/delivery/octet-budget.ts";

test("who asks first is served first, within the budget", async () => {
  const budget = new OctetBudget(100, 48);
  const order: string[] = [];
  const take = async (name: string, octets: number) => {
    const giveBack = await budget.take(octets);
    order.push(name);
    return giveBack;
  };
  const giveBackA = await take("a", 60);
  const b = take("b", 60);
  const c = take("c", 10);
  await Promise.resolve();
  expect(order).toEqual(["a"]);
  giveBackA();
  await Promise.all([b, c]);
  expect(order).toEqual(["a", "b", "c"]);
});

test("what is larger than the whole budget goes alone", async () => {
  const budget = new OctetBudget(100, 48);
  const giveBack = await budget.take(1_000);
  let second = false;
  const waiting = budget.take(1).then(() => {
    second = true;
  });
  await Promise.resolve();
  expect(second).toBe(false);
  giveBack();
  await waiting;
  expect(second).toBe(true);
});

test("is crowded when eight wait, for what would have to wait too", async () => {
  const budget = new OctetBudget(25_600, 48);
  const giveBack = await budget.take(25_600);
  const waiting = Array.from({ length: 7 }, () => budget.take(25_600));
  expect(budget.isCrowdedFor(25_600)).toBe(false);
  waiting.push(budget.take(25_600));
  expect([budget.isCrowdedFor(25_600), budget.isCrowdedFor(100)]).toEqual([true, false]);
  giveBack();
  for (const turn of waiting) (await turn)();
  expect(budget.isCrowdedFor(25_600)).toBe(false);
});

test("what takes little waits for nobody", async () => {
  const budget = new OctetBudget(25_600, 48);
  const giveBack = await budget.take(25_600);
  const large = budget.take(25_600);
  (await budget.take(100))();
  giveBack();
  (await large)();
});
