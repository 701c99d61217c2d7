import { expect, test } from "vitest";
import { LeastServedTurns } from "../../../services/dns-api/follow/least-served-turns.ts";

let now = 0;
const turns = () => new LeastServedTurns({ ofCompany: 2, ofReseller: 3 }, () => now);
/** Companies below 10 have a reseller each, the others one together. */
const whose = (company: number | null) => ({ company, reseller: (company ?? 0) < 10 ? `r${company}` : "many" });
const waiting = (...companies: (number | null)[]) =>
  companies.map((company, sinceMs) => ({ ...whose(company), sinceMs }));

async function spend(of: LeastServedTurns, company: number, ms: number): Promise<void> {
  await of.run(whose(company), async () => {
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
  const { promise: ended, end } = open();
  const running = [1, 1].map((company) => fair.run(whose(company), () => ended));
  const list = waiting(1, null);
  expect(fair.next(list)?.company).toBe(null);
  expect(fair.next(list)).toBeUndefined();
  end();
  await Promise.all(running);
  await expect(fair.run(whose(1), () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(fair.next(list)?.company).toBe(1);
});

test("a reseller's companies take turns among themselves, and have no more at once than it has", async () => {
  const fair = turns();
  await spend(fair, 11, 300);
  await spend(fair, 12, 100);
  await spend(fair, 1, 200);
  const list = waiting(11, 12, 13, 1);
  expect([1, 2, 3, 4].map(() => fair.next(list)?.company)).toEqual([1, 13, 12, 11]);
  const { promise, end } = open();
  const running = [11, 12, 13].map((company) => fair.run(whose(company), () => promise));
  const more = waiting(14, 1);
  expect(fair.next(more)?.company).toBe(1);
  expect(fair.next(more)).toBeUndefined();
  end();
  await Promise.all(running);
  expect(fair.next(more)?.company).toBe(14);
});

function open() {
  let end = () => {};
  const promise = new Promise<void>((resolve) => {
    end = resolve;
  });
  return { promise, end };
}
