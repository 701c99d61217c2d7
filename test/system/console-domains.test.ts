import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { domainDigest } from "../../services/core/mail/tokens.ts";
import { countReport } from "../../services/operations/mail/reports/count-report.ts";
import { readReport } from "../../services/operations/mail/reports/read-report.ts";
import { callApi } from "../support/api-client.ts";
import {
  browserNote,
  expectAccessible,
  expectNoSidewaysScroll,
  hasBrowser,
  settled,
  signIn,
  startBrowser,
  visit,
} from "../support/browser.ts";
import { freePort } from "../support/peers-processes.ts";
import { aggregateXml, type TestAggregate, tlsReportJson } from "../support/sender-reports.ts";
import { makeDataDir, removeDataDir, type StartedStack, startUsedStack } from "../support/stack.ts";
import { withStackDatabase } from "../support/stack-database.ts";

const DOMAIN = "demo.example";
/** Where somebody wants to look at the pages: a folder for pictures of them. */
const PICTURES = process.env.PALOMAR_TEST_PICTURES;

// What a sender domain publishes, and what is reported about it, on a desk and on a phone, in both languages.
describe.skipIf(!hasBrowser)(`sender domains in the console${browserNote}`, () => {
  const dataDir = makeDataDir();
  let stack: StartedStack;
  let browser: Awaited<ReturnType<typeof startBrowser>>;

  beforeAll(async () => {
    const dns = `127.0.0.1:${await freePort()}`;
    const environment = {
      ...{ PALOMAR_DNS_LISTEN: dns, PALOMAR_RESOLVER: dns, PALOMAR_DOMAIN_CHECK: "resolver" },
      PALOMAR_BOUNCE_DOMAIN: "bounces.example.net",
    };
    stack = await startUsedStack(dataDir, environment, ["console", "dns-api", "dns-server"]);
    const { addresses, credentials } = stack;
    const headers = { Authorization: credentials.reseller.key, Reseller: credentials.reseller.id };
    const zone = { crm_id: "demo", mname: "ns1.example.net", rname: "h.example.net", serial_type: "numeric" };
    const times = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 60, ttl: 60 };
    await callApi("POST", `${addresses.dns_api}/api/v1/master_zone/${DOMAIN}`, headers, { ...zone, ...times });
    await callApi("POST", `${addresses.dns_api}/api/v1/rr/${DOMAIN}`, headers, {
      ...{ name: "@", type: "TXT", value: "v=spf1 mx include:_spf.example.net -all" },
    });
    await withStackDatabase(dataDir, addReports);
    browser = await startBrowser();
  }, 400_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
    removeDataDir(dataDir);
  });

  async function addReports(db: Parameters<Parameters<typeof withStackDatabase>[1]>[0]): Promise<void> {
    const [instance] = await db("instances").where({ name: "demo" }).select("id");
    const to = { instanceId: instance.id, domainDigest: domainDigest(DOMAIN) };
    const add = async (content: string, signedBy: string) => {
      const read = await readReport(Buffer.from(content), new Date());
      if (!read.ok) throw new Error(read.error);
      const counted = await db.transaction((transaction) =>
        countReport(transaction, to, read.value, { receivedAt: new Date(), signedBy }),
      );
      expect(counted.ok).toBe(true);
    };
    const aggregate = (given: TestAggregate) => aggregateXml({ domain: DOMAIN, ...given });
    const own = { source: "192.0.2.25", count: 8_421, returnPath: "bounces.example.net" };
    for (let day = 1; day <= 3; day++) {
      const records = [
        own,
        { source: "203.0.113.40", count: 61, dkim: "fail", spf: "fail", signedBy: "amazonses.com" } as const,
      ];
      await add(aggregate({ id: `g${day}`, reporter: "google.com", daysAgo: day, records }), "google.com");
    }
    const stranger = {
      source: "2001:db8:85a3:8d3:1319:8a2e:370:7348",
      count: 940,
      dkim: "fail",
      spf: "fail",
      disposition: "reject",
    } as const;
    await add(
      aggregate({ id: "y", reporter: "Yahoo", daysAgo: 2, records: [{ ...own, count: 2_310 }, stranger] }),
      "yahoo.com",
    );
    await add(aggregate({ id: "late", reporter: "Enterprise Outlook", daysAgo: 6, records: [own] }), "microsoft.com");
    const forged = { source: "198.51.100.66", count: 1_000_000 };
    await add(aggregate({ id: "x", reporter: "A-Receiver-With-A-Very-Long-Name.example.net", records: [forged] }), "");
    const failures = [
      { mx: "mx1.demo.example", result: "certificate-expired", count: 12 },
      { mx: "mx2.demo.example", result: "sts-policy-fetch-error", count: 3 },
    ];
    await add(tlsReportJson({ domain: DOMAIN, successes: 4_210, failures }), "");
  }

  async function picture(page: Page, name: string): Promise<void> {
    await page.evaluate("window.scrollTo(0, 0)");
    if (PICTURES) await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
  }

  it.each([
    [1280, "en"],
    [390, "en"],
    [1280, "es"],
    [390, "es"],
  ] as const)("shows at %i pixels, in %s, what is reported, and what to publish", async (width, language) => {
    const { page, complaints, context } = await visit(browser, stack.addresses.console, { width, language });
    await signIn(page, stack.credentials.operator);
    const open = async (path: string) => {
      await page.goto(`${stack.addresses.console}/mail/demo/settings/domains${path}`);
      await settled(page);
    };
    await open(`/${DOMAIN}/reports`);
    const texts =
      language === "en"
        ? ["counts", "no known signature", "came too late"]
        : ["cuenta", "sin firma conocida", "llegó tarde"];
    for (const text of texts) await page.locator(".badge").filter({ hasText: text }).first().waitFor();
    const unconfirmed = page.getByRole("row").filter({ hasText: "198.51.100.66" });
    expect(await unconfirmed.textContent()).toContain(language === "en" ? "unconfirmed" : "sin confirmar");
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    await picture(page, `reports-${width}-${language}`);

    await open(`?domain=${DOMAIN}`);
    await page.getByRole("button", { name: language === "en" ? /^Propose/ : /^Proponer/ }).click();
    await page.getByText("_dmarc").first().waitFor();
    await settled(page);
    // All of what somebody agrees to is in sight, nothing of it has to be scrolled to within.
    const list = 'document.querySelector(".difference ul")';
    const hidden = await page.evaluate<number>(`${list}.scrollHeight - ${list}.clientHeight`);
    expect(hidden).toBeLessThanOrEqual(1);
    await expectNoSidewaysScroll(page);
    await expectAccessible(page);
    await picture(page, `setup-${width}-${language}`);

    await page.goto(`${stack.addresses.console}/mail/demo/settings/webhooks`);
    await settled(page);
    await page
      .getByRole("button", { name: language === "en" ? "Set webhook" : /webhook/i })
      .first()
      .click();
    await page.getByLabel(language === "en" ? "a new source fails DMARC" : "un origen nuevo falla DMARC").waitFor();
    await expectNoSidewaysScroll(page);
    await picture(page, `webhooks-${width}-${language}`);
    expect(complaints).toEqual([]);
    await context.close();
  });

  it("keeps what is wanted of a domain, and says until when a withdrawn policy is served", async () => {
    const { page, complaints, context } = await visit(browser, stack.addresses.console, { width: 390, language: "en" });
    await signIn(page, stack.credentials.operator);
    await page.goto(`${stack.addresses.console}/mail/demo/settings/domains?domain=${DOMAIN}`);
    await page.getByRole("button", { name: /^Propose/ }).click();
    const dialog = page.getByRole("dialog");
    const change = async (policy: string, days: string) => {
      await page.getByRole("button", { name: "Change settings" }).click();
      await dialog.getByLabel("MTA-STS policy").selectOption(policy);
      await dialog.getByLabel("Days between new DKIM keys").fill(days);
      await dialog.getByRole("button", { name: "Save" }).click();
    };
    await change("testing", "3");
    await dialog.getByText("must be at least 7").waitFor();
    await expectAccessible(page);
    await expectNoSidewaysScroll(page);
    await picture(page, "wishes");
    await dialog.getByLabel("Days between new DKIM keys").fill("90");
    await dialog.getByLabel("TLS reports").check();
    await dialog.getByRole("button", { name: "Save" }).click();
    const facts = page.locator(".facts");
    await facts.getByText("testing: failures are only reported").waitFor();
    await facts.getByText("new keys every 90 days").waitFor();
    await facts.getByText("come here").waitFor();
    await page.getByText(`_smtp._tls.${DOMAIN}`).first().waitFor();
    await change("off", "");
    await facts.getByText(/^none; the last one is served with mode none until /).waitFor();
    await facts.getByText("keys change when somebody says so").waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
