import { expect, test } from "vitest";
import { passagesOf } from "../../../../../services/core/mail/bounce/notice.ts";

test("a place names the longest of the addresses that it may be read as", () => {
  const text = "ana@example.org.example: mailbox full\nana@example.org: user unknown\n";
  const passages = passagesOf(text, ["ana@example.org", "ana@example.org.example"]).map(({ passage }) => passage);
  expect(passages).toEqual(["ana@example.org: user unknown\n", "ana@example.org.example: mailbox full\n"]);
});

test("a reply in front of an address is said of it, and not of the one before", () => {
  const text = "550 no such user: ana@example.org\n\n 552 quota violation for ben@example.org\nThe end\n";
  expect(passagesOf(text, ["ana@example.org", "ben@example.org"])).toEqual([
    { address: "ana@example.org", passage: "550 no such user: ana@example.org\n\n", start: 0 },
    { address: "ben@example.org", passage: " 552 quota violation for ben@example.org\nThe end\n", start: 35 },
  ]);
});

test("a code alone in front of an address belongs to what stood there before", () => {
  const text = "ana@example.org\n550 <ben@example.org>... User unknown\n";
  const passages = passagesOf(text, ["ana@example.org", "ben@example.org"]).map(({ passage }) => passage);
  expect(passages).toEqual(["ana@example.org\n550 <", "ben@example.org>... User unknown\n"]);
});
