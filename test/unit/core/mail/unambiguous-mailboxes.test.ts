import { describe, expect, it } from "vitest";
import { isUnambiguous } from "../../../../services/core/mail/unambiguous-mailboxes.ts";

describe("addresses that every reader takes alike", () => {
  it.each([
    "news@example.org",
    "<news@example.org>",
    "News <news@example.org>",
    '"News, <all> of it @ once" <news@example.org>',
    "News (daily (or so) \\) ) <news@example.org>",
    "news@example.org (News)",
    '"a b"@example.org',
    "One <one@example.org>, two@example.org",
    "Team: one@example.org, Two <two@example.org>;",
    "news@example.org <news@example.org>",
    "=?utf-8?q?Jos=C3=A9?= <news@example.org>",
  ])("%s", (value) => {
    expect(isUnambiguous(value)).toBe(true);
  });

  it.each([
    "<evil@example.net <news@example.org>",
    "<news@example.org>evil@example.net",
    "news@example.org evil@example.net",
    "x <news@example.org><evil@example.net>",
    "evil@example.net <news@example.org>",
    "news@example.org (evil@example.net",
    'news@example.org "evil@example.net',
    "news@example.org@example.net",
    "<news@example.org> (x) evil",
    "evil@example.net: news@example.org;",
    "news",
  ])("not: %s", (value) => {
    expect(isUnambiguous(value)).toBe(false);
  });
});
