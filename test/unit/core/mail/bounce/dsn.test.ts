import { describe, expect, test } from "vitest";
import {
  addressOfField,
  findDeliveryReport,
  findReturnedHeaders,
  parseDeliveryStatus,
} from "../../../../../services/core/mail/bounce/dsn.ts";
import { readMimeMessage } from "../../../../../services/platform/read-mime.ts";

const mime = (text: string) => readMimeMessage(Buffer.from(text.replaceAll("\n", "\r\n")));

describe("recipient fields", () => {
  test.each([
    ["rfc822; jane@example.org", "jane@example.org"],
    ["RFC822;<jane@example.org>", "jane@example.org"],
    ["rfc822;jane@example.org (Jane Roe)", "jane@example.org"],
    ["jane@example.org", "jane@example.org"],
    ["rfc822; <mailto:jane@example.org>", "jane@example.org"],
    ["LOCAL;<jane>", "jane"],
    ["utf-8; jos\\x{E9}@example.org", "josé@example.org"],
    ["utf-8; \\x{FFFFFF}@example.org", "\\x{FFFFFF}@example.org"],
    ["x400; /S=jane/OU=example/PRMD=EX/ADMD= /C=GB/", "/S=jane/OU=example/PRMD=EX/ADMD= /C=GB/"],
    ["", ""],
  ])("%j names %j", (value, address) => {
    expect(addressOfField(value)).toBe(address);
  });
});

describe("delivery-status fields", () => {
  const jane = { address: "jane@example.net", action: "failed", status: "5.1.1", diagnostic: "smtp; 550 5.1.1 no" };

  test("per-message fields, then a group for each recipient", () => {
    const fields = parseDeliveryStatus(
      "Reporting-MTA: dns; mx.example.org\nArrival-Date: Mon, 2 Mar 2026 10:00:00 +0000\n\n" +
        "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no\n\n" +
        "Original-Recipient: rfc822;joe@example.org\nFinal-Recipient: rfc822; joe@example.net\nAction: delayed\nStatus: 4.2.2 (full)\n",
    );
    expect(fields).toMatchObject([
      jane,
      { address: "joe@example.net", originalAddress: "joe@example.org", action: "delayed", status: "4.2.2" },
    ]);
  });

  test.each([
    [
      "CR alone ends lines",
      "Final-Recipient: rfc822; jane@example.net\rAction: failed\rStatus: 5.1.1\rDiagnostic-Code: smtp; 550 5.1.1 no\r",
    ],
    [
      "no blank line before the group",
      "Reporting-MTA: dns; mx.example.org\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no\nFinal-Recipient: rfc822; jane@example.net\n",
    ],
    [
      "a blank line within the group",
      "Final-Recipient: rfc822; jane@example.net\n\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no\n",
    ],
    [
      "a folded diagnostic",
      "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp;\n 550 5.1.1\n no\n",
    ],
    [
      "a diagnostic that goes on without indentation",
      "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550\n5.1.1 no\n",
    ],
    [
      "names in other cases",
      "final-RECIPIENT:rfc822;jane@example.net\nACTION:Failed\nstatus:5.1.1\ndiagnostic-code:smtp; 550 5.1.1 no\n",
    ],
    [
      "quoted lines",
      "> Final-Recipient: rfc822; jane@example.net\n> Action: failed\n> Status: 5.1.1\n> Diagnostic-Code: smtp; 550 5.1.1 no\n",
    ],
  ])("tolerated: %s", (_, text) => {
    expect(parseDeliveryStatus(text)).toMatchObject([jane]);
  });

  test("groups without a blank line between", () => {
    const group = (name: string) => `Final-Recipient: rfc822; ${name}@example.net\nAction: failed\nStatus: 5.1.1\n`;
    expect(parseDeliveryStatus(group("jane") + group("joe")).map((recipient) => recipient.address)).toEqual([
      "jane@example.net",
      "joe@example.net",
    ]);
  });

  test("the original recipient stands in where the final one is no mailbox", () => {
    const text = "Original-Recipient: rfc822; jane@example.net\nFinal-Recipient: x400; /S=jane/C=GB/\nAction: failed\n";
    expect(parseDeliveryStatus(text)[0]?.address).toBe("jane@example.net");
  });

  test("a missing or odd Status is left out", () => {
    expect(parseDeliveryStatus("Final-Recipient: rfc822; a@example.net\nStatus: unknown\n")[0]?.status).toBeUndefined();
  });

  test("no more than a thousand recipients are read", () => {
    expect(parseDeliveryStatus("Final-Recipient: rfc822; a@example.net\n\n".repeat(3000))).toHaveLength(1000);
  });
});

const report = `Content-Type: multipart/report; report-type=delivery-status; boundary=r

--r
Content-Type: text/plain

Sorry.

--r
Content-Type: message/delivery-status

Final-Recipient: rfc822; jane@example.net
Action: failed
Status: 5.1.1

--r
Content-Type: text/rfc822-headers

Message-ID: <1@example.org>
Subject: News

--r--
`;

test.each([
  ["X-Unix ; 67", "X-Unix; 67"],
  ["x-unix (procmail); 67", "x-unix; 67"],
  ["smtp(of mx) ; 550 5.1.1 no (jane); none", "smtp; 550 5.1.1 no (jane); none"],
  ["no such user ; here", "no such user ; here"],
])("Diagnostic-Code: %s is %s (RFC 3464 §2.1.1)", (value, diagnostic) => {
  const fields = parseDeliveryStatus(`\nFinal-Recipient: rfc822; jane@example.net\nDiagnostic-Code: ${value}\n`);
  expect(fields).toMatchObject([{ diagnostic }]);
});

describe("the report in a message", () => {
  test("at the surface", async () => {
    expect(findDeliveryReport(await mime(report))?.recipients).toMatchObject([{ address: "jane@example.net" }]);
  });

  test("forwarded as an attachment", async () => {
    const forwarded = `Content-Type: multipart/mixed; boundary=f\n\n--f\n\nsee below\n--f\nContent-Type: message/rfc822\n\n${report}\n--f--\n`;
    const found = findDeliveryReport(await mime(forwarded));
    expect(found?.recipients).toMatchObject([{ address: "jane@example.net" }]);
    expect(found?.container.type).toBe("multipart/report");
  });

  test("in UTF-8 and base64 (RFC 6533)", async () => {
    const fields = Buffer.from("Final-Recipient: utf-8; josé@example.net\nAction: failed\nStatus: 5.1.1\n").toString(
      "base64",
    );
    const message = `Content-Type: message/global-delivery-status\nContent-Transfer-Encoding: base64\n\n${fields}\n`;
    expect(findDeliveryReport(await mime(message))?.recipients).toMatchObject([{ address: "josé@example.net" }]);
  });

  test("a person who quotes one has sent none", async () => {
    expect(
      findDeliveryReport(
        await mime("From: jane@example.net\n\n> Final-Recipient: rfc822; joe@example.net\n> Action: failed\n"),
      ),
    ).toBeUndefined();
  });
});

test("the header of the returned message", async () => {
  expect(findReturnedHeaders(await mime(report))).toEqual([
    { name: "message-id", value: "<1@example.org>" },
    { name: "subject", value: "News" },
  ]);
});
