import { expect, test } from "vitest";
import { readRemoteWords } from "../../../../../services/core/mail/bounce/remote-words.ts";
import { readMimeMessage } from "../../../../../services/platform/read-mime.ts";

const JANE = "jane@example.net";

/** What the report says of Jane. */
async function wordsOf(notice: string, fields: string, to = JANE, judged = to) {
  const text = `From: MAILER-DAEMON@mx.example.org
Subject: Undelivered
Content-Type: multipart/report; report-type=delivery-status; boundary=r

--r
Content-Type: text/plain

${notice}
--r
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.org

Final-Recipient: rfc822; ${to}
${fields}
--r
Content-Type: message/rfc822

Subject: Hi

${to}
--r--
`;
  const [words] = readRemoteWords(await readMimeMessage(Buffer.from(text.replaceAll("\n", "\r\n"))), [judged]);
  return words;
}

test.each([
  ["X-Postfix; account disabled", "X-Postfix", "account disabled"],
  ["smtp; 550 5.1.1 no such\n user", "smtp", "550 5.1.1 no such user"],
  ["x-unix;\tpermission denied", "x-unix", "permission denied"],
  ["550 no such user", null, "550 no such user"],
])("a Diagnostic-Code %j comes as it is", async (code, diagnosticType, words) => {
  expect(await wordsOf(`<${JANE}>: something else`, `Action: failed\nDiagnostic-Code: ${code}`)).toEqual({
    words,
    diagnosticType,
  });
});

test.each([
  ["Exim", `The following address(es) failed:\n\n  ${JANE}\n    mailbox is full: retry timeout exceeded\n`],
  ["OpenSMTPD", `list of recipients:\n\n${JANE}: mailbox is full: retry timeout exceeded\n\n    Below is a copy\n`],
])("without one the notice's words are told: %s", async (_, notice) => {
  const words = "mailbox is full: retry timeout exceeded";
  expect(await wordsOf(notice, "Action: failed\nStatus: 5.0.0")).toEqual({ words, diagnosticType: null });
  expect(await wordsOf(notice, "Action: failed\nDiagnostic-Code: smtp;")).toEqual({ words, diagnosticType: null });
});

test("sendmail says what it has under the transcript", async () => {
  const notice = `   ----- The following addresses had permanent fatal errors -----
joe@example.org
    (expanded from: <${JANE}>)

   ----- Transcript of session follows -----
joe@example.org... Deferred: Connection refused by [192.0.2.7]
`;
  expect((await wordsOf(notice, "Action: failed\nStatus: 4.4.7"))!.words).toBe(
    "joe@example.org... Deferred: Connection refused by [192.0.2.7]",
  );
});

test("a quotation is whole", async () => {
  const said = await wordsOf(`list of recipients:\n\n${JANE}: "sh: 1: Permission denied"\n`, "Action: failed");
  expect(said!.words).toBe('"sh: 1: Permission denied"');
});

test("what is said of all, below an address of which nothing is said, is not about it", async () => {
  const notice = `Not yet delivered:\n\n  ${JANE}\n\nNo action is required on your part.\n`;
  expect((await wordsOf(notice, "Action: delayed"))!.words).toBe("");
});

test("a notice that names nobody is about the only recipient", async () => {
  const notice = "Delivery failed: the mailbox is closed since March.";
  expect(await wordsOf(notice, "Action: failed")).toEqual({ words: notice, diagnosticType: null });
});

test("a recipient that the field names as no mailbox has the diagnostic of its place", async () => {
  const notice = `The message for <${JANE}> was not delivered.`;
  const fields = "Action: failed\nDiagnostic-Code: X-Unix; 69 quota is used up";
  expect(await wordsOf(notice, fields, "jane", JANE)).toEqual({
    words: "69 quota is used up",
    diagnosticType: "X-Unix",
  });
});

test("a report that says nothing has no words", async () => {
  expect(await wordsOf("", "Action: failed")).toEqual({ words: "", diagnosticType: null });
});
