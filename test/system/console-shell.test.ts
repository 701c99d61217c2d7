import { URI } from "otpauth";
import type { Browser, Page } from "playwright-core";
import { encode } from "uqr";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import {
  browserNote,
  type Credentials,
  expectAccessible,
  expectNoSidewaysScroll,
  expectToast,
  hasBrowser,
  type Look,
  openPage,
  settled,
  signIn,
  startBrowser,
  type Visitor,
  visit,
} from "../support/browser.ts";
import { makeDataDir, removeDataDir, type StartedStack, startUsedStack } from "../support/stack.ts";

/** No page may ask for more script than this, as it travels. */
const MOST_SCRIPT_OCTETS = 150_000;

/** What the page's scripts came to, as they travelled. */
const SCRIPT_OCTETS = `performance.getEntriesByType("resource")
  .filter(({ name }) => name.endsWith(".js"))
  .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`;

// The frame of the console in a real browser: signing in, who sees what, languages, themes, small windows.
describe.skipIf(!hasBrowser)(`the console's frame${browserNote}`, () => {
  const dataDir = makeDataDir();
  let stack: StartedStack;
  let browser: Browser;
  let operator: Credentials;

  beforeAll(async () => {
    stack = await startUsedStack(dataDir, {}, ["console", "dns-api", "dns-server", "mail-api", "delivery"]);
    operator = stack.credentials.operator;
    browser = await startBrowser();
  });

  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
    removeDataDir(dataDir);
  });

  const arrive = (path = "/", look: Look = {}): Promise<Visitor> =>
    visit(browser, stack.addresses.console + path, look);
  const enter = async (path = "/", look: Look = {}, credentials = operator): Promise<Visitor> => {
    const visitor = await arrive(path, look);
    await signIn(visitor.page, credentials);
    await settled(visitor.page);
    return visitor;
  };
  const navigationOf = (page: Page) => page.locator("#navigation a.navigation-link");
  const adminApi = (method: string, path: string, body?: unknown) => {
    const basic = Buffer.from(`${operator.login}:${operator.password}`).toString("base64");
    return callApi(method, `${stack.addresses.console}/admin/v1${path}`, { Authorization: `Basic ${basic}` }, body);
  };
  /** An account made for a test. */
  const account = async (login: string, role: string, scope?: string): Promise<Credentials> => {
    const { status, body } = await adminApi("POST", "/users", { login, role, ...(scope ? { scope } : {}) });
    expect(status).toBe(200);
    return { login, password: body.password };
  };

  it.each([
    ["session", "**/admin/v1/session"],
    ["texts", "**/assets/en-*.js"],
    ["script", "**/assets/index-*.js"],
  ])("comes by itself once the server that did not answer is back: for its %s", async (_, address) => {
    const context = await browser.newContext();
    const { page } = await openPage(context);
    let unanswered = 0;
    await page.route(address, (route) => {
      unanswered += 1;
      return unanswered > 2 ? route.fallback() : route.abort();
    });
    await page.goto(stack.addresses.console);
    await page.locator("input[name=login]").waitFor({ timeout: 60_000 });
    expect(unanswered).toBeGreaterThan(2);
    await context.close();
  });

  it("says that login or password is wrong, and what to do", async () => {
    const { page, context } = await arrive();
    await page.locator("input[name=login]").waitFor();
    await expectAccessible(page);
    await page.locator("input[name=login]").fill(operator.login);
    await page.locator("input[name=password]").fill("not the password");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "Login or password is wrong" }).waitFor();
    await context.close();
  });

  it("leads from the sign-in to the page that was asked for, and out again", async () => {
    const { page, context } = await enter("/operator/users");
    expect(new URL(page.url()).pathname).toBe("/operator/users");
    await expect.poll(() => page.title()).toBe("Users · Palomar");
    await page.reload();
    await settled(page);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.locator("input[name=login]").waitFor();
    await page.reload();
    await page.locator("input[name=login]").waitFor();
    await context.close();
  });

  it("serves deep addresses whose names have dots", async () => {
    const { page, context, complaints } = await enter("/dns/demo/zones/example.org/records");
    await page.getByRole("alert").filter({ hasText: "example.org does not exist" }).waitFor();
    await page.goto(`${stack.addresses.console}/no/such/page`);
    await page.getByRole("heading", { name: "No such page" }).first().waitFor();
    await page.goto(`${stack.addresses.console}/dns/demo/zones/%E0%A4%A/records`);
    await page.getByRole("heading", { name: "No such page" }).first().waitFor();
    await page.getByRole("link", { name: "Zones" }).click();
    await page.waitForURL("**/dns/demo/zones");
    await settled(page);
    expect(complaints).toEqual([]);
    await context.close();
  });

  it("speaks the browser's language, and another on request, and remembers it", async () => {
    const { page, context } = await enter("/account", { language: "es" });
    await page.getByRole("heading", { name: "Cuenta" }).waitFor();
    await page.locator("main").getByLabel("Idioma").selectOption("en");
    await page.getByRole("heading", { name: "Account" }).waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe("en");
    await page.reload();
    await page.getByRole("heading", { name: "Account" }).waitFor();
    await context.close();
  });

  it("is light or dark as the system is, unless told otherwise", async () => {
    const { page, context } = await enter("/account", { theme: "dark" });
    const ground = () => page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
    const dark = await ground();
    await page.locator("main").getByLabel("Appearance").selectOption("light");
    const light = await ground();
    expect(light).not.toBe(dark);
    await page.emulateMedia({ colorScheme: "light" });
    expect(await ground()).toBe(light);
    await context.close();
  });

  it("can be used by keyboard: skip link, search by /, Esc for dialogs, focus back where it was", async () => {
    const { page, context } = await enter("/operator/users");
    // As if the reader had just come: the next Tab begins at the top.
    await page.evaluate(
      "document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')",
    );
    await page.keyboard.press("Tab");
    const focused = () => page.evaluate<string>("document.activeElement.textContent");
    await expect.poll(focused).toBe("Skip to content");
    await page.getByRole("button", { name: "Add a user" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await expect.poll(() => page.evaluate<string>("document.activeElement.name")).toBe("login");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await expect.poll(focused).toBe("Add a user");
    await page.goto(`${stack.addresses.console}/dns/demo/companies`);
    await settled(page);
    await page.getByRole("searchbox").waitFor();
    await page.keyboard.press("/");
    await expect.poll(() => page.evaluate<string>("document.activeElement.type")).toBe("search");
    await context.close();
  });

  it("shows everybody what is theirs", async () => {
    await adminApi("POST", "/resellers", { reseller_id: "other", name: "Other" });
    const seen: Record<string, string[]> = {};
    for (const [login, role, scope] of [
      ["rosa", "reseller", "demo"],
      ["carla", "company", "demo/demo"],
      ["ines", "instance", "demo"],
    ] as const) {
      const { page, context } = await enter("/", {}, await account(login, role, scope));
      await navigationOf(page).first().waitFor();
      seen[role] = await navigationOf(page).allTextContents();
      await context.close();
    }
    expect(seen.reseller).toEqual(expect.arrayContaining(["Zones", "Companies", "Transfers", "Users", "Audit log"]));
    expect(seen.reseller).not.toEqual(expect.arrayContaining(["Resellers"]));
    expect(seen.company).toContain("Zones");
    expect(seen.company).not.toContain("Companies");
    expect(seen.instance).not.toContain("Zones");
    for (const labels of Object.values(seen)) expect(labels).not.toContain("Queues");
  });

  it("does not show one reseller what another has", async () => {
    const { page, context } = await enter("/dns/other/companies", {}, await account("pedro", "reseller", "demo"));
    await page
      .getByRole("alert")
      .filter({ hasText: /no such reseller/i })
      .waitFor();
    await context.close();
  });

  it("changes the password, which ends the other sessions", async () => {
    const credentials = await account("ana", "operator");
    const first = await enter("/account", {}, credentials);
    const second = await enter("/account", {}, credentials);
    const { page } = second;
    await page.getByLabel("Current password").fill("wrong");
    await page.getByLabel("New password").fill("a much better password");
    await page.getByRole("button", { name: "Change password" }).click();
    await page.getByRole("alert").filter({ hasText: "password is wrong" }).waitFor();
    await page.getByLabel("Current password").fill(credentials.password);
    await page.getByRole("button", { name: "Change password" }).click();
    await expectToast(page, "The password was changed");
    await first.page.reload();
    await first.page.locator("input[name=login]").waitFor();
    await first.context.close();
    await second.context.close();
  });

  it("sets up a second factor, asks for it at the next sign-in, and takes a recovery code", async () => {
    const credentials = await account("tomas", "operator");
    const { page, context } = await enter("/account", { width: 390 }, credentials);
    await page.getByRole("button", { name: "Set up" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Current password").fill("wrong");
    await dialog.getByRole("button", { name: "Set up" }).click();
    await dialog.getByText("The password is wrong").waitFor();
    await dialog.getByLabel("Current password").fill(credentials.password);
    await dialog.getByRole("button", { name: "Set up" }).click();
    const uri = await page.locator("pre").filter({ hasText: "otpauth://" }).textContent();
    const drawn = page.getByRole("img", { name: "QR code for the authenticator" });
    const { data, size } = encode(uri ?? "", { ecc: "M", border: 4 });
    expect(await drawn.getAttribute("viewBox")).toBe(`0 0 ${size} ${size}`);
    const dark = data.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`${x} ${y}`] : [])));
    expect((await drawn.locator("path").getAttribute("d"))?.match(/(?<=M)\d+ \d+/g)).toEqual(dark);
    await page.getByLabel("One-time code").fill(URI.parse(uri ?? "").generate());
    await page.getByRole("button", { name: "Turn on" }).click();
    await expectToast(page, "Two-step sign-in is on");
    const codes = await page.locator(".secret pre").textContent();
    await expectAccessible(page);
    await context.close();

    const again = await arrive("/account");
    await again.page.locator("input[name=login]").fill(credentials.login);
    await again.page.locator("input[name=password]").fill(credentials.password);
    await again.page.keyboard.press("Enter");
    await again.page.getByLabel("One-time code").fill("000000");
    await again.page.keyboard.press("Enter");
    await again.page.getByRole("alert").filter({ hasText: "The code is wrong" }).waitFor();
    await again.page.getByLabel("One-time code").fill(codes?.split("\n")[0] ?? "");
    await again.page.keyboard.press("Enter");
    await again.page.locator(".shell").waitFor();
    await again.page.getByRole("button", { name: "Turn off" }).click();
    await again.page.getByRole("dialog").getByLabel("Password").fill(credentials.password);
    await again.page.getByRole("dialog").getByRole("button", { name: "Turn off" }).click();
    await expectToast(again.page, "Two-step sign-in is off");
    await again.context.close();
  });

  it("ends a session from another", async () => {
    const credentials = await account("eva", "operator");
    const first = await enter("/", {}, credentials);
    const second = await enter("/account", {}, credentials);
    await second.page.getByRole("button", { name: "End", exact: true }).click();
    await expectToast(second.page, "The session was ended");
    await first.page.reload();
    await first.page.locator("input[name=login]").waitFor();
    await first.context.close();
    await second.context.close();
  });

  it("runs no script but its own files", async () => {
    const { status, headers, body } = await callApi("GET", `${stack.addresses.console}/`, { Accept: "text/html" });
    expect(status).toBe(200);
    expect(headers["content-security-policy"]).toMatch(/default-src 'none'; script-src 'self';/);
    expect(body).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|javascript:/i);
  });

  describe.each([
    { title: "wide and light, in English", width: 1280, theme: "light", language: "en" },
    { title: "narrow and dark, in Spanish", width: 360, theme: "dark", language: "es" },
  ] as const)("$title", (look) => {
    it("every page is accessible, fits its window, and asks for little script", async () => {
      const visitor = await enter("/", look);
      // What is of a reseller or an instance comes once these are known.
      for (const area of ["dns", "mail"])
        await visitor.page.locator(`#navigation a[href^="/${area}/"]`).first().waitFor({ state: "attached" });
      const left = await navigationOf(visitor.page).evaluateAll((links) =>
        (links as unknown as { pathname: string }[]).map(({ pathname }) => pathname),
      );
      expect(left.length).toBeGreaterThan(15);
      const judge = async (address: string, judged: Page) => {
        await judged.goto(stack.addresses.console + address);
        await settled(judged);
        await judged.waitForLoadState("networkidle");
        await expectAccessible(judged);
        await expectNoSidewaysScroll(judged);
        // What comes from the browser's cache counts as it travelled.
        const scriptOctets = await judged.evaluate<number>(SCRIPT_OCTETS);
        expect(scriptOctets, address).toBeGreaterThan(10_000);
        expect(scriptOctets, address).toBeLessThan(MOST_SCRIPT_OCTETS);
      };
      const judgeOnes = async (judged: Page) => {
        for (let address = left.shift(); address !== undefined; address = left.shift()) await judge(address, judged);
      };
      // While one page waits for its network to rest, another draws.
      const visitors = [visitor, await openPage(visitor.context)];
      await Promise.all(visitors.map(({ page }) => judgeOnes(page)));
      expect(visitors.flatMap(({ complaints }) => complaints)).toEqual([]);
      await visitor.context.close();
    });
  });
});
