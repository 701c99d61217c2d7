import { expect, it } from "vitest";
import { LeftOutZones, smallestThatFit } from "../../../../services/dns-server/feed/left-out-zones.ts";
import type { ZoneSummary } from "../../../../services/store/dns/zone-states.ts";

const zone = (id: number, version = 1): ZoneSummary => ({
  id,
  apex: new Uint8Array([1, 96 + id, 0]),
  version,
  negativeTtlSeconds: 60,
  expireSeconds: 600,
  resellerId: "r",
  restricted: false,
});
const failed = (takenOctets: number, ms = 10) => ({ servedVersion: undefined, takenOctets, ms });

it("tries a zone when there is more room than it had, the one that needs least first", () => {
  let nowMs = 0;
  const zones = new LeftOutZones(() => nowMs);
  expect(zones.add(zone(1), failed(50_000))).toBe(true);
  expect(zones.add(zone(2), failed(40_000))).toBe(true);
  let room = 51_000;
  const due = (isSettled = true) => zones.takeDue(() => room, isSettled).map(({ id }) => id);
  expect(due()).toEqual([]);
  nowMs = 1_000;
  room = 70_000;
  expect(due(), "it has its rest").toEqual([]);
  nowMs = 2_000;
  expect(due()).toEqual([2, 1]);
  expect(due(), "they are being tried").toEqual([]);
});

it("does not take for room what an attempt of its own has left", () => {
  let nowMs = 0;
  const zones = new LeftOutZones(() => nowMs);
  zones.add(zone(1), failed(1_000_000));
  expect(zones.takeDue(() => 10_000, false)).toEqual([]);
  nowMs = 60_000;
  for (; nowMs < 1_000_000; nowMs += 1_000) expect(zones.takeDue(() => 1_010_000, true)).toEqual([]);
});

it("waits longer after each attempt that there was room for and that failed all the same", () => {
  let nowMs = 0;
  const zones = new LeftOutZones(() => nowMs);
  let attempts = 0;
  zones.add(zone(1), failed(100));
  for (; nowMs < 3_600_000; nowMs += 1_000) {
    for (const one of zones.takeDue(() => 100_000, true)) {
      attempts += 1;
      zones.add(one, failed(100));
    }
  }
  expect(attempts).toBeGreaterThan(10);
  expect(attempts).toBeLessThan(25);
});

it("tries a zone that has changed soon, but not all the time", () => {
  let nowMs = 0;
  const zones = new LeftOutZones(() => nowMs);
  zones.add(zone(1), failed(100));
  let attempts = 0;
  for (let version = 2; nowMs < 600_000; version += 1, nowMs += 1_000) {
    zones.note(zone(1, version));
    for (const one of zones.takeDue(() => 0, true)) {
      attempts += 1;
      expect(one.version).toBe(version);
      zones.add(one, failed(100, 1_000));
    }
  }
  expect(attempts).toBeGreaterThan(2);
  expect(attempts).toBeLessThanOrEqual(61);
});

it("is news when a zone is left out, and when what was answered of it is not any more", () => {
  const zones = new LeftOutZones(() => 0);
  const outdated = { servedVersion: 1, takenOctets: 1, ms: 1 };
  expect([zones.add(zone(1), outdated), zones.add(zone(1), outdated), zones.add(zone(1), failed(1))]).toEqual([
    true,
    false,
    true,
  ]);
  expect([zones.remove(1), zones.remove(1), zones.size]).toEqual([true, false, 0]);
});

it.each([
  [
    new Map([
      [1, 50],
      [2, 10],
      [3, 30],
    ]),
    45,
    [2, 3],
  ],
  [new Map([[1, 50]]), 49, []],
  [new Map([[1, 50]]), 50, [1]],
])("keeps the smallest of %j in %i octets", (octets, room, expected) => {
  expect([...smallestThatFit(octets, room)]).toEqual(expected);
});
