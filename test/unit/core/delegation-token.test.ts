import { describe, expect, test } from "vitest";
import {
  DELEGATION_SECONDS,
  type Delegation,
  delegationTokenOf,
  makeDelegationToken,
  readDelegationToken,
} from "../../../services/core/delegation-token.ts";
import { makeKeyring } from "../../../services/core/secret-box.ts";

const SECRET = "a secret that only tests know";
const NOW = Date.UTC(2026, 10, 20);
const COMPANY = { audience: "dns", login: "ann", resellerId: "one", crmId: "acme" } as const;

describe("a delegation token", () => {
  test.each<Delegation>([
    COMPANY,
    { audience: "dns", login: "ann", resellerId: "one" },
    { audience: "mail", login: "ann", instance: "north" },
  ])("brings %j back", (delegation) => {
    const token = makeDelegationToken(SECRET, delegation, NOW);
    expect(readDelegationToken(SECRET, delegation.audience, token, NOW)).toMatchObject({ ok: true, value: delegation });
  });

  test("of a secret that is being replaced is still good", () => {
    const token = makeDelegationToken(SECRET, COMPANY, NOW);
    const keyring = makeKeyring(["a newer secret of the tests", SECRET]);
    expect(readDelegationToken(keyring, "dns", token, NOW).ok).toBe(true);
  });

  const token = makeDelegationToken(SECRET, COMPANY, NOW);
  const [payload = "", mac = ""] = token.split(".");
  const other = Buffer.from(JSON.stringify({ ...COMPANY, crmId: "other", expiresMs: NOW + 1_000 })).toString(
    "base64url",
  );
  test.each([
    ["expired", token, NOW + DELEGATION_SECONDS * 1_000],
    ["forged", `${other}.${mac}`, NOW],
    ["forged", `${payload}.${mac.slice(1)}`, NOW],
    ["forged", makeDelegationToken("another secret of tests", COMPANY, NOW), NOW],
    ["malformed", payload, NOW],
    ["malformed", `${token}.x`, NOW],
    ["malformed", "", NOW],
    ["other-api", makeDelegationToken(SECRET, { audience: "mail", login: "ann", instance: "north" }, NOW), NOW],
  ])("is refused as %s", (reason, given, nowMs) => {
    expect(readDelegationToken(SECRET, "dns", given, nowMs)).toEqual({ ok: false, error: reason });
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
