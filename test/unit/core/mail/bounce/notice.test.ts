import { expect, test } from "vitest";
import { passagesOf } from "../../../../../services/core/mail/bounce/notice.ts";

test("a place names the longest of the addresses that it may be read as", () => {
  const text = "ana@example.org.example: mailbox full\nana@example.org: user unknown\n";
  const passages = passagesOf(text, ["ana@example.org", "ana@example.org.example"]).map(({ passage }) => passage);
  expect(passages).toEqual(["ana@example.org: user unknown\n", "ana@example.org.example: mailbox full\n"]);
});
