import { describe, expect, it } from "vitest";
import type { SigningPolicy } from "../../../../../services/core/dns/dnssec/policy.ts";
import {
  advanceKeys,
  checkRollover,
  firstLives,
  hasStepToTake,
  type KeyLife,
  keysForParent,
  keysWithDs,
  nextLives,
  nextStepAt,
  noteDsSeen,
  noteParentKeys,
  rolesOutlived,
} from "../../../../../services/core/dns/dnssec/rollover.ts";
import { accepted } from "../support.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;

const policy: SigningPolicy = {
  signatures: { validitySeconds: 14 * DAY, refreshSeconds: 7 * DAY, jitterSeconds: DAY, inceptionOffsetSeconds: HOUR },
  keyTtlSeconds: HOUR,
  propagationSeconds: 300,
  parentPropagationSeconds: HOUR,
  dsTtlSeconds: DAY,
  parentCheckSeconds: 300,
  parentMustBeAuthenticated: true,
  lifetimeSeconds: { csk: null, ksk: null, zsk: 90 * DAY },
  algorithm: 13,
};
const timing = { policy, largestTtlSeconds: 2 * HOUR, parentDsTtlSeconds: null };
const START = new Date("2026-01-01T00:00:00Z");

const at = (seconds: number) => new Date(START.getTime() + seconds * 1000);
const newKey = (keyTag: number, role: KeyLife["role"], algorithm = 13) => ({ keyTag, role, algorithm });
const advance = (keys: readonly KeyLife[], seconds: number) => advanceKeys(keys, at(seconds), timing);
/** The parent is seen with the DS of these. */
const parentHas = (keys: readonly KeyLife[], tags: readonly number[], seconds: number) =>
  noteParentKeys(keys, new Set(tags), at(seconds), timing);
const seen = (keys: readonly KeyLife[], tag: number, seconds: number) =>
  accepted(noteDsSeen(keys, tag, at(seconds), timing));

/** `tag:state`, with what the key does: P stands in the key set, K signs it, Z signs the zone, D has a DS. */
function shown(keys: readonly KeyLife[]): string[] {
  return keys.map(({ keyTag, state, isPublished, signsKeySet, signsZone, hasDs }) => {
    const flags = [isPublished && "P", signsKeySet && "K", signsZone && "Z", hasDs && "D"].filter(Boolean).join("");
    return `${keyTag}:${state}:${flags}`;
  });
}

function csk(): readonly KeyLife[] {
  return seen(advance(firstLives([newKey(1, "csk")], START, timing), 3 * HOUR), 1, 4 * HOUR);
}

function pair(): readonly KeyLife[] {
  const first = firstLives([newKey(1, "ksk"), newKey(2, "zsk")], START, timing);
  return seen(advance(first, 3 * HOUR), 1, 4 * HOUR);
}

describe("a zone's first keys", () => {
  it("sign at once, and want their DS when no cache has the zone without signatures", () => {
    const first = firstLives([newKey(1, "csk")], START, timing);
    expect(shown(first)).toEqual(["1:published:PKZ"]);
    expect(keysForParent(first)).toEqual([]);
    expect(shown(advance(first, 2 * HOUR + 299))).toEqual(["1:published:PKZ"]);
    const ready = advance(first, 2 * HOUR + 300);
    expect(shown(ready)).toEqual(["1:ready:PKZ"]);
    expect(keysForParent(ready)).toEqual(ready);
    expect(nextStepAt(ready, policy)).toBeNull();
    expect(shown(seen(ready, 1, 3 * HOUR))).toEqual(["1:active:PKZD"]);
  });

  it("share the work when there are two", () => {
    expect(shown(firstLives([newKey(1, "ksk"), newKey(2, "zsk")], START, timing))).toEqual([
      "1:published:PK",
      "2:active:PZ",
    ]);
  });
});

describe("a CSK rollover", () => {
  it("signs everything with both until no cache has the old DS", () => {
    let keys = csk();
    expect(checkRollover(keys, { roles: ["csk"], algorithm: 13 })).toBeUndefined();
    keys = [...keys, ...nextLives(keys, [newKey(9, "csk")], at(5 * HOUR), timing)];
    expect(shown(keys)).toEqual(["1:active:PKZD", "9:published:PKZ"]);
    expect(keysForParent(keys).map(({ keyTag }) => keyTag)).toEqual([1]);
    keys = advance(keys, 5 * HOUR + 2 * HOUR + 300);
    expect(shown(keys)).toEqual(["1:active:PKZD", "9:ready:PKZ"]);
    expect(keysForParent(keys).map(({ keyTag }) => keyTag)).toEqual([9]);
    keys = seen(keys, 9, 8 * HOUR);
    expect(shown(keys)).toEqual(["1:retired:PKZ", "9:active:PKZD"]);
    expect(shown(advance(keys, 8 * HOUR + DAY + HOUR - 1))).toEqual(["1:retired:PKZ", "9:active:PKZD"]);
    expect(shown(advance(keys, 8 * HOUR + DAY + HOUR))).toEqual(["9:active:PKZD"]);
  });

  it("keeps the old key as long as the parent is seen with its DS", () => {
    let keys = csk();
    keys = [...keys, ...nextLives(keys, [newKey(9, "csk")], at(5 * HOUR), timing)];
    keys = seen(advance(keys, 7 * HOUR), 9, 7 * HOUR);
    keys = parentHas(keys, [1, 9], 8 * HOUR);
    expect(shown(keys)).toEqual(["1:retired:PKZD", "9:active:PKZD"]);
    keys = advance(keys, 3 * DAY);
    expect(shown(keys)).toEqual(["1:retired:PKZD", "9:active:PKZD"]);
    // From the moment when it is gone caches have it for a while, however long it has been retired.
    keys = parentHas(keys, [9], 10 * DAY);
    expect(shown(advance(keys, 10 * DAY + DAY + HOUR - 1))).toEqual(["1:retired:PKZ", "9:active:PKZD"]);
    expect(shown(advance(keys, 10 * DAY + DAY + HOUR))).toEqual(["9:active:PKZD"]);
  });

  it("waits until no cache has data with the old signatures alone", () => {
    const slow = { ...timing, largestTtlSeconds: 7 * DAY };
    const keys = [...csk(), ...nextLives(csk(), [newKey(9, "csk")], at(DAY), slow)];
    expect(shown(advanceKeys(keys, at(8 * DAY + 299), slow))).toContain("9:published:PKZ");
    expect(shown(advanceKeys(keys, at(8 * DAY + 300), slow))).toContain("9:ready:PKZ");
    // Nor does a DS that is there too early shorten that.
    const early = noteParentKeys(keys, new Set([9]), at(2 * DAY), slow);
    expect(early[0]).toMatchObject({ state: "retired", due: at(8 * DAY + 300) });
  });

  it("waits for a DS of longer life than the policy's", () => {
    const keys = advance([...csk(), ...nextLives(csk(), [newKey(9, "csk")], at(DAY), timing)], 2 * DAY);
    const slow = { ...timing, parentDsTtlSeconds: 3 * DAY };
    const seenSlowly = noteParentKeys(keys, new Set([9]), at(2 * DAY), slow);
    expect(seenSlowly[0]).toMatchObject({ state: "retired", due: at(5 * DAY + HOUR) });
  });
});

describe("a ZSK rollover", () => {
  it("publishes before it signs, and keeps what signatures in caches need", () => {
    let keys = pair();
    keys = [...keys, ...nextLives(keys, [newKey(9, "zsk")], at(DAY), timing)];
    expect(shown(keys)).toEqual(["1:active:PKD", "2:active:PZ", "9:published:P"]);
    keys = advance(keys, DAY + HOUR + 300);
    expect(shown(keys)).toEqual(["1:active:PKD", "2:retired:P", "9:active:PZ"]);
    expect(shown(advance(keys, DAY + HOUR + 300 + 2 * HOUR + 299))).toContain("2:retired:P");
    expect(shown(advance(keys, DAY + HOUR + 300 + 2 * HOUR + 300))).toEqual(["1:active:PKD", "9:active:PZ"]);
  });

  it("begins by itself when the key has had its time", () => {
    expect(rolesOutlived(pair(), at(90 * DAY - 1), policy)).toEqual([]);
    expect(rolesOutlived(pair(), at(90 * DAY), policy)).toEqual(["zsk"]);
    expect(nextStepAt(pair(), policy)).toEqual(at(90 * DAY));
  });
});

describe("a KSK rollover", () => {
  it("leaves the ZSK alone", () => {
    let keys = pair();
    keys = [...keys, ...nextLives(keys, [newKey(9, "ksk")], at(DAY), timing)];
    keys = seen(advance(keys, 2 * DAY), 9, 3 * DAY);
    expect(shown(keys)).toEqual(["1:retired:PK", "2:active:PZ", "9:active:PKD"]);
    expect(shown(advance(keys, 5 * DAY))).toEqual(["2:active:PZ", "9:active:PKD"]);
  });
});

describe("an algorithm rollover", () => {
  it("of a pair signs before it publishes, and publishes no longer before it signs no longer", () => {
    let keys = pair();
    const request = { roles: ["ksk", "zsk"] as const, algorithm: 15 };
    expect(checkRollover(keys, request)).toBeUndefined();
    keys = [...keys, ...nextLives(keys, [newKey(8, "ksk", 15), newKey(9, "zsk", 15)], at(DAY), timing)];
    expect(shown(keys)).toEqual(["1:active:PKD", "2:active:PZ", "8:generated:", "9:generated:Z"]);
    keys = advance(keys, DAY + 2 * HOUR + 300);
    expect(shown(keys)).toEqual(["1:active:PKD", "2:active:PZ", "8:published:PK", "9:published:PZ"]);
    keys = advance(keys, DAY + 4 * HOUR);
    expect(shown(keys)).toEqual(["1:active:PKD", "2:active:PZ", "8:ready:PK", "9:ready:PZ"]);
    keys = seen(keys, 8, 2 * DAY);
    expect(shown(keys)).toEqual(["1:retired:PK", "2:retired:PZ", "8:active:PKD", "9:active:PZ"]);
    keys = advance(keys, 3 * DAY + HOUR);
    expect(shown(keys)).toEqual(["2:removed:Z", "8:active:PKD", "9:active:PZ"]);
    expect(shown(advance(keys, 3 * DAY + 3 * HOUR))).toEqual(["8:active:PKD", "9:active:PZ"]);
  });

  it("keeps the old ZSK in the key set as long as the old KSK, whose DS is still there", () => {
    let keys = pair();
    keys = [...keys, ...nextLives(keys, [newKey(8, "ksk", 15), newKey(9, "zsk", 15)], at(DAY), timing)];
    for (const hours of [30, 36]) keys = advance(keys, hours * HOUR);
    keys = seen(keys, 8, 2 * DAY);
    keys = advance(parentHas(keys, [1, 8], 3 * DAY), 4 * DAY);
    expect(shown(keys)).toEqual(["1:retired:PKD", "2:retired:PZ", "8:active:PKD", "9:active:PZ"]);
    keys = parentHas(keys, [8], 4 * DAY);
    for (const days of [5, 6]) keys = advance(keys, days * DAY);
    expect(shown(keys)).toEqual(["2:removed:Z", "8:active:PKD", "9:active:PZ"]);
  });

  it("of a pair ends as well where the parent has the new DS before it should", () => {
    let keys = pair();
    keys = [...keys, ...nextLives(keys, [newKey(8, "ksk", 15), newKey(9, "zsk", 15)], at(DAY), timing)];
    keys = seen(advance(keys, DAY + 2 * HOUR + 300), 8, DAY + 3 * HOUR);
    expect(shown(keys)).toEqual(["1:retired:PK", "2:retired:PZ", "8:active:PKD", "9:published:PZ"]);
    keys = advance(keys, DAY + 4 * HOUR);
    expect(shown(keys)).toEqual(["1:retired:PK", "2:retired:PZ", "8:active:PKD", "9:active:PZ"]);
    for (const days of [3, 5]) keys = advance(keys, days * DAY);
    expect(shown(keys)).toEqual(["8:active:PKD", "9:active:PZ"]);
    expect(checkRollover(keys, { roles: ["zsk"], algorithm: 15 })).toBeUndefined();
    expect(rolesOutlived(keys, at(DAY + 4 * HOUR + 90 * DAY), policy)).toEqual(["zsk"]);
  });

  it("that left its ZSK ready for ever goes on with the next step", () => {
    const stuck = pair().map((key) => (key.role === "zsk" ? { ...key, state: "ready" as const } : key));
    expect(hasStepToTake(pair(), at(DAY))).toBe(false);
    expect(hasStepToTake(stuck, at(DAY))).toBe(true);
    expect(shown(advance(stuck, DAY))).toEqual(["1:active:PKD", "2:active:PZ"]);
  });

  it("of a CSK may also part it in two", () => {
    let keys = csk();
    keys = [...keys, ...nextLives(keys, [newKey(9, "csk", 8)], at(DAY), timing)];
    expect(shown(keys)).toEqual(["1:active:PKZD", "9:generated:Z"]);
    keys = advance(advance(keys, 2 * DAY), 3 * DAY);
    expect(shown(keys)).toEqual(["1:active:PKZD", "9:ready:PKZ"]);
    keys = advance(seen(keys, 9, 4 * DAY), 6 * DAY);
    expect(shown(keys)).toEqual(["1:removed:Z", "9:active:PKZD"]);
    expect(shown(advance(keys, 7 * DAY))).toEqual(["9:active:PKZD"]);
  });
});

describe("steps that would break the zone", () => {
  it("are refused: a second rollover, one before the first DS, one of a role that is not there", () => {
    const first = firstLives([newKey(1, "csk")], START, timing);
    expect(checkRollover(first, { roles: ["csk"], algorithm: 13 })).toMatchObject({
      code: "ds-not-seen",
      values: { tag: "1" },
    });
    expect(checkRollover(csk(), { roles: ["zsk"], algorithm: 13 })).toMatchObject({
      code: "no-such-role",
      values: { role: "zsk" },
    });
    const rolling = [...csk(), ...nextLives(csk(), [newKey(9, "csk")], at(DAY), timing)];
    expect(checkRollover(rolling, { roles: ["csk"], algorithm: 13 })).toMatchObject({
      code: "rollover-under-way",
    });
    const newAlgorithm = [...csk(), ...nextLives(csk(), [newKey(9, "csk", 15)], at(DAY), timing)];
    expect(noteDsSeen(newAlgorithm, 9, at(DAY), timing).ok).toBe(false);
    expect(noteDsSeen(pair(), 2, at(DAY), timing).ok).toBe(false);
  });

  it("do not come of a week off: each wait is counted from the step before", () => {
    let keys = pair();
    keys = [...keys, ...nextLives(keys, [newKey(9, "zsk")], at(DAY), timing)];
    expect(shown(advance(keys, 30 * DAY))).toEqual(["1:active:PKD", "2:retired:P", "9:active:PZ"]);
  });
});

it("the DS that is handed out is the first key's, and then that of the key which the parent should have", () => {
  const tags = (keys: readonly KeyLife[]) => keysWithDs(keys).map(({ keyTag }) => keyTag);
  const first = firstLives([newKey(1, "ksk"), newKey(2, "zsk")], START, timing);
  expect(tags(first)).toEqual([1]);
  expect(tags(advance(first, 3 * HOUR))).toEqual([1]);
  let keys = pair();
  keys = [...keys, ...nextLives(keys, [newKey(8, "ksk", 15), newKey(9, "zsk", 15)], at(DAY), timing)];
  expect(shown(keys)).toContain("8:generated:");
  expect(tags(keys)).toEqual([1]);
  keys = advance(keys, DAY + 2 * HOUR + 300);
  expect(shown(keys)).toContain("8:published:PK");
  expect(tags(keys)).toEqual([1]);
  keys = advance(keys, DAY + 4 * HOUR);
  expect(tags(keys)).toEqual([8]);
  keys = seen(keys, 8, 2 * DAY);
  expect(shown(keys)).toContain("1:retired:PK");
  expect(tags(keys)).toEqual([8]);
});

it("the DS may go and come back", () => {
  const gone = parentHas(csk(), [], DAY);
  expect(shown(gone)).toEqual(["1:active:PKZ"]);
  expect(shown(parentHas(gone, [1], 2 * DAY))).toEqual(["1:active:PKZD"]);
});

it("a DS that comes before its time says nothing of a key that is not published", () => {
  const keys = [...csk(), ...nextLives(csk(), [newKey(9, "csk", 15)], at(DAY), timing)];
  expect(shown(parentHas(keys, [1, 9], DAY))).toEqual(["1:active:PKZD", "9:generated:Z"]);
});
