import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { makeSignatureCheck } from "../../../../services/platform/lookups/dkim-signature.ts";
import { freePort } from "../../../support/peers-processes.ts";

const BODY = "report\r\n";
const CLAIMED = { address: "a@example.org", domain: "example.org" };

/** A message with a signature whose key would be at `<selector>._domainkey.example.org`. */
function signedBy(selector: string): Buffer {
  const bodyHash = createHash("sha256").update(BODY).digest("base64");
  const signature = `v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.org; s=${selector}; h=from; bh=${bodyHash}; b=AAAA`;
  return Buffer.from(`DKIM-Signature: ${signature}\r\nFrom: ${CLAIMED.address}\r\n\r\n${BODY}`);
}

test("a key that nobody tells of for now may be there; what can be no name has none", async () => {
  const isSignedBy = makeSignatureCheck({ host: "127.0.0.1", port: await freePort() });
  expect(await isSignedBy(signedBy("key"), CLAIMED)).toBe("unknown");
  for (const selector of ["k".repeat(64), "a..b", Array(5).fill("k".repeat(63)).join(".")]) {
    expect([selector, await isSignedBy(signedBy(selector), CLAIMED)]).toEqual([selector, false]);
  }
});
