import { describe, expect, test } from "vitest";
import { interpret } from "../../../../services/operations/mail/interpret.ts";

const octets = (text: string) => Buffer.from(text.replaceAll("\n", "\r\n"));

interface Report {
  readonly fields: string;
  readonly notice?: string;
  readonly subject?: string;
}

const original =
  "Content-Type: message/rfc822\n\nFrom: news@example.org\nTo: never-picked@example.com\nMessage-ID: <1@example.org>\n\nnever-picked@example.com\n";

function dsn({ fields, notice = "Your message could not be delivered.", subject = "Delivery report" }: Report): Buffer {
  return octets(`From: MAILER-DAEMON@mx.example.org
To: b+token@bounces.example.org
Subject: ${subject}
Auto-Submitted: auto-replied
Content-Type: multipart/report; report-type=delivery-status; boundary=r

--r
Content-Type: text/plain; charset=utf-8

${notice}
--r
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.org

${fields}
--r
${original}
--r--
`);
}

describe("delivery reports", () => {
  test("Postfix's of a mailbox over its limit: the notice says what the exit status does not", async () => {
    const fields =
      "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.3.0\nDiagnostic-Code: x-unix; input/output error";
    const notice = `<jane@example.net>: cannot update mailbox /var/mail/jane for user jane. error
    writing message: File too large`;
    const { results } = await interpret(dsn({ fields, notice }));
    expect(results).toMatchObject([{ reason: "mailboxfull", hard: false }]);
  });

  test("Sendmail's of an unknown user: the type of the diagnostic is none of its words", async () => {
    const fields =
      "Final-Recipient: RFC822; jane@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: X-Unix; 550 5.1.1 User unknown";
    const notice = `   ----- The following addresses had permanent fatal errors -----
jane@example.net
    (reason: 550 5.1.1 User unknown)`;
    const { results } = await interpret(dsn({ fields, notice }));
    expect(results).toMatchObject([{ reason: "userunknown", hard: true, replycode: "550" }]);
  });

  test("the fields alone", async () => {
    const fields =
      "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 no such user";
    expect(await interpret(dsn({ fields }))).toEqual({
      kind: "dsn",
      results: [
        {
          recipient: "jane@example.net",
          action: "failed",
          status: "5.1.1",
          replycode: "550",
          hard: true,
          reason: "userunknown",
        },
      ],
      original: {
        messageId: "<1@example.org>",
        headers: new Map([
          ["from", "news@example.org"],
          ["to", "never-picked@example.com"],
          ["message-id", "<1@example.org>"],
        ]),
      },
    });
  });

  test("what the fields leave open stands in the notice, recipient by recipient", async () => {
    const fields =
      "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.0.0\n\nFinal-Recipient: rfc822; joe@example.net\nAction: failed\nStatus: 5.0.0";
    const notice =
      "jane@example.net: 550 5.1.1 <jane@example.net>: User unknown\njoe@example.net: 552 5.2.2 Mailbox full";
    expect((await interpret(dsn({ fields, notice }))).results).toMatchObject([
      { recipient: "jane@example.net", status: "5.1.1", replycode: "550", reason: "userunknown", hard: true },
      { recipient: "joe@example.net", status: "5.2.2", replycode: "552", reason: "mailboxfull", hard: false },
    ]);
  });

  test.each([
    ["failure", "failed"],
    ["error", "failed"],
    ["expired", "failed"],
    ["Delayed", "delayed"],
    ["deferred", "delayed"],
    ["deliverable", "delivered"],
    ["relayed (to mx.example.net)", "relayed"],
    ["expanded", "expanded"],
  ])("the action %s means %s", async (stated, action) => {
    const fields = `Final-Recipient: rfc822; jane@example.net\nAction: ${stated}\nStatus: 5.1.1`;
    expect((await interpret(dsn({ fields }))).results[0]?.action).toBe(action);
  });

  test.each([
    ["Status: 2.0.0", "", "delivered"],
    ["Status: 4.4.1", "Your message is delayed and will be retried for 2 days.", "delayed"],
    ["Status: 4.4.7", "Delivery failed, giving up.", "failed"],
    ["Status: 5.2.1", "", "failed"],
    ["", "", "failed"],
  ])("without an action, %j beside %j means %s", async (status, notice, action) => {
    expect(
      (await interpret(dsn({ fields: `Final-Recipient: rfc822; jane@example.net\n${status}`, notice }))).results[0]
        ?.action,
    ).toBe(action);
  });

  test.each(["delayed", "delivered", "relayed", "expanded"])("what is %s is never hard", async (action) => {
    const fields = `Final-Recipient: rfc822; jane@example.net\nAction: ${action}\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 user unknown`;
    expect((await interpret(dsn({ fields }))).results[0]?.hard).toBe(false);
  });

  test("Exim's own router knows no such user; what a remote system says of the message is a filter's", async () => {
    const fields = ["jane", "joe", "ann"]
      .map((name) => `Action: failed\nFinal-Recipient: rfc822;${name}@example.net\nStatus: 5.0.0`)
      .join("\n\n");
    const notice =
      "A message that you sent could not be delivered to one or more of its\nrecipients. The following address(es) failed:\n\n" +
      "  jane@example.net\n    Unknown local user\n  joe@example.net\n    No user here called joe\n" +
      "  ann@example.net\n    SMTP error from remote mail server after end of data:\n    host mx.example.net [192.0.2.7]: 550 unknown user";
    expect((await interpret(dsn({ fields, notice }))).results).toMatchObject([
      { recipient: "jane@example.net", reason: "userunknown", hard: true },
      { recipient: "joe@example.net", reason: "userunknown", hard: true },
      { recipient: "ann@example.net", reason: "filtered", hard: false },
    ]);
  });

  test("the notice names the mailbox where the fields name an account", async () => {
    const fields = "Final-Recipient: LOCAL;<jane>\nAction: failed\nStatus: 5.2.2";
    const notice = "Failed to deliver to '<jane@example.net>'\naccount is full";
    expect((await interpret(dsn({ fields, notice }))).results[0]?.recipient).toBe("jane@example.net");
  });

  test("a refusal that asks for confirmation is a challenge", async () => {
    const fields =
      "Final-Recipient: rfc822; jane@example.net\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 Your server requires confirmation, visit https://example.net/ to confirm it";
    expect(await interpret(dsn({ fields }))).toEqual({ kind: "vacation", results: [] });
  });

  test("a report in lines of a text part, from a mail system", async () => {
    const message = octets(
      "From: MAILER-DAEMON@mx.example.org\nSubject: Delivery Status Notification (Failure)\n\nTechnical report:\n\nAction: failed\nFinal-Recipient: rfc822; jane@example.net\nStatus: 5.2.2\n",
    );
    expect(await interpret(message)).toMatchObject({
      kind: "dsn",
      results: [{ recipient: "jane@example.net", reason: "mailboxfull" }],
    });
  });

  test("an HTML notice alone", async () => {
    const message = octets(
      "From: MAILER-DAEMON@mx.example.org\nSubject: failure notice\nContent-Type: text/html\n\n<p>Your mail could not be delivered to</p><p>jane@example.net</p><p>No such mailbox</p>",
    );
    expect(await interpret(message)).toMatchObject({
      kind: "dsn",
      results: [{ recipient: "jane@example.net", reason: "userunknown" }],
    });
  });
});

describe("notices with typographic quotation marks", () => {
  const notice = (type: string, body: string) =>
    interpret(
      Buffer.from(`From: MAILER-DAEMON@mx.example.org\nSubject: Info\nContent-Type: ${type}\n\n${body}`, "latin1"),
    );
  const result = { recipient: "jane@example.net", reason: "userunknown", hard: true };

  test.each([
    ["Le courriel n’a pas pu être distribué :\n<jane@example.net>: cette adresse n’existe pas"],
    ["We couldn’t be sure… it wasn’t delivered to jane@example.net: the mailbox doesn’t exist"],
    ["Il messaggio non è stato recapitato a jane@example.net: l’utente non esiste"],
    ["Delivery failed. Remote Server returned ‘550 5.1.1 no such user’\n“jane@example.net”"],
  ])("%s", async (text) => {
    const utf8 = Buffer.from(text).toString("latin1");
    expect(await notice("text/plain; charset=utf-8", utf8)).toMatchObject({ kind: "dsn", results: [result] });
  });

  test("in windows-1252", async () => {
    const text = "Le courriel n\x92a pas pu \xeatre distribu\xe9 :\n<jane@example.net>: cette adresse n\x92existe pas";
    expect(await notice("text/plain; charset=windows-1252", text)).toMatchObject({ kind: "dsn", results: [result] });
  });

  test("in HTML", async () => {
    const html =
      "<p>Le courriel n&rsquo;a pas pu &ecirc;tre distribu&eacute;</p>jane@example.net : l&#8217;adresse n&#146;existe pas";
    expect(await notice("text/html", html)).toMatchObject({ kind: "dsn", results: [result] });
  });
});

describe("notices in Catalan", () => {
  test.each([
    ["El vostre missatge no s'ha pogut lliurar a jane@example.net: usuari desconegut", "userunknown", true],
    ["No s’ha lliurat el correu.\n<jane@example.net>: aquesta adreça de correu ja no existeix", "userunknown", true],
    ["No hem pogut lliurar el missatge:\n<jane@example.net>: no existeix l’usuari", "userunknown", true],
    ["Ha fallat el lliurament a jane@example.net. La bústia del destinatari està plena.", "mailboxfull", false],
    ["El missatge no ha pogut ser lliurat\n<jane@example.net>: el compte ha superat la quota", "mailboxfull", false],
    ["No es pot lliurar a jane@example.net: el domini example.net no existeix", "hostunknown", true],
  ])("%s", async (text, reason, hard) => {
    const message = octets(
      `From: MAILER-DAEMON@mx.example.org\nSubject: Avís\nAuto-Submitted: auto-replied\nContent-Type: text/plain; charset=utf-8\n\n${text}`,
    );
    const results = [{ recipient: "jane@example.net", reason, hard }];
    expect(await interpret(message)).toMatchObject({ kind: "dsn", results });
  });

  test("of a delay", async () => {
    const message = octets(
      "From: MAILER-DAEMON@mx.example.org\nSubject: Avís\nContent-Type: text/plain; charset=utf-8\n\nEl missatge encara no s'ha pogut lliurar a jane@example.net.",
    );
    expect((await interpret(message)).results).toMatchObject([{ action: "delayed", hard: false }]);
  });
});

describe("notifications of Amazon SES", () => {
  const notification = (message: object) =>
    octets(`From: no-reply@sns.example.com\nSubject: Notification\n\n${JSON.stringify(message)}\n`);
  const bounced = {
    emailAddress: "jane@example.net",
    action: "failed",
    status: "5.1.1",
    diagnosticCode: "smtp; 550 5.1.1 user unknown",
  };

  test("a bounce", async () => {
    const message = { notificationType: "Bounce", bounce: { bounceType: "Permanent", bouncedRecipients: [bounced] } };
    const expected = { kind: "dsn", results: [{ recipient: "jane@example.net", reason: "userunknown", hard: true }] };
    expect(await interpret(notification(message))).toMatchObject(expected);
    expect(await interpret(notification({ Type: "Notification", Message: JSON.stringify(message) }))).toMatchObject(
      expected,
    );
  });

  test("a complaint", async () => {
    const complaint = { complainedRecipients: [{ emailAddress: "jane@example.net" }] };
    expect(await interpret(notification({ notificationType: "Complaint", complaint }))).toMatchObject({
      kind: "arf",
      feedbackType: "abuse",
      results: [{ recipient: "jane@example.net", reason: "feedback", hard: false }],
    });
  });

  test("a delivery", async () => {
    expect(
      await interpret(notification({ notificationType: "Delivery", delivery: { recipients: ["jane@example.net"] } })),
    ).toMatchObject({
      kind: "dsn",
      results: [{ recipient: "jane@example.net", action: "delivered", reason: "delivered", hard: false }],
    });
  });

  test.each([
    [{ complaintFeedbackType: "not-spam" }, "not-spam"],
    [{ complaintFeedbackType: null }, "abuse"],
    [{}, "abuse"],
  ])("a complaint, of the type that the receiver gave it: %j", async (type, feedbackType) => {
    const complaint = { complainedRecipients: [{ emailAddress: "jane@example.net" }], ...type };
    expect(await interpret(notification({ notificationType: "Complaint", complaint }))).toMatchObject({
      ...{ kind: "arf", feedbackType },
      results: [{ recipient: "jane@example.net", action: "delivered", reason: "feedback", hard: false }],
    });
  });

  test("anything else in JSON", async () => {
    expect((await interpret(notification({ Message: "{" }))).kind).toBe("not-bounce");
    expect((await interpret(notification({ notificationType: "Bounce", bounce: [1] }))).results).toEqual([]);
  });
});

describe("complaints", () => {
  test("go before everything that they enclose", async () => {
    const message = octets(`From: fbl@isp.example
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: X/1
Original-Rcpt-To: jane@example.net

--b
Content-Type: message/rfc822

${dsn({ fields: "Final-Recipient: rfc822; joe@example.net\nAction: failed" }).toString()}
--b--
`);
    expect(await interpret(message)).toMatchObject({
      kind: "arf",
      feedbackType: "abuse",
      results: [{ recipient: "jane@example.net" }],
    });
  });
});

/** A disposition notification, as mail readers and filters send it. */
function mdn(header: string, words: string, disposition: string): Buffer {
  return octets(`${header}
Content-Type: multipart/report; report-type=disposition-notification; boundary=b

--b

${words}
--b
Content-Type: message/disposition-notification

Final-Recipient: rfc822; jane@example.net
Disposition: ${disposition}
--b--
`);
}

describe("refusals by the recipient's own filter", () => {
  const mark = "Auto-Submitted: auto-replied (rejected)";
  const deleted = "automatic-action/MDN-sent-automatically; deleted";
  const folded = "automatic-action/MDN-sent-automatically;\n deleted";

  test.each([
    [
      "From: Mail Delivery Subsystem <postmaster@example.net>",
      "Mail to jane was automatically refused:\nno ads",
      deleted,
    ],
    [`From: jane@example.net\n${mark}`, "Por favor, no me escriban más.", folded],
    [`From: postmaster@example.net\n${mark}`, "Rebutjat automàticament.\n\nNo, gràcies", deleted],
  ])("in whatever words: %j", async (header, words, disposition) => {
    const results = [
      {
        ...{ recipient: "jane@example.net", action: "failed", status: null, replycode: null },
        ...{ hard: false, reason: "rejected" },
      },
    ];
    expect(await interpret(mdn(header, words, disposition))).toEqual({ kind: "dsn", results });
  });

  test.each([
    ["Mailbox full", "mailboxfull"],
    ["This person no longer works here", "userunknown"],
    ["550 5.1.1 user unknown", "userunknown"],
  ])("for a reason that mail systems give, never hard: %s", async (words, reason) => {
    const message = mdn(`From: postmaster@example.net\n${mark}`, `Was automatically rejected:\n${words}`, deleted);
    expect((await interpret(message)).results).toMatchObject([{ action: "failed", reason, hard: false }]);
  });

  test.each([
    ["From: postmaster@example.net", "The message was deleted without being read.", deleted],
    ["From: jane@example.net", "Deleted unread. This was automatically rejected mail, I think.", deleted],
    ["From: postmaster@example.net", "Your message was read.", "manual-action/MDN-sent-manually; displayed"],
    [
      "From: postmaster@example.net",
      "It is automatically rejected when read.",
      "manual-action/MDN-sent-manually; displayed",
    ],
  ])("a receipt is none: %j, %j", async (header, words, disposition) => {
    expect(await interpret(mdn(header, words, disposition))).toMatchObject({ kind: "not-bounce", results: [] });
  });
});

describe("automatic replies", () => {
  test.each([
    ["RFC 3834", "From: jane@example.net\nSubject: Re: News\nAuto-Submitted: auto-replied (vacation)\n\nI am away."],
    ["its subject", "From: jane@example.net\nSubject: Automatic reply: News\n\nI will be back on Monday."],
    ["a subject in Catalan", "From: jane@example.net\nSubject: Resposta automàtica: News\n\nTorno dilluns."],
    ["a subject in German", "From: jane@example.net\nSubject: Abwesenheitsnotiz: News\n\nBin bald zurück."],
    ["a field of its own", "From: jane@example.net\nX-Autoreply: yes\nSubject: News\n\nHello"],
    ["Precedence", "From: jane@example.net\nPrecedence: auto_reply\nSubject: News\n\nHello"],
    [
      "words, with a null return path",
      "Return-Path: <>\nFrom: jane@example.net\nSubject: Re: News\n\nI am currently out of the office.",
    ],
    [
      "a challenge",
      "From: jane@example.net\nSubject: Re: News\n\nMy mailbox is protected by Example. Click here to have your address added to the allowed list.",
    ],
  ])("known by %s", async (_, text) => {
    expect(await interpret(octets(text))).toEqual({ kind: "vacation", results: [] });
  });
});

describe("ordinary mail", () => {
  test.each([
    [
      "a person who writes of bounces",
      "From: Jane <jane@example.net>\nSubject: Re: Undelivered Mail Returned to Sender\n\nHi, my mail to joe@example.net could not be delivered (550 user unknown). Can you help?",
    ],
    [
      "a person who quotes a notice",
      "From: jane@example.net\nSubject: strange\n\n> <joe@example.net>: host mx said: 550 5.1.1 User unknown\nWhat does it mean?",
    ],
    [
      "a parcel service",
      "Return-Path: <x@parcel.example>\nFrom: Parcel <info@parcel.example>\nSubject: Delivery failed: your parcel\n\nYour parcel could not be delivered to the following address. Write to help@parcel.example.",
    ],
    [
      "a forwarded message",
      "From: jane@example.net\nSubject: fyi\nContent-Type: message/rfc822\n\nFrom: joe@example.net\nSubject: hello\n\nhi",
    ],
    [
      "a newsletter",
      "From: mailer@shop.example\nSubject: Holiday sale\nPrecedence: bulk\n\nThank you for your order last year! Visit https://shop.example/",
    ],
    [
      "a person who is away",
      "Return-Path: <jane@example.net>\nFrom: jane@example.net\nSubject: Monday\n\nI am away next week, call me.",
    ],
    [
      "a ticket about a bounce",
      "From: tracker@example.com\nSubject: [MAIL-1] Mail could not be delivered\n\n550 5.1.1 user unknown: mail to jane@example.net could not be delivered.",
    ],
    [
      "a read receipt",
      "From: jane@example.net\nSubject: Read: News\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\n\n--b\n\nYour message was read.\n--b\nContent-Type: message/disposition-notification\n\nFinal-Recipient: rfc822; jane@example.net\nDisposition: manual-action/MDN-sent-manually; displayed\n--b--",
    ],
    ["nothing at all", ""],
  ])("%s", async (_, text) => {
    expect(await interpret(octets(text))).toEqual({ kind: "not-bounce", results: [] });
  });
});
