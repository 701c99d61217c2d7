import { expect, test } from "vitest";
import {
  DELEGATION_SCHEME,
  DELEGATION_SECONDS,
  makeDelegationToken,
} from "../../../../services/core/delegation-token.ts";
import { KeyRing } from "../../../../services/core/key-ring.ts";
import { makeDialect } from "../../../../services/dns-api/dialect.ts";
import { TokenCallers } from "../../../../services/dns-api/token-callers.ts";
import { makeMailDialect } from "../../../../services/mail-api/dialect.ts";
import type { Db } from "../../../../services/platform/postgres/db.ts";

const THEN_MS = Date.UTC(2001, 1, 3);
const keyRing = KeyRing.ofSecret("a secret for tests only");
const asked = () => {
  throw new Error("asked");
};
const db = Object.assign(asked, { client: { acquireConnection: asked } }) as unknown as Db;

test("both APIs take the console's tokens by their own clock, whatever the machine's says", async () => {
  let nowMs = THEN_MS;
  const tools = { db, keyRing, clock: { nowMs: () => nowMs } };
  const tokens = new TokenCallers({ ...tools, observe: () => {} });
  const dns = makeDialect({ ...tools, tokens });
  const mail = makeMailDialect(tools);
  const bearing = (token: string) => ({ authorization: `${DELEGATION_SCHEME} ${token}` });
  const forDns = makeDelegationToken(keyRing, { audience: "dns", login: "ana", resellerId: "one" }, THEN_MS);
  const forMail = makeDelegationToken(keyRing, { audience: "mail", login: "ana", instance: "north" }, THEN_MS);
  await expect(dns.authenticate(bearing(forDns), "192.0.2.1")).rejects.toThrow("asked");
  await expect(mail.authenticate(bearing(forMail), "192.0.2.1")).rejects.toThrow("asked");
  nowMs += DELEGATION_SECONDS * 1_000;
  const refused = { ok: false, error: { kind: "unauthenticated" } };
  expect(await dns.authenticate(bearing(forDns), "192.0.2.1")).toEqual(refused);
  expect(await mail.authenticate(bearing(forMail), "192.0.2.1")).toEqual(refused);
});
