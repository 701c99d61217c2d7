import { describe, expect, test } from "vitest";
import {
  type KeySighting,
  type RotatingKey,
  rotationStep,
} from "../../../../../services/core/mail/domain-setup/dkim-rotation.ts";

const NOW = new Date("2026-11-20T12:00:00Z");
const ago = (seconds: number) => new Date(NOW.getTime() - seconds * 1000);
const POLICY = { keepOldMs: 7 * 86_400_000, lookEveryMs: 300_000 };
const SEEN: KeySighting = { everywhere: true, cachedSeconds: 3600 };
const MISSED: KeySighting = { everywhere: false, cachedSeconds: 3600 };

function key(id: number, changes: Partial<RotatingKey> = {}): RotatingKey {
  return { id, algorithm: "rsa", state: "new", seenSince: null, retiredAt: null, ...changes };
}

function step(keys: readonly RotatingKey[], seen: readonly KeySighting[] = []) {
  const sightings = new Map(seen.map((sighting, index) => [keys[index]!.id, sighting]));
  return rotationStep(keys, sightings, NOW, POLICY);
}

describe("a new key", () => {
  test.each([
    ["is waited for from the first time that all have it", null, SEEN, NOW, []],
    ["waits as long as caches keep its absence", ago(3599), SEEN, ago(3599), []],
    ["takes over after that", ago(3600), SEEN, ago(3600), [1]],
    ["does not when a server has lost it", ago(3600), MISSED, null, []],
    ["does not when it was not looked for", ago(36_000), undefined, null, []],
  ] as const)("%s", (_, seenSince, sighting, since, takeOver) => {
    const made = step([key(1, { seenSince })], sighting ? [sighting] : []);
    expect(made.seenSince).toEqual(new Map([[1, since]]));
    expect(made.takeOver).toEqual(takeOver);
  });

  test("of one algorithm waits for that of the other", () => {
    const keys = [key(1, { seenSince: ago(7200) }), key(2, { algorithm: "ed25519", seenSince: ago(60) })];
    expect(step(keys, [SEEN, SEEN]).takeOver).toEqual([]);
    expect(step([keys[0]!, { ...keys[1]!, seenSince: ago(3600) }], [SEEN, SEEN]).takeOver).toEqual([1, 2]);
  });

  test("is looked for again soon", () => {
    expect(step([key(1)], [MISSED]).lookAgainAt).toEqual(new Date(NOW.getTime() + 300_000));
  });
});

describe("an old key", () => {
  const old = (seconds: number) => key(1, { state: "old", retiredAt: ago(seconds) });
  test.each([
    [7 * 86_400 - 1, []],
    [7 * 86_400, [1]],
  ])("after %i s: %j go", (seconds, finish) => {
    expect(step([old(seconds)]).finish).toEqual(finish);
  });

  test("is looked at when its time is over", () => {
    expect(step([old(7 * 86_400 - 60)]).lookAgainAt).toEqual(new Date(NOW.getTime() + 60_000));
  });
});

test("nothing moves where keys only sign", () => {
  expect(step([key(1, { state: "signing" })])).toEqual({
    ...{ seenSince: new Map(), takeOver: [], finish: [], lookAgainAt: undefined },
  });
});
