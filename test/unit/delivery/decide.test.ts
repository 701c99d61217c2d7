import { describe, expect, test } from "vitest";
import { parseSmtpReply } from "../../../services/core/mail/smtp-reply.ts";
import { type AttemptResult, type Concern, concernOf, decide } from "../../../services/delivery/decide.ts";
import type { SmtpFailure } from "../../../services/platform/smtp/client.ts";

const schedule = { waitSeconds: [300, 600], giveUpHours: 72, jitter: 0.1 };
const young = { attemptsMade: 1, ageMs: 60_000 };
const old = { attemptsMade: 20, ageMs: 73 * 3_600_000 };

type Stage = Extract<SmtpFailure, { kind: "reply" }>["stage"];

const replied = (stage: Stage, text: string): AttemptResult => ({
  kind: "failed",
  failure: { kind: "reply", stage, reply: parseSmtpReply(text)! },
});
const broken = (stage: Stage): AttemptResult => ({
  kind: "failed",
  failure: { kind: "broken", stage, text: "timeout" },
});

const judge = (result: AttemptResult, progress = young) => {
  const outcome = decide(result, progress, { schedule, random: () => 0.5 });
  return outcome.kind === "bounced"
    ? `${outcome.bounceClass.hard ? "hard" : "soft"} ${outcome.bounceClass.reason}`
    : outcome.kind;
};

describe("what becomes of a recipient", () => {
  test.each<[string, AttemptResult, string, string]>([
    ["accepted", { kind: "accepted", reply: parseSmtpReply("250 2.0.0 ok")! }, "delivered", "delivered"],
    ["unknown user", replied("rcpt", "550 5.1.1 User unknown"), "hard userunknown", "hard userunknown"],
    ["full mailbox", replied("rcpt", "552 5.2.2 Mailbox full"), "soft mailboxfull", "soft mailboxfull"],
    ["too large", replied("message", "552 5.3.4 Message too big"), "soft mesgtoobig", "soft mesgtoobig"],
    [
      "block list",
      replied("rcpt", "554 5.7.1 Client host [192.0.2.1] blocked using bl.example.org"),
      "deferred",
      "soft blocked",
    ],
    ["refused at the greeting", replied("connect", "554 5.7.1 no service for you"), "deferred", "soft"],
    ["greylisted", replied("rcpt", "450 4.2.0 Greylisted, try again"), "deferred", "soft"],
    ["busy", replied("rcpt", "421 4.7.0 Too many connections"), "deferred", "soft toomanyconn"],
    ["unknown for now", replied("rcpt", "450 4.1.1 User unknown"), "deferred", "soft userunknown"],
    ["no connection", broken("connect"), "deferred", "soft expired"],
    ["no TLS where it is demanded", broken("starttls"), "deferred", "soft failedstarttls"],
    ["lost after the final dot", broken("message"), "deferred", "soft expired"],
    [
      "no such domain",
      { kind: "unroutable", reply: parseSmtpReply("550 5.1.2 the domain x.example.org does not exist")! },
      "hard hostunknown",
      "hard hostunknown",
    ],
    [
      "null MX",
      { kind: "unroutable", reply: parseSmtpReply("556 5.1.10 the domain x.example.org does not accept mail")! },
      "hard notaccept",
      "hard notaccept",
    ],
    [
      "DNS is away",
      { kind: "unroutable", reply: parseSmtpReply("451 4.4.3 cannot be looked up now")! },
      "deferred",
      "soft",
    ],
    [
      "no SMTPUTF8",
      { kind: "failed", failure: { kind: "unsuited", reply: parseSmtpReply("550 5.6.7 not internationalized")! } },
      "soft",
      "soft",
    ],
  ])("%s", (_what, result, first, last) => {
    expect(judge(result)).toMatch(new RegExp(`^${first}`));
    expect(judge(result, old)).toMatch(new RegExp(`^${last}`));
  });

  test.each<[string, AttemptResult, string, string]>([
    ["a session that there was none of, or that broke", broken("connect"), "networkerror", "expired"],
    ["a session that broke at the message", broken("message"), "networkerror", "expired"],
    ["a handshake that failed", broken("starttls"), "failedstarttls", "failedstarttls"],
    ["a reply", replied("rcpt", "452 4.2.2 Mailbox full"), "mailboxfull", "mailboxfull"],
  ])("why, while it is tried and when it is given up: %s", (_what, result, deferred, givenUp) => {
    const policy = { schedule, random: () => 0.5 };
    expect(decide(result, young, policy)).toMatchObject({ kind: "deferred", reason: deferred });
    expect(decide(result, old, policy)).toMatchObject({
      kind: "bounced",
      bounceClass: { reason: givenUp, hard: false },
    });
  });

  test("what a server says is kept readable", () => {
    const words = `250 2.0.0 a\0b\x1b[31m${"\u{1F600}".repeat(2_000)}`;
    const outcome = decide({ kind: "accepted", reply: parseSmtpReply(words)! }, young, { schedule, random: () => 0.5 });
    expect(outcome.words).toMatch(/^250 2\.0\.0 a b \[31m/);
    expect([...outcome.words]).toHaveLength(1_000);
    expect(outcome.words.endsWith("\u{1F600}")).toBe(true);
  });

  test("the next attempt follows the schedule", () => {
    const outcome = decide(broken("connect"), { ...young, attemptsMade: 2 }, { schedule, random: () => 0.5 });
    expect(outcome).toEqual({
      kind: "deferred",
      words: "timeout",
      reason: "networkerror",
      retryInMs: 600_000,
    });
  });
});

test.each<[string, AttemptResult, Concern]>([
  ["no connection", broken("connect"), "destination"],
  ["a session that breaks at the sender", broken("mail"), "destination"],
  ["a session that breaks at a recipient", broken("rcpt"), "unknown"],
  ["a connection lost after the final dot", broken("message"), "recipient"],
  ["421 at the sender", replied("mail", "421 4.3.2 shutting down"), "destination"],
  ["421 to a recipient", replied("rcpt", "421 4.3.2 shutting down"), "unknown"],
  ["a mailbox that gets too much, by its status", replied("rcpt", "450 4.2.1 user over rate limit"), "recipient"],
  ["what gets too much", replied("rcpt", "451 4.7.1 over rate limit"), "unknown"],
  ["a sender refused for now", replied("mail", "451 4.7.1 try later"), "destination"],
  ["a message refused for its size before its recipient", replied("mail", "552 5.3.4 Message too big"), "recipient"],
  ["a sender refused for good", replied("mail", "550 5.7.1 Sender rejected"), "destination"],
  ["a block list", replied("rcpt", "554 5.7.1 Client host blocked using bl.example.org"), "unknown"],
  ["greylisting", replied("rcpt", "450 4.2.0 Greylisted, try again"), "recipient"],
  ["an unknown user", replied("rcpt", "550 5.1.1 User unknown"), "recipient"],
  ["a message refused", replied("message", "550 5.7.1 Spam detected"), "recipient"],
])("whom %s concerns", (_what, result, concern) => {
  expect(concernOf(result)).toBe(concern);
});
