import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browserNote, hasBrowser, startBrowser } from "../support/browser.ts";
import { eventually } from "../support/stack.ts";
import { startTestTracking, type TestDelivery, type TestTracking } from "../support/tracking.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { width: 390, height: 844 };

describe.skipIf(!hasBrowser)(`the recipient's pages in a browser${browserNote}`, () => {
  let tracking: TestTracking;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  const refusedByPolicy: string[] = [];

  beforeAll(async () => {
    tracking = await startTestTracking();
    browser = await startBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await tracking.stop();
    expect(tracking.failures).toEqual([]);
  });

  async function open(delivery: TestDelivery, options: Parameters<Browser["newContext"]>[0] = {}): Promise<void> {
    await context?.close();
    // axe has to get past a policy that lets no script run; that the pages need none is what is tested below.
    context = await browser.newContext({ locale: "en-GB", bypassCSP: true, viewport: PHONE, ...options });
    context.setDefaultTimeout(60_000);
    page = await context.newPage();
    page.on("console", (message) => {
      if (message.type() === "error") refusedByPolicy.push(message.text());
    });
    await page.goto(`${tracking.url}${delivery.unsubscribe}`);
  }

  async function accessibilityFaults(): Promise<unknown[]> {
    await page.evaluate(AXE);
    const results = await page.evaluate("axe.run()");
    const { violations } = results as { violations: { id: string; nodes: { html: string }[] }[] };
    return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
  }

  const kinds = async (delivery: TestDelivery) =>
    (await tracking.eventsOf(delivery)).map(({ kind }) => kind).filter((kind) => kind === "unsubscribed");

  test("looking changes nothing; the button unsubscribes at once, with the keyboard alone", async () => {
    const delivery = await tracking.deliver("ana@pages.example.net", "<p>x</p>");
    await open(delivery);
    expect(await page.title()).toBe("Email preferences");
    expect(await page.locator("main").innerText()).toContain("Do you want to stop receiving Spring & <sale>?");
    expect(await kinds(delivery)).toEqual([]);
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Unsubscribe");
    await page.keyboard.press("Enter");
    await page.getByRole("status").waitFor();
    expect(await page.getByRole("status").innerText()).toContain("You have been unsubscribed");
    await eventually(
      () => kinds(delivery),
      (found) => found.length === 1,
    );
    expect(refusedByPolicy).toEqual([]);
  });

  test("nothing more from the sender, and no tracking", async () => {
    const delivery = await tracking.deliver("beto@pages.example.net", "<p>x</p>");
    await open(delivery);
    await page.getByRole("button", { name: "Do not record" }).click();
    await page.locator("main").filter({ hasText: "Your opens and clicks are not recorded." }).waitFor();
    await page.getByRole("button", { name: "Receive nothing more" }).click();
    await page.getByRole("status").filter({ hasText: "no more messages from this sender" }).waitFor();
    expect(await page.getByRole("button", { name: "Unsubscribe" }).count()).toBe(0);
  });

  test.each([
    ["es-AR", "light", "Cancelar suscripción"],
    ["es-AR", "dark", "Cancelar suscripción"],
    ["en-GB", "light", "Unsubscribe"],
    ["fr-FR", "dark", "Cancelar suscripción"],
  ] as const)("%s, %s: accessible, and no wider than a telephone", async (locale, colorScheme, button) => {
    const delivery = await tracking.deliver(`${locale}.${colorScheme}@pages.example.net`, "<p>x</p>");
    await open(delivery, { locale, colorScheme });
    for (const state of ["asks", "done"]) {
      expect(await accessibilityFaults(), state).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(PHONE.width);
      if (state === "done") continue;
      await page.getByRole("button", { name: button }).click();
      await page.getByRole("status").waitFor();
    }
  });

  test("a link that is none says so, accessibly", async () => {
    const delivery = await tracking.deliver("caro@pages.example.net", "<p>x</p>");
    await open(delivery);
    await page.goto(`${tracking.url}/u/none`);
    expect(await page.locator("main").innerText()).toContain("This link is not valid.");
    expect(await accessibilityFaults()).toEqual([]);
  });

  test("the policy lets no script run, and keeps the style", async () => {
    const delivery = await tracking.deliver("dani@pages.example.net", "<p>x</p>");
    await open(delivery, { bypassCSP: false });
    const font = await page.evaluate("getComputedStyle(document.body).maxWidth").catch(() => "");
    expect(font).not.toBe("none");
    const ran = await page
      .addScriptTag({ content: "window.ran = true" })
      .then(() => page.evaluate("window.ran === true"))
      .catch(() => false);
    expect(ran).toBe(false);
  });
});
