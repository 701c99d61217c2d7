import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { OctetBudget } from "../../../services/delivery/octet-budget.ts";

/** A party that nothing else is of. */
const alone = () => [randomUUID()];

test("who asks first is served first, within the budget", async () => {
  const budget = new OctetBudget(100, 48);
  const order: string[] = [];
  const take = async (name: string, octets: number) => {
    const giveBack = await budget.take(octets, alone());
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
  const giveBack = await budget.take(1_000, alone());
  let second = false;
  const waiting = budget.take(1, alone()).then(() => {
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
  const giveBack = await budget.take(25_600, alone());
  const waiting = Array.from({ length: 7 }, () => budget.take(25_600, alone()));
  expect(budget.isCrowdedFor(25_600, alone())).toBe(false);
  waiting.push(budget.take(25_600, alone()));
  expect([budget.isCrowdedFor(25_600, alone()), budget.isCrowdedFor(100, alone())]).toEqual([true, false]);
  giveBack();
  for (const turn of waiting) (await turn)();
  expect(budget.isCrowdedFor(25_600, alone())).toBe(false);
});

test("what takes little waits for nobody", async () => {
  const budget = new OctetBudget(25_600, 48);
  const giveBack = await budget.take(25_600, alone());
  const large = budget.take(25_600, alone());
  (await budget.take(100, alone()))();
  giveBack();
  (await large)();
});

describe("one party", () => {
  const own = (party: string) => [party, ...alone()];

  test.each(["instance 1", "destination example.org"])(
    "%s has half of it, and others the rest at once",
    async (party) => {
      const budget = new OctetBudget(100, 48);
      const giveBack = await budget.take(40, own(party));
      let isServed = false;
      const waiting = budget.take(20, own(party)).then((giveBackToo) => {
        isServed = true;
        return giveBackToo;
      });
      const other = await budget.take(40, alone());
      expect(isServed).toBe(false);
      other();
      await Promise.resolve();
      expect(isServed).toBe(false);
      giveBack();
      (await waiting)();
    },
  );

  test("may have one message that is larger than its half", async () => {
    const budget = new OctetBudget(100, 48);
    const giveBack = await budget.take(80, own("a"));
    (await budget.take(20, own("b")))();
    giveBack();
    (await budget.take(1_000, own("a")))();
  });

  test("has half of the places to wait", async () => {
    const budget = new OctetBudget(25_600, 48);
    const turns = [await budget.take(12_800, own("a"))];
    const waiting = Array.from({ length: 4 }, () => budget.take(12_800, own("a")));
    expect(budget.isCrowdedFor(12_800, own("a"))).toBe(true);
    expect(budget.isCrowdedFor(12_800, own("b"))).toBe(false);
    turns.push(await budget.take(12_800, own("b")));
    expect(budget.isCrowdedFor(12_800, own("b"))).toBe(false);
    for (const turn of turns) turn();
    for (const turn of waiting) (await turn)();
    expect(budget.isCrowdedFor(12_800, own("a"))).toBe(false);
  });
});
