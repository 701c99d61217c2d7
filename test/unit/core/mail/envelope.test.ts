import { expect, test } from "vitest";
import { type EmailAddress, validateAddress } from "../../../../services/core/mail/address.ts";
import { makeEnvelope } from "../../../../services/core/mail/envelope.ts";

function address(text: string): EmailAddress {
  const result = validateAddress(text, { allowSmtputf8: true });
  if (!result.ok) throw new Error(result.error.message);
  return result.value;
}

test("addresses are spelled as the wire carries them, each once", () => {
  const recipients = [address("ana@EXAMPLE.net"), address("ana@example.net"), address("Ana@bücher.example")];
  expect(makeEnvelope("b+aa.bb@bounces.example.org", recipients)).toEqual({
    ok: true,
    value: {
      mailFrom: "b+aa.bb@bounces.example.org",
      rcptTo: ["ana@example.net", "Ana@xn--bcher-kva.example"],
      needsSmtputf8: false,
    },
  });
});

test("notifications have the null reverse-path", () => {
  expect(makeEnvelope("", [address("ana@example.net")])).toMatchObject({ ok: true, value: { mailFrom: "" } });
});

test("one international local part needs SMTPUTF8, of the sender or of a recipient", () => {
  expect(makeEnvelope("añá@example.org", [address("ana@example.net")])).toMatchObject({
    value: { needsSmtputf8: true },
  });
  expect(makeEnvelope("", [address("añá@example.net")])).toMatchObject({ value: { needsSmtputf8: true } });
});

test.each([
  "a@b.example>\r\nRCPT TO:<z@z.example",
  "a@b.example> SIZE=1",
  "a b@example.org",
  "<a@example.org>",
  "a@example.org\r\n",
  '"a b"@example.org',
  "a@[192.0.2.1]",
  "nobody",
])("%j cannot be a return path", (returnPath) => {
  expect(makeEnvelope(returnPath, [address("ana@example.net")])).toEqual({ ok: false, error: "malformed-return-path" });
});

test("somebody must get the message", () => {
  expect(makeEnvelope("", [])).toEqual({ ok: false, error: "no-recipients" });
});
