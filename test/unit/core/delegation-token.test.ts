import { describe, expect, test } from "vitest";
import {
  DELEGATION_SECONDS,
  type Delegation,
  delegationTokenOf,
  makeDelegationToken,
  readDelegationToken,
} from "../../../services/core/delegation-token.ts";
import { KeyRing } from "../../../services/core/key-ring.ts";

const SECRET = "a secret that only tests know";
const KEY_RING = KeyRing.ofSecret(SECRET);
const NOW = Date.UTC(2026, 10, 20);
const COMPANY = { audience: "dns", login: "ann", resellerId: "one", crmId: "acme" } as const;

describe("a delegation token", () => {
  test.each<Delegation>([
    COMPANY,
    { audience: "dns", login: "ann", resellerId: "one" },
    { audience: "mail", login: "ann", instance: "north" },
  ])("brings %j back", (delegation) => {
    const token = makeDelegationToken(KEY_RING, delegation, NOW);
    expect(readDelegationToken(KEY_RING, delegation.audience, token, NOW)).toMatchObject({
      ok: true,
      value: delegation,
    });
  });

  test("of a secret that is being replaced is still good", () => {
    const token = makeDelegationToken(KEY_RING, COMPANY, NOW);
    const both = KeyRing.ofSecret("a newer secret of the tests", [SECRET]);
    expect(readDelegationToken(both, "dns", token, NOW).ok).toBe(true);
  });

  const token = makeDelegationToken(KEY_RING, COMPANY, NOW);
  const [payload = "", mac = ""] = token.split(".");
  const other = Buffer.from(JSON.stringify({ ...COMPANY, crmId: "other", expiresMs: NOW + 1_000 })).toString(
    "base64url",
  );
  test.each([
    ["expired", token, NOW + DELEGATION_SECONDS * 1_000],
    ["forged", `${other}.${mac}`, NOW],
    ["forged", `${payload}.${mac.slice(1)}`, NOW],
    ["forged", makeDelegationToken(KeyRing.ofSecret("another secret of tests"), COMPANY, NOW), NOW],
    ["malformed", payload, NOW],
    ["malformed", `${token}.x`, NOW],
    ["malformed", "", NOW],
    ["forged", makeDelegationToken(KEY_RING, { audience: "mail", login: "ann", instance: "north" }, NOW), NOW],
  ])("is refused as %s", (reason, given, nowMs) => {
    expect(readDelegationToken(KEY_RING, "dns", given, nowMs)).toEqual({ ok: false, error: reason });
  });
});

test.each([
  ["Console abc", "abc"],
  ["  Console   abc ", "abc"],
  ["console abc", undefined],
  ["Console", undefined],
  ["Console a b", undefined],
  ["Bearer abc", undefined],
  ["abc", undefined],
  [undefined, undefined],
])("%j carries the token %j", (authorization, token) => {
  expect(delegationTokenOf(authorization)).toBe(token);
});
