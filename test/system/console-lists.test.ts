import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { browserNote, hasBrowser, openPage, settled } from "../support/browser.ts";
import { type ConsoleVisit, visitConsole } from "../support/console-visit.ts";

const CONTACTS = 250;

// What pages do that read lists, again and again and page by page, when the server is slow or does not answer.
describe.skipIf(!hasBrowser)(`lists in the console${browserNote}`, () => {
  let visited: ConsoleVisit;
  let importJob: string;

  beforeAll(async () => {
    visited = await visitConsole(["mail-api"]);
    const people = Array.from({ length: CONTACTS }, (_, index) => `person-${index}@example.org`);
    const text = ["email", ...people].join("\n");
    ({ job: importJob } = await adminApi("POST", "/instances/demo/contacts/import", text));
    await adminApi("POST", "/instances", { name: "other", host: "mail.other.test" });
  });

  afterAll(() => visited?.close());

  const adminApi = async (method: string, path: string, body: unknown) => {
    const { login, password } = visited.stack.credentials.operator;
    const basic = `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`;
    const url = `${visited.stack.addresses.console}/admin/v1${path}`;
    const type = typeof body === "string" ? "text/csv" : "application/json";
    const answer = await callApi(method, url, { Authorization: basic, "Content-Type": type }, body);
    expect(answer.status).toBe(200);
    return answer.body;
  };
  /** A page of the operator's whose clock the test turns. */
  const pageWithClock = async () => {
    const { page } = await openPage(visited.page.context());
    await page.clock.install();
    return page;
  };
  /** What the page has asked for by now has been seen by the routes. */
  const drawn = (page: Page) =>
    page.evaluate(`new Promise(requestAnimationFrame).then(() => fetch("/admin/v1/session")).then(() => undefined)`);

  it("asks again a while after the answer came, however long that took", async () => {
    const page = await pageWithClock();
    let asked = 0;
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    await page.route("**/admin/v1/queues", async (route) => {
      asked += 1;
      await held;
      await route.fallback();
    });
    await page.goto(`${visited.stack.addresses.console}/operator/queues`);
    await expect.poll(() => asked).toBe(1);
    await page.clock.runFor(60_000);
    await page.evaluate(`fetch("/admin/v1/session").then(() => undefined)`);
    expect(asked).toBe(1);
    answer();
    await settled(page);
    await page.clock.runFor(6_000);
    await expect.poll(() => asked).toBeGreaterThan(1);
    await page.close();
  });

  it("asks no more of a job that is over", async () => {
    const page = await pageWithClock();
    await page.goto(`${visited.stack.addresses.console}/jobs/${importJob}`);
    await page.getByText("done", { exact: true }).waitFor();
    let asked = 0;
    await page.route(`**/admin/v1/jobs/${importJob}`, (route) => {
      asked += 1;
      return route.fallback();
    });
    await page.clock.runFor(60_000);
    await page.evaluate(`fetch("/admin/v1/session").then(() => undefined)`);
    expect(asked).toBe(0);
    await page.close();
  });

  it("leaves a next page that failed to its reader, and reads on by itself once it came", async () => {
    const { page } = visited;
    let asked = 0;
    let isBroken = true;
    await page.route("**/admin/v1/instances/demo/contacts?page=2*", (route) => {
      asked += 1;
      return isBroken ? route.abort() : route.fallback();
    });
    await visited.open("/mail/demo/contacts");
    const more = page.getByRole("button", { name: "Show more" });
    const rows = (count: number) => page.locator(`table[aria-rowcount="${count + 1}"]`).waitFor();
    await rows(100);
    await more.scrollIntoViewIfNeeded();
    await page.getByRole("alert").waitFor();
    for (let turn = 0; turn < 20; turn += 1) await drawn(page);
    expect(asked).toBe(1);
    await more.click();
    await expect.poll(() => asked).toBe(2);
    isBroken = false;
    await more.click();
    await rows(200);
    await page.getByRole("alert").waitFor({ state: "detached" });
    await more.scrollIntoViewIfNeeded();
    await rows(CONTACTS);
    await page.unrouteAll();
  });

  it("shows no row of another list in the place of one that cannot be read", async () => {
    const { page } = visited;
    await visited.open("/mail/demo/contacts");
    const people = page.getByRole("link", { name: /^person-/ });
    await people.first().waitFor();
    await page.route("**/admin/v1/instances/other/contacts?*", (route) => route.abort());
    await page.getByRole("combobox", { name: "Instance" }).selectOption("other");
    await page.getByRole("alert").waitFor();
    await expect.poll(() => people.count()).toBe(0);
    await expect.poll(() => page.getByText(`${CONTACTS} contacts`).count()).toBe(0);
    await page.unrouteAll();
    await page.getByRole("alert").getByRole("button").click();
    await page.getByText("No contacts yet").waitFor();
  });

  it.each([
    ["/operator/audit", "actor"],
    ["/mail/demo/messages", "subject"],
  ])("searches for what is typed with its spaces: %s", async (path, field) => {
    const { page } = visited;
    await visited.open(path);
    const asksFor = (text: string) =>
      page.waitForRequest((request) => new URL(request.url()).searchParams.get(field) === text);
    const first = asksFor("two");
    await page.getByRole("searchbox").pressSequentially("two ");
    await first;
    await settled(page);
    const both = asksFor("two words");
    await page.getByRole("searchbox").pressSequentially("words");
    await both;
    await expect.poll(() => page.getByRole("searchbox").inputValue()).toBe("two words");
  });
});
