import { describe, expect, test } from "vitest";
import { readOwnWording, shapeOfWords } from "../../../../../services/core/mail/bounce/own-wording.ts";

describe("an operator's wording", () => {
  test("is taken in lower case with single blanks", () => {
    const read = readOwnWording({ words: "  * No  Soup for * ", reason: "filtered", command: "rcpt" });
    expect(read).toEqual({ ok: true, value: { words: "no soup for", reason: "filtered", at: "rcpt" } });
  });

  test.each([
    [{ words: "* - *", reason: "filtered" }, "wording-length"],
    [{ words: "no", reason: "filtered" }, "wording-length"],
    [{ words: "x".repeat(301), reason: "filtered" }, "wording-length"],
    [{ words: "no soup for you", reason: "delivered" }, "wording-reason"],
    [{ words: "no soup for you", reason: "" }, "wording-reason"],
    [{ words: "no soup for you", reason: "filtered", command: "noop" }, "wording-command"],
  ])("%j is refused: %s", (given, code) => {
    expect(readOwnWording(given)).toMatchObject({ ok: false, error: { code } });
  });
});

describe("the shape of words", () => {
  test.each([
    ["550 <jane@example.org>: No soup for you [192.0.2.1]", "550 <*>: no soup for you *"],
    ["550 No soup, see https://example.org/x?y=1 (id 20260302-4a1b2c3d)", "550 no soup, see * (id *)"],
    ["mx1.example.net says no soup for 2001:db8::1", "* says no soup for *"],
  ])("%s", (words, shape) => expect(shapeOfWords(words)).toBe(shape));

  test("is the same whoever is meant", () => {
    expect(shapeOfWords("550 jane@example.org is not here (4711)")).toBe(
      shapeOfWords("550 joe@mail.example.com is not here (123456)"),
    );
  });
});
