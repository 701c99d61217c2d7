import { expect, test } from "vitest";
import { FairTurns } from "../../../services/dns-api/follow/fair-turns.ts";

let now = 0;
const turns = () => new FairTurns(2, () => now);
const waiting = (...companies: (number | null)[]) => companies.map((company, sinceMs) => ({ company, sinceMs }));

async function spend(of: FairTurns, company: number, ms: number): Promise<void> {
  await of.run(company, async () => {
    now += ms;
  });
}

test("who has taken least lately is next, and of one company who waits longest", async () => {
  const fair = turns();
  await spend(fair, 1, 500);
  await spend(fair, 2, 100);
  const list = waiting(1, 2, 2, 3);
  const order = [1, 2, 3, 4].map(() => fair.next(list));
  expect(order.map((one) => [one?.company, one?.sinceMs])).toEqual([
    [3, 3],
    [2, 1],
    [2, 2],
    [1, 0],
  ]);
  expect(fair.next(list)).toBeUndefined();
});

test("what was taken is forgotten", async () => {
  const fair = turns();
  await spend(fair, 1, 1_000);
  now += 300_000;
  await spend(fair, 2, 10);
  expect(fair.next(waiting(1, 2))?.company).toBe(1);
});

test("a company has no more than its turns at once, and one that fails gives its turn back", async () => {
  const fair = turns();
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const running = [fair.run(1, () => ended), fair.run(1, () => ended)];
  const list = waiting(1, null);
  expect(fair.next(list)?.company).toBe(null);
  expect(fair.next(list)).toBeUndefined();
  end();
  await Promise.all(running);
  await expect(fair.run(1, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(fair.next(list)?.company).toBe(1);
});
