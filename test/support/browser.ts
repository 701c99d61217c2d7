import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect } from "vitest";

/** The one without windows does the same for a third of the processor time. */
const CHROMIUM = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((program) => existsSync(program));

/** Whether there is a browser to drive. */
export const hasBrowser = CHROMIUM !== undefined;

/** What a test's title says when there is none. */
export const browserNote = hasBrowser
  ? ""
  : " (skipped: no chromium, of the Debian packages chromium-headless-shell and chromium, is installed)";

/** Helpers that compile and collect garbage, and a process that draws, would take the cores from the other files. */
const FRUGAL = ["--disable-gpu", "--in-process-gpu", "--js-flags=--single-threaded"];

/** A busy machine draws slowly: this is how long an element may take. */
const PATIENCE_MS = 60_000;

export function startBrowser(): Promise<Browser> {
  // Chromium refuses to confine itself where everything runs as root.
  const confinement = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM!, args: [...confinement, ...FRUGAL] });
}

export interface Look {
  readonly width?: number;
  readonly theme?: "light" | "dark";
  /** The browser's language. */
  readonly language?: "en" | "es";
}

/** A visitor of the console with a browser profile of its own. */
export interface Visitor {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What the page complained of: script errors, and what its Content-Security-Policy forbade. */
  readonly complaints: readonly string[];
}

/** Opens the console as somebody who was never there. */
export async function visit(browser: Browser, url: string, look: Look = {}): Promise<Visitor> {
  const { width = 1280, theme = "light", language = "en" } = look;
  const context = await browser.newContext({
    viewport: { width, height: width < 600 ? 844 : 860 },
    colorScheme: theme,
    locale: language,
    // A page that does not move is done sooner, and is what axe can judge.
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const visitor = await openPage(context);
  await visitor.page.goto(url);
  return visitor;
}

/** One more page of a visitor, with complaints of its own. */
export async function openPage(context: BrowserContext): Promise<Visitor> {
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) complaints.push(message.text());
  });
  return { page, context, complaints };
}

export interface Credentials {
  readonly login: string;
  readonly password: string;
}

/** Signs in, in English or Spanish, and waits for the page that follows. */
export async function signIn(page: Page, { login, password }: Credentials): Promise<void> {
  await shown(page, "input[name=login]");
  await page.locator("input[name=login]").fill(login);
  await page.locator("input[name=password]").fill(password);
  await page.locator("button[type=submit]").click();
  await page.locator(".shell").waitFor();
}

/** Waits for a passing note that says this. */
export async function expectToast(page: Page, text: string | RegExp): Promise<void> {
  await page.locator(".toast").filter({ hasText: text }).first().waitFor();
}

/** Waits until the page has drawn what it asked for. */
export async function settled(page: Page): Promise<void> {
  await shown(page, "main h1");
  await page.locator(".skeleton").first().waitFor({ state: "detached" });
}

/**
 * Waits for an element.
 * @throws Error with what the page shows instead, and what it loaded for that
 */
async function shown(page: Page, selector: string): Promise<void> {
  try {
    await page.locator(selector).first().waitFor();
  } catch (cause) {
    const found = await page.evaluate<string>(PAGE_SO_FAR);
    throw new Error(`${page.url()} has no ${selector}; it shows: ${found.slice(0, 4_000)}`, { cause });
  }
}

const PAGE_SO_FAR = `document.body.innerText + performance.getEntriesByType("resource")
  .map(({ name, responseStatus, duration }) => "\\n" + name + " " + responseStatus + " " + Math.round(duration) + " ms").join("")`;

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface AxeViolation {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[];
}

/** Fails with what axe finds wrong for people with disabilities (WCAG 2.2 AA and axe's best practices). */
export async function expectAccessible(page: Page): Promise<void> {
  // As a script of the page's own, which the engine keeps compiled for the next page: `page.evaluate` compiles it each time.
  const session = await page.context().newCDPSession(page);
  const { exceptionDetails } = await session.send("Runtime.evaluate", { expression: axeSource });
  expect(exceptionDetails).toBeUndefined();
  await session.detach();
  const violations = await page.evaluate<AxeViolation[]>(
    "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations)",
  );
  const found = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary}`),
  );
  expect(found, page.url()).toEqual([]);
}

/** Fails when the page is wider than its window, and stays so: what is drawn to measure follows a window a moment later. */
export async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const excess = () => page.evaluate<number>("document.documentElement.scrollWidth - window.innerWidth");
  await expect.poll(excess, { message: page.url() }).toBeLessThanOrEqual(0);
}

interface FocusedElement {
  readonly name: string;
  /** Whether a line around it, or around what it is in, shows that it has the focus. */
  readonly seen: boolean;
}

const NAME_OF = "({ ariaLabel, labels, textContent }) => (ariaLabel ?? labels?.[0]?.textContent ?? textContent).trim()";

const FOCUSED = `(() => {
  const element = document.activeElement;
  const outlined = (part) => part && part.tagName !== "BODY" &&
    (getComputedStyle(part).outlineStyle !== "none" || outlined(part.parentElement));
  return { name: element === document.body ? "nothing" : (${NAME_OF})(element), seen: Boolean(outlined(element)) };
})()`;

/** The names of what can have the focus. */
const STOPS = `[...document.querySelectorAll("a[href], :is(button, input, select, textarea):enabled")].map(${NAME_OF})`;

/** What has the focus. */
export function focused(page: Page): Promise<FocusedElement> {
  return page.evaluate<FocusedElement>(FOCUSED);
}

/** More stops than any page has. */
const MOST_STOPS = 150;

/**
 * Goes from stop to stop with the Tab key to what has this name, as whoever has no mouse does, and sees every stop. Keys are
 * pressed faster than a page is drawn: they wait until there is such a stop.
 */
export async function tabTo(page: Page, name: string | RegExp): Promise<void> {
  const isThere = (stop: string) => (typeof name === "string" ? stop === name : name.test(stop));
  const isDrawn = async () => (await page.evaluate<string[]>(STOPS)).some(isThere);
  await expect.poll(isDrawn, { message: `a stop named ${name}` }).toBe(true);
  const passed: string[] = [];
  while (passed.length < MOST_STOPS) {
    await page.keyboard.press("Tab");
    const stop = await focused(page);
    if (stop.name !== "nothing" && !stop.seen)
      await expect.poll(() => focused(page), { message: `after ${passed.join(", ")}` }).toMatchObject({ seen: true });
    if (isThere(stop.name)) return;
    passed.push(stop.name);
  }
  throw new Error(`the Tab key does not lead to ${name}: ${passed.join(", ")}`);
}
