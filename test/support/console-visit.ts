import type { Browser, Locator, Page } from "playwright-core";
import type { ServiceName } from "../../services/platform/service.ts";
import { settled, signIn, startBrowser, visit } from "./browser.ts";
import { makeDataDir, removeDataDir, type StartedStack, startUsedStack } from "./stack.ts";

/** The operator at the pages of a running stack of its own. */
export interface ConsoleVisit {
  readonly dataDir: string;
  readonly stack: StartedStack;
  readonly browser: Browser;
  readonly page: Page;
  /** What the page complained of, as in `Visitor`. */
  readonly complaints: readonly string[];
  /** Goes to a page and waits until it has drawn. */
  open(path: string): Promise<void>;
  readonly dialog: () => Locator;
  readonly rowOf: (text: string | RegExp) => Locator;
  close(): Promise<void>;
}

/**
 * Starts a stack and a browser, and signs the operator in.
 * @param services beside the console; empty: all of them
 */
export async function visitConsole(services: readonly ServiceName[] = []): Promise<ConsoleVisit> {
  const dataDir = makeDataDir();
  const stack = await startUsedStack(dataDir, {}, services.length > 0 ? ["console", ...services] : []);
  const browser = await startBrowser();
  const { page, complaints } = await visit(browser, stack.addresses.console);
  await signIn(page, stack.credentials.operator);
  return {
    dataDir,
    stack,
    browser,
    page,
    complaints,
    open: async (path) => {
      await page.goto(stack.addresses.console + path);
      await settled(page);
    },
    dialog: () => page.getByRole("dialog"),
    rowOf: (text) => page.getByRole("row").filter({ hasText: text }),
    close: async () => {
      await browser.close();
      await stack.stop();
      removeDataDir(dataDir);
    },
  };
}
