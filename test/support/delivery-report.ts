/** A report that a message could not be delivered to somebody (RFC 3464), as it comes to its return path. */
export function failureReport(recipient: string): Buffer {
  const text = `From: mailer-daemon@mta.example.net
Subject: Delivery report
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=cut

--cut
Content-Type: message/delivery-status

Reporting-MTA: dns; mta.example.net

Final-Recipient: rfc822; ${recipient}
Action: failed
Status: 5.1.1
--cut--
`;
  return Buffer.from(text.replaceAll("\n", "\r\n"));
}
