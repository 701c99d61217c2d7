import { expect, test } from "vitest";
import policyFile from "../../../../config/delivery.json" with { type: "json" };
import { readDeliveryPolicy } from "../../../../services/delivery/policy.ts";
import { SourcePools } from "../../../../services/delivery/routing/source-pools.ts";

const clock = { ms: 0, nowMs: () => clock.ms };

function makePools(random: () => number = Math.random) {
  const policy = readDeliveryPolicy({
    ...policyFile,
    pools: {
      default: { addresses: [], connections: null, messagesPerMinute: null },
      bulk: {
        addresses: [
          { address: "192.0.2.1", weight: 3, hostname: "one.example.org" },
          { address: "192.0.2.2" },
          { address: "2001:db8::1" },
        ],
        connections: 2,
        messagesPerMinute: 3,
      },
    },
    poolOf: [
      { instance: "demo", campaign: 7, pool: "default" },
      { instance: "demo", pool: "bulk" },
    ],
  });
  if (!policy.ok) throw new Error(policy.error);
  return new SourcePools(policy.value, clock, random);
}

test("an instance has its pool, a campaign of it may have another, the others have the default one", () => {
  const pools = makePools();
  expect(pools.enter("demo", 1)?.pool).toBe("bulk");
  expect(pools.enter("demo", 7)?.pool).toBe("default");
  expect(pools.enter("other", 1)?.pool).toBe("default");
});

test("addresses are chosen by weight, of the family that the host has", () => {
  let draw = 0;
  const place = makePools(() => draw).enter("demo", 1)!;
  const counts = new Map<string | undefined, number>();
  for (draw = 0; draw < 1; draw += 1 / 64) {
    const picked = place.pick("203.0.113.1")?.address;
    counts.set(picked, (counts.get(picked) ?? 0) + 1);
  }
  expect(Object.fromEntries(counts)).toEqual({ "192.0.2.1": 48, "192.0.2.2": 16 });
  draw = 0;
  expect(place.pick("203.0.113.1")).toEqual({ address: "192.0.2.1", hostname: "one.example.org" });
  expect(place.pick("2001:db8::25")).toEqual({ address: "2001:db8::1", hostname: undefined });
  expect(place.pick("smart.example.org")?.address).toBe("192.0.2.1");
});

test("without addresses the system chooses; without one of the family the host cannot be spoken to", () => {
  expect(makePools().enter("other", 1)!.pick("203.0.113.1")).toBeUndefined();
  const policy = readDeliveryPolicy({
    ...policyFile,
    pools: {
      default: { addresses: [{ address: "2001:db8::1" }], connections: null, messagesPerMinute: null },
    },
  });
  if (!policy.ok) throw new Error(policy.error);
  expect(new SourcePools(policy.value, clock, Math.random).enter("x", 1)!.pick("203.0.113.1")).toBeNull();
});

test("a full pool lets nobody in until somebody leaves", () => {
  const pools = makePools();
  const places = [pools.enter("demo", 1), pools.enter("demo", 2)];
  expect(pools.enter("demo", 3)).toBeUndefined();
  expect(pools.enter("other", 3)).toBeDefined();
  places[0]!.leave();
  expect(pools.enter("demo", 3)).toBeDefined();
});

test("a pool has so many messages a minute, whoever sends them", () => {
  const pools = makePools();
  const places = [pools.enter("demo", 1)!, pools.enter("demo", 2)!];
  expect([places[0]!.takeToken(), places[1]!.takeToken(), places[0]!.takeToken()]).toEqual([true, true, true]);
  expect(places[1]!.takeToken()).toBe(false);
  places[0]!.leave();
  expect(pools.enter("demo", 1)).toBeUndefined();
  clock.ms += 20_000;
  expect(pools.enter("demo", 1)?.takeToken()).toBe(true);
});

test("a pool that nobody has heard of is refused", () => {
  const policy = readDeliveryPolicy({ ...policyFile, poolOf: [{ instance: "demo", pool: "typo" }] });
  expect(policy).toEqual({ ok: false, error: "poolOf: there is no pool typo" });
});
