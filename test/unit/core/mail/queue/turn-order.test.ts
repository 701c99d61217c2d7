import { expect, it } from "vitest";
import { queueOf, splitQueue } from "../../../../../services/core/mail/queue/destination-queue.ts";
import { inTurns, lastWithItsTurn, leastBusyFirst } from "../../../../../services/core/mail/queue/turn-order.ts";

const instances = (...ids: readonly number[]) => ids.map((instanceId) => ({ instanceId }));

it("instances take turns behind the last one", () => {
  expect(inTurns(instances(1, 2, 5), 2)).toEqual(instances(5, 1, 2));
});

it("the least busy come first, equal ones in the order given", () => {
  const busyOf = (id: number) => (id === 2 ? 0 : 7);
  expect(leastBusyFirst(instances(3, 1, 2), busyOf)).toEqual(instances(2, 3, 1));
});

it.each([
  ["all got what was asked, and all were asked", [false, false, false], true, 0],
  ["all got what was asked, and others were not asked", [false, false, false], false, 2],
  ["the third was left short", [false, false, true], true, 1],
  ["only the first was", [true, false, false], true, 0],
  ["nobody was asked", [], true, undefined],
])("the next look begins behind the last that had its turn: %s", (_, short, wereAllAsked, index) => {
  const asked = short.map((wasLeftShort, at) => ({ at, wasLeftShort }));
  expect(lastWithItsTurn(asked, wereAllAsked)?.at).toBe(index);
});

it.each([
  ["example.org", "", "example.org"],
  ["example.org", "bulk", "example.org bulk"],
])("a destination queue is named by %s and pool '%s'", (destination, pool, name) => {
  expect([queueOf(destination, pool), splitQueue(name)]).toEqual([name, { destination, pool }]);
});
