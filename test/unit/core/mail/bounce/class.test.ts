import { describe, expect, test } from "vitest";
import {
  classifyBounce,
  classifyReply,
  findReplyCode,
  knownPhrases,
  mostSpecificStatus,
  type SmtpStage,
} from "../../../../../services/core/mail/bounce/class.ts";
import { withOwnPhrases } from "../../../../../services/core/mail/bounce/phrases.ts";
import { parseSmtpReply, type SmtpReply } from "../../../../../services/core/mail/smtp-reply.ts";

describe("what decides", () => {
  test("words go before a status that says less", () => {
    expect(classifyBounce({ status: "5.0.0", text: "550 5.1.1 No such user" })).toEqual({
      reason: "userunknown",
      hard: true,
    });
  });

  test("a full mailbox is soft, whatever the code", () => {
    expect(classifyBounce({ status: "5.1.1", replycode: 550, text: "mailbox is full" })).toEqual({
      reason: "mailboxfull",
      hard: false,
    });
  });

  test("a block is soft beside a status for an unknown user", () => {
    expect(classifyBounce({ status: "5.1.1", text: "550 5.7.1 your IP is blacklisted" }).hard).toBe(false);
  });

  test("the status decides where the words say nothing", () => {
    expect(classifyBounce({ status: "5.1.1", text: "550 computer says no" }).reason).toBe("userunknown");
  });

  test("the words around it, where the words of the failing system say nothing", () => {
    const evidence = { text: "rejected", context: "The address couldn't be found: rejected" };
    expect(classifyBounce(evidence)).toEqual({ reason: "userunknown", hard: true });
  });

  test("the reply code at last", () => {
    expect(classifyBounce({ replycode: "552", text: "" }).reason).toBe("mailboxfull");
  });

  test("nothing known is nothing decided", () => {
    expect(classifyBounce({ text: "" })).toEqual({ reason: "undefined", hard: false });
  });
});

describe("unknown users", () => {
  test.each([
    ["said at RCPT TO", "550 user unknown (in reply to RCPT TO command)", null, true],
    ["confirmed by the status", "550 user unknown", "5.1.1", true],
    ["repeated with the address", "550 <jane@example.org>... User unknown", null, true],
    ["said by a relay that tells no more", "550 unknown user", "5.0.0", true],
    ["said by a relay that tells no status either", "550 No such user here", null, true],
    ["said for now", "450 unknown user", "5.0.0", false],
    ["said with a status for something else", "550 unknown user", "5.2.0", false],
    ["words that a policy has as well (RFC 5321 section 4.2.3)", "550 mailbox unavailable", "5.0.0", false],
    ["said after the message: a filter", "550 user unknown (in reply to end of DATA command)", null, false],
    ["contradicted by the status", "550 <jane@example.org>... User unknown", "5.2.1", false],
  ])("%s", (_, text, status, hard) => {
    expect(classifyBounce({ text, status })).toEqual({ reason: hard ? "userunknown" : "filtered", hard });
  });
});

test("what stands around a refusal is none of its words", () => {
  const context = "It was refused, or there is no such user.";
  expect(classifyBounce({ text: "550 5.0.0 no", context }).hard).toBe(false);
});

describe("unknown users of a system that could not route the address itself", () => {
  test.each([
    ["its own words", "jane: no user by that name here", true],
    ["a local delivery", "mailbox /var/mail/jane has wrong uid (0 != 1000)", false],
    ["a reply", "host mx.example.net [192.0.2.7]: 550 mailbox unavailable", false],
    ["a stage of a session", "error from remote mail server after end of data: no such user", false],
  ])("%s", (_, text, hard) => {
    expect(classifyBounce({ text, status: "5.0.0", unrouted: true }).hard).toBe(hard);
  });
});

describe("the sender is not the recipient", () => {
  test.each([
    ["550 5.1.8 Domain of sender address does not exist", "5.1.8"],
    ["550 example.org does not exist (in reply to MAIL FROM command)", undefined],
    ["550 unknown user (in reply to MAIL FROM command)", undefined],
    ["550 5.1.7 No such domain example.org", "5.1.7"],
  ])("%s", (text, status) => {
    expect(classifyBounce({ text, status })).toEqual({ reason: "rejected", hard: false });
  });
});

describe("a mailbox that is a casilla", () => {
  test.each([
    ["550 Casilla inexistente", "userunknown", true],
    ["550 La casilla no existe", "userunknown", true],
    ["550 La casilla de correo no existe en este servidor", "userunknown", true],
    ["550 Casilla llena", "mailboxfull", false],
    ["550 La casilla de correo está llena", "mailboxfull", false],
  ])("%s", (text, reason, hard) => {
    expect(classifyBounce({ text, status: "5.0.0" })).toEqual({ reason, hard });
  });
});

describe("a delivery program that ended in failure", () => {
  test.each([
    ["5.1.1", "X-Unix; 550 5.1.1 User unknown", "", "userunknown", true],
    ["5.1.1", "x-unix; user unknown", "<jane@example.org>: user unknown", "userunknown", true],
    ["5.3.0", "x-unix; user unknown", "", "userunknown", true],
    ["5.0.0", "X-Unix; 67", "", "userunknown", true],
    ["5.1.2", "x-unix; host name unknown", "", "hostunknown", true],
    ["5.1.1", "x-unix; jane has gone", "", "userunknown", true],
    ["5.2.2", "X-Unix; 73", "", "mailboxfull", false],
    ["5.2.2", "x-unix; input/output error", "error writing message: File too large", "mailboxfull", false],
    ["5.2.0", "x-unix; can't create user output file", "procmail: Quota exceeded while writing", "mailboxfull", false],
    ["5.0.0", "X-Unix; 550 5.0.0 Can't create output", "store: disk quota exceeded", "mailboxfull", false],
    ["5.7.1", "x-unix; the filter took it for spam", "", "spamdetected", false],
    ["5.2.0", "x-unix; can't create user output file", "", "mailererror", false],
    ["5.3.0", "x-unix; input/output error", "", "mailererror", false],
    ["4.3.0", "x-unix; temporary failure", "could not be delivered for more than 4 hour(s)", "mailererror", false],
    ["5.3.0", "x-unix; service unavailable", "", "mailererror", false],
    ["5.7.0", "x-unix; permission denied", "", "mailererror", false],
    ["5.3.0", 'x-unix; Command died with signal 9: "/usr/bin/store"', "", "mailererror", false],
    ["5.3.0", "x-unix; the filter gave no answer", "", "mailererror", false],
    ["5.3.0", "X-Unix; 70", "", "mailererror", false],
    [undefined, "X-Unix; 255", "", "mailererror", false],
  ])("%s, %s, %j", (status, text, context, reason, hard) => {
    expect(classifyBounce({ status, text, context })).toEqual({ reason, hard });
  });

  test("an operator's wording goes before everything", () => {
    const phrases = withOwnPhrases([{ reason: "suspend", words: "temporary failure" }], knownPhrases);
    expect(classifyBounce({ status: "5.2.2", text: "x-unix; temporary failure" }, phrases).reason).toBe("suspend");
  });
});

test("a domain that takes no mail for now is soft, a null MX hard", () => {
  expect(classifyBounce({ status: "4.0.0", text: "returned Null MX" }).hard).toBe(false);
  expect(classifyBounce({ status: "5.1.10", text: "Domain does not accept mail (nullMX)" }).hard).toBe(true);
});

describe("replies in the session", () => {
  test.each<[string, SmtpStage, string, boolean, boolean]>([
    ["550 5.1.1 <a@example.org>: Recipient address rejected: User unknown", "rcpt", "userunknown", true, false],
    ["450 4.1.1 <a@example.org>: User unknown", "rcpt", "userunknown", false, false],
    ["554 5.7.1 Client host blocked using bl.example.net", "rcpt", "blocked", false, true],
    ["421 4.7.0 too many connections from your IP", "connect", "toomanyconn", false, true],
    ["554 no service for you", "connect", "rejected", false, true],
    ["502 5.5.1 command not implemented", "starttls", "failedstarttls", false, true],
    ["454 try later", "starttls", "failedstarttls", false, true],
    ["421 4.7.0 too many connections", "starttls", "toomanyconn", false, true],
    ["550 5.7.26 fails DMARC", "message", "authfailure", false, true],
    ["452 4.2.2 mailbox full", "rcpt", "mailboxfull", false, false],
    ["552 5.3.4 message too big", "mail", "mesgtoobig", false, false],
    ["550 user unknown", "message", "filtered", false, false],
    ["553 5.1.8 no such domain", "mail", "rejected", false, true],
    [
      "550-Verification failed for <b+1@bounces.example.org>\n550-Unrouteable mail domain\n550 Sender verify failed",
      ...(["rcpt", "rejected", false, false] as const),
    ],
    ["521 example.net", "rcpt", "notaccept", true, false],
    ["521 Message rejected", "rcpt", "rejected", false, false],
    ["521 Access denied", "message", "rejected", false, false],
    ["556 example.net", "rcpt", "notaccept", true, false],
    ["556 Address unavailable.", "rcpt", "suspend", false, false],
    ["456 Address temporarily unavailable.", "rcpt", "suspend", false, false],
    ["501 5.1.3 Bad recipient", "rcpt", "syntaxerror", false, false],
    ["553 5.1.3 Bad address syntax", "rcpt", "syntaxerror", false, false],
    ["554 Connection refused by policy", "connect", "blocked", false, true],
    ["556 example.net", "message", "rejected", false, false],
    ["550 5.1.0 <b+1@example.org>: Sender address rejected: User unknown", "rcpt", "rejected", false, false],
    [
      "550 5.1.1 <a@example.org>: Recipient address rejected: undeliverable address",
      "rcpt",
      "userunknown",
      true,
      false,
    ],
    [
      "550 5.1.1 <a@example.org>: Recipient address rejected: undeliverable address: 552 5.2.2 mailbox full",
      ...(["rcpt", "mailboxfull", false, false] as const),
    ],
  ])("%s at %s", (text, stage, reason, hard, aboutUs) => {
    expect(classifyReply(parseSmtpReply(text) as SmtpReply, { stage })).toEqual({ reason, hard, aboutUs });
  });
});

test.each([
  ["smtp; 550 no", "550"],
  ["said: 452-4.2.2 full", "452"],
  ["[SMTP Error Code 550]", "550"],
  ["ERROR_CODE :550, x", "550"],
  ["#550 5.2.3 too large", "550"],
  ["550: 5.1.1 no", "550"],
  ["took 450 seconds, 512 bytes, 10.550.1", undefined],
  ["id=5501", undefined],
  ["", undefined],
])("the reply code in %j is %s", (text, code) => {
  expect(findReplyCode(text)).toBe(code);
});

test.each([
  ["5.0.0", "550 5.1.1 no", "5.1.1"],
  ["5.2.2", "550 5.1.1 no", "5.2.2"],
  ["4.4.7", "450 4.7.1 greylisted", "4.7.1"],
  ["5.0.0", "no", "5.0.0"],
  [null, "250 2.0.0 then 5.0.0", "5.0.0"],
  ["junk", "no", undefined],
])("of the field %s and the text %j, %s says most", (field, text, status) => {
  expect(mostSpecificStatus(field, text)).toBe(status);
});
