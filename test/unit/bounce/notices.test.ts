import { describe, expect, test } from "vitest";
import { interpret } from "../../../services/operations/mail/interpret.ts";

/**
 * Notices that are no standard report, one per layout. Each says the sender's fields, the text as that mail system
 * lays it out, and what must be understood: recipient, action, status, reply code, reason, hard.
 */
type Expected = readonly [string, string, string | null, string | null, string, boolean];

interface Notice {
  readonly system: string;
  readonly from?: string;
  readonly subject: string;
  readonly fields?: string;
  readonly body: string;
  readonly expected: readonly Expected[];
}

const ORIGINAL =
  "Received: from app.example.org by mx.example.org\nTo: never-picked@example.com\nSubject: News\n\nHello never-picked@example.com\n";

const NOTICES: readonly Notice[] = [
  {
    system: "Postfix",
    subject: "Undelivered Mail Returned to Sender",
    body: `This is the mail system at host mx.example.org.

I'm sorry to have to inform you that your message could not
be delivered to one or more recipients. It's attached below.

                   The mail system

<jane@example.net> (expanded from <team@example.org>): host
    mx.example.net[192.0.2.7] said: 550 5.1.1 <jane@example.net>: Recipient
    address rejected: User unknown in relay recipient table (in reply to RCPT TO
    command)

<joe@example.net>: host mx.example.net[192.0.2.7] said: 452 4.2.2 <joe@example.net>
    Mailbox full (in reply to RCPT TO command)`,
    expected: [
      ["jane@example.net", "failed", "5.1.1", "550", "userunknown", true],
      ["joe@example.net", "failed", "4.2.2", "452", "mailboxfull", false],
    ],
  },
  {
    system: "Exim",
    subject: "Mail delivery failed: returning message to sender",
    fields: "X-Failed-Recipients: jane@example.net,\n joe@example.net\n",
    body: `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  jane@example.net
    host mx.example.net [192.0.2.7]
    SMTP error from remote mail server after RCPT TO:<jane@example.net>:
    550 No such person at this address
  joe@example.net
    mailbox is full (MTA-imposed quota exceeded while writing to file /var/mail/joe):
    retry timeout exceeded

------ This is a copy of the message, including all the headers. ------

Return-path: <news@example.org>
${ORIGINAL}`,
    expected: [
      ["jane@example.net", "failed", null, "550", "userunknown", true],
      ["joe@example.net", "failed", null, null, "mailboxfull", false],
    ],
  },
  {
    system: "Exim, a domain that has no route",
    subject: "Mail delivery failed: returning message to sender",
    body: `A message that you sent could not be delivered to one or more of its
recipients. The following address(es) failed:

  jane@nowhere.example
    Unrouteable address
`,
    expected: [["jane@nowhere.example", "failed", null, null, "hostunknown", true]],
  },
  {
    system: "Exim, a warning",
    subject: "Warning: message 1a2b3c-000001-AB delayed 48 hours",
    body: `A message that you sent has not yet been delivered to one or more of its
recipients after more than 48 hours on the queue on mx.example.org.

The address to which the message has not yet been delivered is:

  jane@example.net
    host mx.example.net [192.0.2.7]
    Delay reason: Connection timed out

No action is required on your part. Delivery attempts will continue for
some time, and this warning may be repeated at intervals if the message
remains undelivered. Eventually the mail delivery software will give up,
and when that happens, the message will be returned to you.`,
    expected: [["jane@example.net", "delayed", null, null, "expired", false]],
  },
  {
    system: "qmail",
    subject: "failure notice",
    body: `Hi. This is the qmail-send program at mx.example.org.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<jane@example.net>:
192.0.2.7 does not like recipient.
Remote host said: 550 unknown user
Giving up on 192.0.2.7.

<joe@example.net>:
Sorry, no mailbox here by that name. vpopmail (#5.1.1)

<jim@example.net>:
User is over the quota. You can try again later. (#5.2.2)

--- Below this line is a copy of the message.

${ORIGINAL}`,
    expected: [
      ["jane@example.net", "failed", null, "550", "userunknown", true],
      ["joe@example.net", "failed", "5.1.1", null, "userunknown", true],
      ["jim@example.net", "failed", "5.2.2", null, "mailboxfull", false],
    ],
  },
  {
    system: "sendmail",
    subject: "Returned mail: see transcript for details",
    body: `The original message was received at Mon, 2 Mar 2026 10:00:00 GMT
from app.example.org [192.0.2.1]

   ----- The following addresses had permanent fatal errors -----
<jane@example.net>
    (reason: 550 5.7.1 Mail from 192.0.2.1 refused by blackhole site bl.example.com)

   ----- Transcript of session follows -----
... while talking to mx.example.net.:
>>> MAIL From:<news@example.org>
<<< 550 5.7.1 Mail from 192.0.2.1 refused by blackhole site bl.example.com
554 5.0.0 Service unavailable`,
    expected: [["jane@example.net", "failed", "5.7.1", "550", "blocked", false]],
  },
  {
    system: "sendmail 5",
    subject: "Returned mail: User unknown",
    body: `   ----- Transcript of session follows -----
While talking to mx.example.net:
>>> RCPT To:<jane@example.net>
<<< 550 <jane@example.net>... User not known here
550 <jane@example.net>... User unknown

   ----- Unsent message follows -----
${ORIGINAL}`,
    expected: [["jane@example.net", "failed", null, "550", "userunknown", true]],
  },
  {
    system: "Exchange 2003",
    from: "System Administrator <postmaster@example.net>",
    subject: "Undeliverable: News",
    body: `Your message

  To:      somebody-else@example.com
  Subject: News
  Sent:    Mon, 2 Mar 2026 10:00:00 +0100

did not reach the following recipient(s):

jane@example.net on Mon, 2 Mar 2026 10:00:05 +0100
    The recipient name is not recognized
	The MTS-ID of the original message is: c=us;a= ;p=example
    MSEXCH:IMS:EXAMPLE:HQ:MX 0 (000C05A6) Unknown Recipient`,
    expected: [["jane@example.net", "failed", null, null, "userunknown", true]],
  },
  {
    system: "Exchange Online without its report",
    from: "Microsoft Outlook <postmaster@example.net>",
    subject: "Undeliverable: News",
    body: `Delivery has failed to these recipients or groups:

Jane Roe (jane@example.net)<mailto:jane@example.net>
The recipient's mailbox is full and can't accept messages now.

Diagnostic information for administrators:

Generating server: AB1PR01MB0001.prod.example.com

jane@example.net
Remote Server returned '554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException'

Original message headers:

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", "5.2.2", "554", "mailboxfull", false]],
  },
  {
    system: "Gmail",
    from: "Mail Delivery Subsystem <mailer-daemon@googlemail.com>",
    subject: "Delivery Status Notification (Failure)",
    body: `Delivery to the following recipient failed permanently:

     jane@example.net

Technical details of permanent failure:
Google tried to deliver your message, but it was rejected by the server for the recipient domain example.net by mx.example.net. [192.0.2.7].

The error that the other server returned was:
550 sorry, no such user (state 14).

----- Original message -----

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", null, "550", "userunknown", true]],
  },
  {
    system: "Gmail, a delay",
    from: "Mail Delivery Subsystem <mailer-daemon@googlemail.com>",
    subject: "Delivery Status Notification (Delay)",
    body: `THIS IS A WARNING MESSAGE ONLY.

YOU DO NOT NEED TO RESEND YOUR MESSAGE.

Delivery to the following recipient has been delayed:

     jane@example.net

Message will be retried for 1 more day(s)`,
    expected: [["jane@example.net", "delayed", null, null, "expired", false]],
  },
  {
    system: "GMX",
    subject: "Mail delivery failed: returning message to sender",
    body: `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to
one or more of its recipients. The following addresses
failed:

"jane@example.net":
SMTP error from remote server after RCPT command:
host: mx.example.net
5.1.1 <jane@example.net>... User Unknown

--- The header of the original message is following. ---

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", "5.1.1", null, "userunknown", true]],
  },
  {
    system: "Yahoo",
    from: "MAILER-DAEMON@yahoo.com",
    subject: "Failure Notice",
    body: `Sorry, we were unable to deliver your message to the following address.

<jane@example.net>:
554: delivery error: dd This user doesn't have a example.net account (jane@example.net) [0]

--- Below this line is a copy of the message.

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", null, "554", "userunknown", true]],
  },
  {
    system: "Activehunter",
    subject: "FAILURE NOTICE :",
    body: `  ----- The following addresses had permanent fatal errors -----

>>> jane@example.net <jane@example.net>

  ----- Transcript of session follows -----
550 sorry, no mailbox here by that name (#5.1.1 - chkuser)`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "Apache James",
    subject: "[BOUNCE]",
    body: `Hi. This is the James mail server at example.org.
I'm afraid I wasn't able to deliver your message to the following addresses.

Message details:
  Subject: News
  MAIL FROM: news@example.org
  RCPT TO: jane@example.net
  From: News <news@example.org>
  To: somebody-else@example.com
  Size (in bytes): 1016

Error message below:
550 - Requested action not taken: no such user here`,
    expected: [["jane@example.net", "failed", null, "550", "userunknown", true]],
  },
  {
    system: "Courier",
    subject: "NOTICE: mail delivery status.",
    body: `This is a delivery status notification from mx.example.org,
running the Courier mail server, version 1.0.

                           UNDELIVERABLE MAIL

Your message to the following recipients cannot be delivered:

<jane@example.net>:
    mx.example.net [192.0.2.7]:
>>> RCPT TO:<jane@example.net>
<<< 550 5.1.1 <jane@example.net>... User Unknown`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "Domino",
    subject: "DELIVERY FAILURE: User jane (jane@example.net) not listed in Domino Directory",
    body: `Your message

  Subject: News

was not delivered to:

  jane@example.net

because:

  User jane (jane@example.net) not listed in Domino Directory`,
    expected: [["jane@example.net", "failed", null, null, "userunknown", true]],
  },
  {
    system: "Notes",
    from: "postmaster@example.net",
    subject: "Undeliverable message",
    body: `------- Failure Reasons  --------

User not listed in public Name & Address Book
jane@example.net

------- Returned Message --------

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", null, null, "userunknown", true]],
  },
  {
    system: "IMail",
    from: '"Postmaster" <postmaster@example.net>',
    subject: "Undeliverable Mail",
    body: `User mailbox exceeds allowed size: jane@example.net

Original message follows.

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", null, null, "mailboxfull", false]],
  },
  {
    system: "OpenSMTPD",
    subject: "Delivery status notification: error",
    body: `    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this e-mail.

    An error has occurred while attempting to deliver a message for
    the following list of recipients:

jane@example.net: 550 5.2.2 <jane@example.net>: user is over quota
joe@nowhere.example: Domain does not exist

    Below is a copy of the original message:

${ORIGINAL}`,
    expected: [
      ["jane@example.net", "failed", "5.2.2", "550", "mailboxfull", false],
      ["joe@nowhere.example", "failed", null, null, "hostunknown", true],
    ],
  },
  {
    system: "DragonFly Mail Agent",
    subject: "Mail delivery failed",
    body: `This is the DragonFly Mail Agent v0.13 at app.example.org.

There was an error delivering your mail to <jane@example.net>.

mx.example.net [192.0.2.7] did not like our MAIL FROM:
553 5.1.8 <news@example.org>: Sender address rejected: Domain not found

Message headers follow.

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", "5.1.8", "553", "rejected", false]],
  },
  {
    system: "MailMarshal",
    from: "MailMarshal <postmaster@example.net>",
    subject: "Undeliverable Mail: News",
    body: `Your message:
   From:    news@example.org
   Subject: News

Could not be delivered because of

550 5.1.1 User unknown

The following recipients were affected:
    jane@example.net`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "MailFoundry",
    subject: "Message delivery has failed",
    body: `Unable to deliver message to: <jane@example.net>
Delivery failed for the following reason:
Server mx.example.net[192.0.2.7] failed with: 552 mailbox jane@example.net is over quota temporarily

This has been a permanent failure.  No further delivery attempts will be made.`,
    expected: [["jane@example.net", "failed", null, "552", "mailboxfull", false]],
  },
  {
    system: "Messaging Server",
    from: "postmaster@example.net",
    subject: "Delivery Notification: Delivery has failed",
    body: `This report relates to a message you sent with the following header fields:

  From: news@example.org
  To: somebody-else@example.com

Your message cannot be delivered to the following recipients:

  Recipient address: jane@example.net
  Reason: Remote SMTP server has rejected address
  Diagnostic code: smtp;550 5.1.1 <jane@example.net>... User Unknown
  Remote system: dns;mx.example.net (TCP|192.0.2.1|33000|192.0.2.7|25)`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "m-FILTER",
    from: "mailer-daemon@example.net",
    subject: "failure notice",
    body: `jane@example.net

-------server message
550 5.1.1 unknown user <jane@example.net>

-------SMTP command
RCPT

-------original message

${ORIGINAL}`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "SurfControl",
    from: "Postmaster <postmaster@example.org>",
    subject: "Message could not be sent",
    body: `Your message could not be sent.
A transcript of the attempts to send the message follows.
The number of attempts made: 1
Addressed To: jane@example.net

Mon 2 Mar 2026 10:00:00 +0100
Failed to send to identified host,
jane@example.net: [192.0.2.7], 550 jane@example.net... No such user
--- Message non-deliverable.`,
    expected: [["jane@example.net", "failed", null, "550", "userunknown", true]],
  },
  {
    system: "KDDI",
    from: "no-reply@mobile.example.jp",
    fields: "Return-Path: <>\n",
    subject: "Mail System Error - Returned Mail",
    body: `Your mail sent on: Mon, 2 Mar 2026 10:00:00

    Could not be delivered to: <jane@mobile.example.jp>

    As their mailbox is full.`,
    expected: [["jane@mobile.example.jp", "failed", null, null, "mailboxfull", false]],
  },
  {
    system: "Zoho",
    from: "mailer-daemon@mail.zoho.com",
    subject: "Undelivered Mail Returned to Sender",
    body: `This message was created automatically by mail delivery software.
 A message that you sent could not be delivered to one or more of its recipients. This is a permanent error.

jane@example.net Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 <jane@example.net>... User Unknown`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "Symantec Email Security.cloud",
    subject: "failure notice",
    body: `This is the mail delivery agent at Symantec Email Security.cloud.
I was unable to deliver your message to the following addresses:

jane@example.net

Reason: 550 5.4.1 Recipient address rejected: Access denied.

The message subject was: News`,
    expected: [["jane@example.net", "failed", "5.4.1", "550", "userunknown", true]],
  },
  {
    system: "X6",
    subject: "There was an error sending your mail",
    body: `We had trouble delivering your message. Full report follows:

Subject: News
Date: Mon, 2 Mar 2026 10:00:00 +0100

1 error(s):

SMTP Server <mx.example.net> rejected recipient <jane@example.net>
  (Error following RCPT command). It responded as follows: [550 5.1.1 <jane@example.net>... User Unknown]`,
    expected: [["jane@example.net", "failed", "5.1.1", "550", "userunknown", true]],
  },
  {
    system: "hMailServer",
    from: "mailer-daemon@example.org",
    subject: "Message undeliverable: News",
    body: `Your message did not reach some or all of the intended recipients.

   Sent: Mon, 2 Mar 2026 10:00:00 +0100
   Subject: News

The following recipient(s) could not be reached:

jane@example.net
   Error Type: SMTP
   Remote server (192.0.2.7) issued an error.
   hMailServer sent: RCPT TO:<jane@example.net>
   Remote server replied: 550 5.7.1 Relaying not allowed

hMailServer`,
    expected: [["jane@example.net", "failed", "5.7.1", "550", "norelaying", false]],
  },
  {
    system: "GroupWise",
    from: "Mail Delivery Agent <postmaster@example.net>",
    subject: "Message status - undeliverable",
    body: `The message that you sent was undeliverable to the following:
	jane@example.net (user not found)`,
    expected: [["jane@example.net", "failed", null, null, "userunknown", true]],
  },
  {
    system: "MailEnable",
    from: '"Postmaster" <postmaster@example.net>',
    subject: "Message Delivery Failure",
    body: `MailEnable: Message could not be delivered to some recipients.
The following recipient(s) could not be reached:

	Recipient: [SMTP:jane@example.net]
	Reason: Remote SMTP Server Returned: 550 No such user here
`,
    expected: [["jane@example.net", "failed", null, "550", "userunknown", true]],
  },
  {
    system: "Merak",
    subject: "Delivery failed: News",
    body: `The message could not be delivered to the following recipients:

<jane@example.net>: connection to mx.example.net failed, connection timed out

The message has been in the queue for 4 days.`,
    expected: [["jane@example.net", "failed", null, null, "expired", false]],
  },
  {
    system: "a notice in German",
    from: "Mail Delivery System <mailer-daemon@example.net>",
    subject: "Unzustellbar: News",
    body: `Ihre Nachricht konnte nicht zugestellt werden an:

  jane@example.net

Das Postfach des Empfängers ist voll.`,
    expected: [["jane@example.net", "failed", null, null, "mailboxfull", false]],
  },
  {
    system: "a notice in Spanish",
    from: "postmaster@example.net",
    subject: "No se puede entregar: News",
    body: `No se pudo entregar el mensaje a los siguientes destinatarios:

jane@example.net

El usuario no existe en este servidor.`,
    expected: [["jane@example.net", "failed", null, null, "userunknown", true]],
  },
  {
    system: "a notice without an address",
    subject: "Undeliverable mail",
    body: "Your message could not be delivered: the mailbox is over quota.\n",
    expected: [["", "failed", null, null, "mailboxfull", false]],
  },
];

function rawMessage(notice: Notice): Buffer {
  const from = notice.from ?? "Mail Delivery System <MAILER-DAEMON@mx.example.org>";
  const header = `From: ${from}\nTo: b+token@bounces.example.org\nSubject: ${notice.subject}\n${notice.fields ?? ""}`;
  return Buffer.from(`${header}Content-Type: text/plain; charset=utf-8\n\n${notice.body}\n`.replaceAll("\n", "\r\n"));
}

describe("notices that are no standard report", () => {
  for (const notice of NOTICES) {
    test(notice.system, async () => {
      const { kind, results } = await interpret(rawMessage(notice));
      expect(kind).toBe("dsn");
      const found = results.map((result) => [
        result.recipient,
        result.action,
        result.status,
        result.replycode,
        result.reason,
        result.hard,
      ]);
      expect(found).toEqual(notice.expected);
    });
  }
});
