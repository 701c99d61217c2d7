import { describe, expect, test } from "vitest";
import { knownPhrases } from "../../../../../services/core/mail/bounce/class.ts";
import { type Phrase, PhraseTable, withOwnPhrases } from "../../../../../services/core/mail/bounce/phrases.ts";

function table(...phrases: (readonly [Phrase["reason"], string, Phrase["at"]?])[]): PhraseTable {
  return new PhraseTable(() => phrases.map(([reason, words, at]) => ({ reason, words, at })));
}

describe("a phrase", () => {
  test.each([
    ["mail for * loops back to myself", "554 5.4.6 mail for example.org loops back to myself", true],
    ["mail for * loops back to myself", `mail for ${"x".repeat(80)} loops back to myself`, true],
    ["mail for * loops back to myself", `mail for ${"x".repeat(81)} loops back to myself`, false],
    ["a * b * c", `a ${"x".repeat(70)} a ${"x".repeat(40)} b ${"x".repeat(70)} c`, true],
    ["user unknown", "superuser unknown", false],
    ["user unknown", "user unknowns", false],
    ["user unknown", "<user unknown>", true],
    ["メールボックスがいっぱい", "宛先のメールボックスがいっぱいです", true],
    ["ib607", "too many recipients. ib607 <http", true],
    ["ib607", "ib6071", false],
    ["ofr*_506", "mail rejected. ofr004_506 [506]", true],
  ])("%s in %s: %s", (words, text, found) => {
    expect(table(["blocked", words]).longestIn(text, undefined) !== undefined).toBe(found);
  });

  test("counts only in reply to its command, where it has one", () => {
    const phrases = table(["userunknown", "address rejected", "rcpt"]);
    expect(phrases.longestIn("550 address rejected", "rcpt")?.reason).toBe("userunknown");
    expect(phrases.longestIn("550 address rejected", "mail")).toBeUndefined();
  });
});

test("the longest counts, and a code more than any words", () => {
  const phrases = table(
    ["rejected", "message rejected"],
    ["spamdetected", "message rejected as spam"],
    ["blocked", "ib607"],
  );
  expect(phrases.longestIn("message rejected", undefined)?.reason).toBe("rejected");
  expect(phrases.longestIn("message rejected as spam", undefined)?.reason).toBe("spamdetected");
  expect(phrases.longestIn("message rejected as spam ib607", undefined)?.reason).toBe("blocked");
});

test("an operator's words count before all that is known", () => {
  const words = "550 5.1.1 the email account that you tried to reach does not exist";
  const own = withOwnPhrases([{ words: "email account", reason: "filtered" }], knownPhrases);
  expect(knownPhrases.longestIn(words, undefined)?.reason).toBe("userunknown");
  expect(own.longestIn(words, undefined)?.reason).toBe("filtered");
});
