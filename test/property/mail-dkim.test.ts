import { createPrivateKey } from "node:crypto";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { beforeAll, test } from "vitest";
import { type DkimKey, DkimSigner, generateDkimKey } from "../../services/core/mail/dkim.ts";
import { normaliseLineEndings } from "../../services/core/mail/message.ts";
import { fc } from "../support/property.ts";

const CRLF = Buffer.from("\r\n");

let key: DkimKey;
let record: string;

beforeAll(async () => {
  const generated = await generateDkimKey("rsa");
  record = generated.record;
  key = { domain: "example.org", selector: "s1", privateKey: createPrivateKey(generated.privateKeyPem) };
});

/** Bodies made of what canonicalisation is about, and of any octets. */
const body = fc.oneof(
  fc
    .array(fc.constantFrom("\r\n", "\n", "\r", " ", "\t", "a", ".", "=", "\r\n.\r\n", "é", "\0"), { maxLength: 60 })
    .map((parts) => Buffer.from(parts.join(""), "utf8")),
  fc.uint8Array({ maxLength: 300 }).map((octets) => Buffer.from(octets)),
);

/** Header text that a verifier may unfold and squeeze, without the octets that mailauth wrongly takes for white space. */
const headerText = fc
  .array(fc.constantFrom(" ", "  ", "\t", "\r\n ", "\r\n\t", "a", "b:", ";", "=", "ñ"), { maxLength: 30 })
  .map((parts) => `x${parts.join("")}`);

test("what we sign and SMTP carries, another implementation verifies", async () => {
  await fc.assert(
    fc.asyncProperty(body, headerText, fc.boolean(), async (octets, subject, hasTo) => {
      const header = `From: a@example.org\r\nSubject: ${subject}\r\n${hasTo ? "To:b@example.net\r\n" : ""}\r\n`;
      const message = normaliseLineEndings(Buffer.concat([Buffer.from(header, "utf8"), octets]));
      const lastBreak = message.subarray(-2).equals(CRLF) ? "" : "\r\n"; // SMTP ends every message with a line break
      const signature = new DkimSigner([key]).sign(message, new Date());
      const signed = Buffer.concat([signature, message, Buffer.from(lastBreak)]);
      const { results } = await dkimVerify(signed, { resolver: async () => [[record]] });
      return results.length === 1 && results[0]?.status.result === "pass";
    }),
    { numRuns: 400 },
  );
});
