import { expect, test } from "vitest";
import { KeyRing } from "../../../../services/core/key-ring.ts";
import { openAccess, sealAccess } from "../../../../services/dns-server/transfer/sealed-access.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
const ACCESS = { version: 7, keys: [], grants: [], restricted: [], unopenedKeys: ["k.example.org"] };

test("what was sealed is opened, and so is what an earlier version sealed", () => {
  expect(openAccess(sealAccess(ACCESS, KEY_RING), KEY_RING)).toEqual(ACCESS);
  const { unopenedKeys: _, ...earlier } = ACCESS;
  expect(openAccess(sealAccess(earlier as never, KEY_RING), KEY_RING)).toEqual({ ...ACCESS, unopenedKeys: [] });
});
