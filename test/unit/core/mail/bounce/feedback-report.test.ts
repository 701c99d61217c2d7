import { describe, expect, test } from "vitest";
import { findFeedbackReport } from "../../../../../services/core/mail/bounce/feedback-report.ts";
import { readMimeMessage } from "../../../../../services/platform/read-mime.ts";

const mime = async (text: string) => readMimeMessage(Buffer.from(text.replaceAll("\n", "\r\n")));

function complaint({
  fields,
  type = "message/feedback-report",
  to = "jane@example.net",
}: {
  fields: string;
  type?: string;
  to?: string;
}) {
  return mime(`From: fbl@isp.example
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: text/plain

This is a complaint.
--b
Content-Type: ${type}

${fields}
--b
Content-Type: message/rfc822

From: news@example.org
To: ${to}
Message-ID: <1@example.org>

News
--b--
`);
}

describe("ARF (RFC 5965)", () => {
  test.each(["abuse", "fraud", "not-spam", "auth-failure", "opt-out", "virus", "other"])(
    "of type %s",
    async (feedbackType) => {
      const found = findFeedbackReport(
        await complaint({ fields: `Feedback-Type: ${feedbackType}\nUser-Agent: X/1\nVersion: 1` }),
      );
      expect(found?.feedbackType).toBe(feedbackType);
    },
  );

  test("Original-Rcpt-To names the recipients", async () => {
    const fields =
      "Feedback-Type: abuse\nUser-Agent: X/1\nOriginal-Rcpt-To: <a@example.net>\nOriginal-Rcpt-To: b@example.net";
    expect(findFeedbackReport(await complaint({ fields }))?.recipients).toEqual(["a@example.net", "b@example.net"]);
  });

  test("else the returned message does", async () => {
    expect(
      findFeedbackReport(await complaint({ fields: "Feedback-Type: abuse\nUser-Agent: X/1" }))?.recipients,
    ).toEqual(["jane@example.net"]);
  });

  test("a redacted recipient is none", async () => {
    const found = findFeedbackReport(
      await complaint({ fields: "Feedback-Type: abuse\nUser-Agent: X/1", to: "[redacted]" }),
    );
    expect(found?.recipients).toEqual([]);
  });

  test("a part that a gateway relabelled", async () => {
    const found = findFeedbackReport(
      await complaint({ fields: "Feedback-Type: abuse\nUser-Agent: X/1", type: "text/plain" }),
    );
    expect(found?.feedbackType).toBe("abuse");
  });
});

describe("complaints that are no ARF", () => {
  test("Junk Mail Reporting Program", async () => {
    const found = findFeedbackReport(
      await mime(`From: <staff@hotmail.com>
Subject: complaint about message from 192.0.2.1
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: message/rfc822

X-HmXmrOriginalRecipient: jane@example.net
From: news@example.org
To: undisclosed

News
--b--
`),
    );
    expect(found).toMatchObject({ feedbackType: "abuse", recipients: ["jane@example.net"] });
  });

  test("a person who quotes a report, or forwards a message, does not complain", async () => {
    expect(
      findFeedbackReport(await mime("From: jane@example.net\n\nFeedback-Type: abuse\nUser-Agent: X/1\n")),
    ).toBeUndefined();
    expect(
      findFeedbackReport(
        await mime("From: jane@example.net\nContent-Type: message/rfc822\n\nTo: joe@example.net\n\nhi\n"),
      ),
    ).toBeUndefined();
  });
});
