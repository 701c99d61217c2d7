import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { composeForScan } from "../../../../services/operations/mail/content-scan.ts";
import type { StoredTemplate } from "../../../../services/store/mail/sends/messages.ts";

const template: StoredTemplate = {
  from: { name: "Ann", address: "ann@example.org" },
  subject: "News",
  html: "<p>Hello</p>",
  unsubscribe: true,
};
const compose = (changes: Partial<StoredTemplate> = {}) =>
  composeForScan(
    { kind: "template", template: { ...template, ...changes }, attachments: [] },
    "bob@example.net",
    new Date("2026-01-02T03:04:05Z"),
  );

test("what is looked at shows whom its copies show, and a link where each recipient has one", async () => {
  const own = String(await compose());
  expect(own).toContain("\r\nTo: bob@example.net\r\n");
  expect(own).toContain("List-Unsubscribe: <https://example.org/u/scan>\r\n");
  const to = { name: "All", address: "all@example.com" };
  const shared = String(await compose({ to, cc: [{ name: "", address: "cc@example.com" }] }));
  expect(shared).toContain("\r\nTo: All <all@example.com>\r\n");
  expect(shared).toContain("\r\nCc: cc@example.com\r\n");
});

test("a large page is composed in turns, between which whatever else there is gets done", async () => {
  let turns = 0;
  let isDone = false;
  const others = (async () => {
    for (; !isDone; turns += 1) await nextTurn();
  })();
  const paragraph = '<p>Hello <a href="https://example.org/x?y=1&amp;z=2">friend</a> of the \u00f1and\u00fa</p>';
  await compose({ html: `<html><body>${paragraph.repeat(20_000)}</body></html>` });
  isDone = true;
  await others;
  expect(turns).toBeGreaterThan(10);
});
