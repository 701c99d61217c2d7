import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import {
  browserNote,
  expectAccessible,
  expectToast,
  focused,
  hasBrowser,
  settled,
  signIn,
  tabTo,
  visit,
} from "../support/browser.ts";
import { type ConsoleVisit, visitConsole } from "../support/console-visit.ts";
import { fillZone } from "../support/console-zones.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { eventually, type StartedStack } from "../support/stack.ts";
import { withStackDatabase } from "../support/stack-database.ts";

// What somebody does with zones in the console, in a real browser on the running stack; the wire says what came of it.
describe.skipIf(!hasBrowser)(`zones in the console${browserNote}`, () => {
  let visited: ConsoleVisit;
  let stack: StartedStack;
  let page: Page;

  beforeAll(async () => {
    visited = await visitConsole(["dns-api", "dns-server"]);
    ({ stack, page } = visited);
  });

  afterAll(() => visited?.close());

  const open = (path: string) => visited.open(path);
  const button = (name: string | RegExp) => page.getByRole("button", { name });
  const inDialog = () => visited.dialog();
  const rowOf = (text: string | RegExp) => visited.rowOf(text);
  const answers = async (name: string, type: string) => dataOf(await askDns(stack.addresses.dns, name, type));
  const becomes = (name: string, type: string, wanted: unknown[]) =>
    eventually(
      () => answers(name, type),
      (data) => JSON.stringify(data) === JSON.stringify(wanted),
    );
  const dnsApi = (method: string, path: string, body?: unknown) => {
    const { id, key } = stack.credentials.reseller;
    return callApi(method, `${stack.addresses.dns_api}/api/v1${path}`, { Authorization: key, Reseller: id }, body);
  };

  it("creates a company, whose wrong fields are explained beside them", async () => {
    await open("/dns/demo/companies");
    await button("Create a company").click();
    await inDialog().getByLabel("Identifier").fill("not lawful!");
    await inDialog().getByLabel("Name").fill("Acme");
    await inDialog().getByLabel("API key").fill("acme-key-for-the-console");
    await inDialog().getByRole("button", { name: "Create a company" }).click();
    await inDialog().locator(".field.wrong").filter({ hasText: "Identifier" }).waitFor();
    await inDialog().getByLabel("Identifier").fill("acme");
    await inDialog().getByRole("button", { name: "Create a company" }).click();
    await expectToast(page, "Company acme was created");
    expect((await dnsApi("GET", "/company/acme")).body).toMatchObject({ name: "Acme", suspended: false });
  });

  it("makes a token after its policy was tried, which then may do that and nothing else", async () => {
    await open("/dns/demo/tokens");
    await button("Make a token").first().click();
    await inDialog().getByLabel("Name", { exact: true }).fill("certbot");
    await inDialog().getByLabel("Company").fill("acme");
    await inDialog().getByLabel("Names").fill("_acme-challenge");
    await inDialog().getByLabel("What may it do with").fill("_acme-challenge.example.org");
    await inDialog().getByRole("status").getByText("can match nothing").waitFor();
    await inDialog().getByLabel("Names").fill("_acme-challenge.**");
    await inDialog().getByRole("status").getByText("create records").waitFor();
    await inDialog().getByLabel("What may it do with").fill("www.example.org");
    await inDialog().getByRole("status").getByText("nothing, because of: names").waitFor();
    await inDialog().getByLabel("TSIG key").selectOption("hmac-sha256");
    await expectAccessible(page);
    // A day without its time is no moment, and not none either.
    await inDialog().getByLabel("Expires").pressSequentially("12312040");
    await inDialog().getByRole("button", { name: "Make a token" }).click();
    await inDialog().getByRole("alert").getByText("Fill this in.").waitFor();
    await inDialog().getByLabel("Expires").fill("2040-12-31T09:00");
    await inDialog().getByRole("button", { name: "Make a token" }).click();
    const secret = await inDialog()
      .locator("pre")
      .filter({ hasText: /^palomar_/ })
      .innerText();
    await inDialog().getByText("dns_rfc2136_secret = ").waitFor();
    await inDialog().getByLabel("Program", { exact: true }).selectOption("lego-pdns");
    await inDialog().getByText(`PDNS_API_KEY=${secret}`).waitFor();
    await expectAccessible(page);
    await inDialog().getByRole("button", { name: "Close" }).last().click();
    const list = await callApi("GET", `${stack.addresses.dns_api}/api/v1/domain_list`, { Authorization: secret });
    expect(list).toMatchObject({ status: 200, body: { domain_list: [] } });
    await rowOf("certbot").getByRole("button", { name: "Delete: acme/certbot" }).click();
    await inDialog().getByRole("button", { name: "Delete" }).click();
    await page.getByText("No tokens yet").waitFor();
    const gone = await callApi("GET", `${stack.addresses.dns_api}/api/v1/domain_list`, { Authorization: secret });
    expect(gone.status).toBe(403);
  });

  it("creates a zone, and its primary's NS record is served", async () => {
    await open("/dns/demo/zones");
    await button("Create a zone").first().click();
    const dialog = inDialog();
    await dialog.getByLabel("Domain").fill("console.example.org");
    await dialog.getByLabel("Company").selectOption("acme");
    await dialog.getByRole("button", { name: "Create a zone" }).click();
    await dialog.locator(".field.wrong").filter({ hasText: "Primary name server" }).waitFor();
    await dialog.getByLabel("Primary name server").fill("ns1.console.example.org");
    await dialog.getByLabel("Responsible mailbox").fill("hostmaster.console.example.org");
    await dialog.getByRole("button", { name: "Create a zone" }).click();
    await expectToast(page, "console.example.org was created");
    await page.waitForURL("**/dns/demo/zones/console.example.org/records");
    await becomes("console.example.org", "NS", ["ns1.console.example.org"]);
  });

  it("finds zones by any part of their name, and the address carries the search", async () => {
    await open("/dns/demo/zones");
    await page.keyboard.press("/");
    await page.keyboard.type("onsole.ex");
    await page.waitForURL("**/zones?search=onsole.ex");
    await page.getByRole("link", { name: "console.example.org" }).waitFor();
    await page.getByRole("searchbox").fill("nowhere");
    await page.getByText("Nothing found").waitFor();
    await page.goBack();
  });

  it("gathers changes of records, shows them as a difference, and applies them in one step", async () => {
    await open("/dns/demo/zones/console.example.org/records");
    await button("Add a record").click();
    await inDialog().getByLabel("Name").fill("www");
    await inDialog().getByLabel("Address").fill("192.0.2.999");
    await button("Keep as pending change").click();
    await inDialog().locator(".field.wrong").filter({ hasText: "192.0.2.999" }).waitFor();
    await inDialog().getByLabel("Address").fill("192.0.2.10");
    await button("Keep as pending change").click();
    await page.getByText("1 pending change", { exact: true }).waitFor();

    await button("Add a record").click();
    await inDialog().getByLabel("Type").selectOption("MX");
    await inDialog().getByLabel("Priority").fill("10");
    await inDialog().getByLabel("Target").fill("mail");
    await button("Keep as pending change").click();
    await button("Add a record").click();
    await inDialog().getByLabel("Type").selectOption("TXT");
    await inDialog().getByLabel("Text").fill("v=spf1 mx -all");
    await button("Keep as pending change").click();
    await page.getByText("3 pending changes").waitFor();
    expect(await answers("www.console.example.org", "A")).toEqual([]);

    // Another part of the zone and back: pending changes stay.
    await page.getByRole("link", { name: "History" }).click();
    await page.getByRole("link", { name: "Records" }).click();
    await page.getByText("3 pending changes").waitFor();
    await expectAccessible(page);

    await button("Review and apply").click();
    await inDialog().getByText("3 added, 0 deleted").waitFor();
    await inDialog().getByText("mail.console.example.org").first().waitFor();
    await expectAccessible(page);
    await inDialog().getByRole("button", { name: "Apply" }).click();
    await expectToast(page, "serial 4");
    await becomes("www.console.example.org", "A", ["192.0.2.10"]);
    expect(await answers("console.example.org", "MX")).toEqual([
      { preference: 10, exchange: "mail.console.example.org" },
    ]);
  });

  it("changes and deletes records, and takes back what was not meant", async () => {
    await open("/dns/demo/zones/console.example.org/records");
    await button("Edit: www A").click();
    await inDialog().getByLabel("Address").fill("192.0.2.20");
    await button("Keep as pending change").click();
    await button("Delete: @ TXT").click();
    await button("Delete: @ MX").click();
    await page.getByText("3 pending changes").waitFor();
    await rowOf("mail.console.example.org").getByRole("button", { name: "Restore" }).click();
    await button("Review and apply").click();
    await inDialog().getByText("1 added, 2 deleted").waitFor();
    await inDialog().getByRole("button", { name: "Apply" }).click();
    await expectToast(page, /Applied/);
    await becomes("www.console.example.org", "A", ["192.0.2.20"]);
    expect(await answers("console.example.org", "TXT")).toEqual([]);
  });

  it("shows the live answer beside what is stored", async () => {
    await open("/dns/demo/zones/console.example.org/lookup");
    await page.getByLabel("Name").fill("www.console.example.org");
    await button("Ask").click();
    await page.getByRole("region", { name: "On the wire" }).getByText("NOERROR").waitFor();
    await page.getByRole("region", { name: "On the wire" }).getByText("192.0.2.20").waitFor();
    await page.getByRole("region", { name: "Stored" }).getByText("192.0.2.20").waitFor();
    await expectAccessible(page);
  });

  it("keeps in the address what was asked", async () => {
    await open("/dns/demo/lookup");
    await page.getByLabel("Name").fill("www.console.example.org");
    await button("Ask").click();
    await page.getByRole("region", { name: "On the wire" }).getByText("192.0.2.20").waitFor();
    await page.reload();
    await page.getByRole("region", { name: "On the wire" }).getByText("192.0.2.20").waitFor();
    await expect.poll(() => page.getByLabel("Name").inputValue()).toBe("www.console.example.org");
  });

  it("puts a master file in place after showing what it changes, and says where a wrong one is wrong", async () => {
    await open("/dns/demo/zones/console.example.org/file");
    await button("Start from the current one").click();
    const area = page.getByRole("textbox", { name: "Master file" });
    await eventually(
      () => area.inputValue(),
      (text) => text.includes("192.0.2.20"),
    );
    const current = await area.inputValue();
    await area.fill(`${current}\nbroken A 192.0.2.333\n`);
    await button("Show the difference").click();
    await page
      .getByRole("alert")
      .filter({ hasText: /line \d+/i })
      .waitFor();
    await area.fill(`${current.replace("192.0.2.20", "192.0.2.30")}\nftp A 192.0.2.40\n`);
    await button("Show the difference").click();
    await page.getByText("2 added, 1 deleted").waitFor();
    await button("Replace the zone").click();
    await expectToast(page, /The zone was replaced/);
    await becomes("ftp.console.example.org", "A", ["192.0.2.40"]);
    await becomes("www.console.example.org", "A", ["192.0.2.30"]);
  });

  it("gives a master file back that was being written when the session ended, to who wrote it alone", async () => {
    const { page: desk, context } = await visit(visited.browser, stack.addresses.console);
    await signIn(desk, stack.credentials.operator);
    await desk.goto(`${stack.addresses.console}/dns/demo/zones/console.example.org/file`);
    const area = desk.getByRole("textbox", { name: "Master file" });
    const text = "; written for an hour\nwww A 192.0.2.44\n";
    await area.fill(text);
    const endSession = async () => {
      await context.clearCookies();
      // What the page asks for by itself may be the first to be refused.
      const ended = desk.locator("input[name=login]");
      await desk.getByRole("button", { name: "Show the difference" }).or(ended).click();
    };
    await endSession();
    await signIn(desk, stack.credentials.operator);
    expect(await area.inputValue()).toBe(text);

    const other = { login: "other-desk", password: "another-long-password" };
    const { login, password } = stack.credentials.operator;
    const basic = { Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}` };
    const user = { ...other, role: "operator" };
    expect((await callApi("POST", `${stack.addresses.console}/admin/v1/users`, basic, user)).status).toBe(200);
    await endSession();
    await signIn(desk, other);
    expect(await area.inputValue()).toBe("");
    await context.close();
  });

  it("exports what it serves", async () => {
    await open("/dns/demo/zones/console.example.org/file");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("console.example.org.zone");
    const chunks: Buffer[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toBe((await dnsApi("GET", "/zone_file/console.example.org")).body);
  });

  it("tells who changed what, and goes back with one click", async () => {
    await open("/dns/demo/zones/console.example.org/history");
    const entries = page.locator(".history > li");
    await entries.nth(1).waitFor();
    expect(await entries.first().textContent()).toContain("operator");
    await entries.first().locator("summary").click();
    await entries.first().getByText("ftp 3600 A 192.0.2.40").waitFor();
    await expectAccessible(page);
    await entries.nth(1).getByRole("button", { name: "Go back to here" }).click();
    await inDialog().getByRole("button", { name: "Go back to here" }).click();
    await expectToast(page, /the zone now has serial/);
    await becomes("www.console.example.org", "A", ["192.0.2.20"]);
    await becomes("ftp.console.example.org", "A", []);
  });

  it("applies what was looked at alone: what others changed meanwhile is shown first", async () => {
    const record = (name: string) => ({ name, type: "A", value: "192.0.2.50" });
    const add = async (name: string) =>
      expect((await dnsApi("POST", "/rr/console.example.org", record(name))).status).toBe(200);
    await open("/dns/demo/zones/console.example.org/file");
    await button("Start from the current one").click();
    const area = page.getByRole("textbox", { name: "Master file" });
    await eventually(
      () => area.inputValue(),
      (text) => text.includes("192.0.2.20"),
    );
    const current = await area.inputValue();
    await area.fill(`${current}\nftp A 192.0.2.41\n`);
    await button("Show the difference").click();
    await page.getByText("1 added, 0 deleted").waitFor();
    await add("meanwhile");
    await page.route("**/zones/*/preview", async (route) => {
      await sleep(500);
      await route.fallback();
    });
    await button("Replace the zone").click();
    await expectToast(page, "console.example.org was changed meanwhile");
    // Who is told of it has been shown it, however long that took.
    expect(await page.getByText("1 added, 1 deleted").count()).toBe(1);
    await page.unrouteAll();
    await becomes("meanwhile.console.example.org", "A", ["192.0.2.50"]);
    await button("Replace the zone").click();
    await expectToast(page, /The zone was replaced/);
    await becomes("meanwhile.console.example.org", "A", []);

    await open("/dns/demo/zones/console.example.org/records");
    await button("Delete: ftp A").click();
    await button("Review and apply").click();
    await inDialog().getByText("0 added, 1 deleted").waitFor();
    await add("ftp");
    await inDialog().getByRole("button", { name: "Apply" }).click();
    await inDialog().getByText("was changed meanwhile").waitFor();
    await becomes("ftp.console.example.org", "A", ["192.0.2.41", "192.0.2.50"]);
    await inDialog().getByRole("button", { name: "Apply" }).click();
    await expectToast(page, /Applied/);
    await becomes("ftp.console.example.org", "A", ["192.0.2.50"]);
  });

  it("makes an alias and a pool, shows the pool's members, and drains one", async () => {
    await open("/dns/demo/zones/console.example.org/followers");
    await button("Add an alias").click();
    await inDialog().getByLabel("Name").fill("alias");
    await inDialog().getByLabel("Follows").fill("www");
    await inDialog().getByRole("button", { name: "Add an alias" }).click();
    await expectToast(page, "alias was created");
    const shown = await answers("www.console.example.org", "A");
    await becomes("alias.console.example.org", "A", shown);
    await button("Change alias").click();
    await inDialog().getByLabel("Follows").fill("nobody");
    await inDialog().getByRole("button", { name: "Save" }).click();
    await expectToast(page, "Saved");
    await becomes("alias.console.example.org", "A", []);
    await button("Add a pool").click();
    await inDialog().getByLabel("Name").fill("pool");
    await inDialog().getByLabel("Members").fill("198.51.100.1\n10.0.0.1");
    await inDialog().getByLabel("Checked by").selectOption("none");
    await inDialog().getByRole("button", { name: "Add a pool" }).click();
    await inDialog()
      .getByText(/not allowed|private/)
      .waitFor();
    await inDialog().getByLabel("Members").fill("198.51.100.1 1O0 1");
    await inDialog().getByRole("button", { name: "Add a pool" }).click();
    await inDialog().getByText("must be a whole number").waitFor();
    await inDialog().getByLabel("Members").fill("www\nns1.example.net.");
    await inDialog().getByRole("button", { name: "Add a pool" }).click();
    await expectToast(page, "pool was created");
    await becomes("pool.console.example.org", "A", shown);
    await page.getByRole("button", { name: "Members: pool" }).click();
    await inDialog().getByRole("button", { name: "Drain: www.console.example.org" }).click();
    await inDialog().getByText("drained").waitFor();
    await expectAccessible(page);
    await inDialog().getByRole("button", { name: /close/i }).click();
    await becomes("pool.console.example.org", "A", []);
    await button("Change pool").click();
    expect(await inDialog().getByLabel("Members").inputValue()).toBe(
      "www.console.example.org. 1 0\nns1.example.net. 1 0",
    );
    await inDialog().getByLabel("Members").fill("www.console.example.org. 2 0\n198.51.100.7");
    await inDialog().getByRole("button", { name: "Save" }).click();
    await expectToast(page, "Saved");
    // The first is drained still.
    await becomes("pool.console.example.org", "A", ["198.51.100.7"]);
    await open("/dns/demo/zones/console.example.org/records");
    await rowOf("pool").getByText("derived").waitFor();
    await open("/dns/demo/zones/console.example.org/file");
    await button("Start from the current one").click();
    const area = page.getByRole("textbox", { name: "Master file" });
    const file = await eventually(
      () => area.inputValue(),
      (text) => text.includes(";palomar alias "),
    );
    await area.fill(file.replace(/^(;palomar alias .*)nobody\.console\.example\.org/m, "$1ns1.example.net"));
    await button("Show the difference").click();
    await page.getByText("alias alias ns1.example.net.").waitFor();
    await open("/dns/demo/zones/console.example.org/followers");
    for (const name of ["alias", "pool"]) {
      await page.getByRole("button", { name: `Delete: ${name}` }).click();
      await inDialog().getByRole("button", { name: "Delete" }).click();
      await expectToast(page, `${name} was deleted`);
    }
    await becomes("alias.console.example.org", "A", []);
    await expectAccessible(page);
  });

  it("changes a zone by keyboard alone, and the focus is never lost", async () => {
    await open("/dns/demo/zones/console.example.org/records");
    const press = (key: string) => page.keyboard.press(key);
    const focusedName = async () => (await focused(page)).name;
    await tabTo(page, "Add a record");
    await press("Enter");
    await expect.poll(focusedName).toBe("Name");
    await press("ControlOrMeta+A");
    await page.keyboard.type("keys");
    await tabTo(page, "Address");
    await page.keyboard.type("nonsense");
    await tabTo(page, "Keep as pending change");
    await press("Space");
    await inDialog().locator(".field.wrong").filter({ hasText: "“nonsense” is not an IPv4 address" }).waitFor();
    await expect.poll(focusedName).toBe("Address");
    await press("ControlOrMeta+A");
    await page.keyboard.type("192.0.2.50");
    await press("Enter");
    await inDialog().waitFor({ state: "detached" });
    await expect.poll(focusedName).toBe("Add a record");

    await tabTo(page, "Review and apply");
    await press("Enter");
    await inDialog().getByText("1 added, 0 deleted").waitFor();
    // Pressed the moment that it has the focus again, which is before the dialog says that it has closed.
    await page.evaluate(`[...document.querySelectorAll("button")]
      .find(({ textContent }) => textContent === "Review and apply")
      .addEventListener("focus", ({ target }) => target.click(), { once: true })`);
    await press("Escape");
    await inDialog().getByText("1 added, 0 deleted").waitFor();
    await tabTo(page, "Apply");
    await press("Space");
    await expectToast(page, /Applied/);
    await becomes("keys.console.example.org", "A", ["192.0.2.50"]);
    // The bar that the dialog was opened from is gone with the changes.
    await expect.poll(focusedName).not.toBe("nothing");

    await tabTo(page, "Delete: keys A");
    await press("Enter");
    await expect.poll(focusedName).toBe("Restore");
    await press("Enter");
    await expect.poll(focusedName).toBe("Delete: keys A");
  });

  it("leads to the next row when the one with the focus is deleted", async () => {
    await open("/dns/demo/resolver-blocks");
    for (const block of ["192.0.2.0/25", "198.51.100.0/24"]) {
      await tabTo(page, "Add a block");
      await page.keyboard.press("Enter");
      await page.keyboard.type(block);
      await page.keyboard.press("Enter");
      await rowOf(block).waitFor();
    }
    const deleteFocused = async (block: string) => {
      await page.keyboard.press("Enter");
      await tabTo(page, "Delete");
      await page.keyboard.press("Enter");
      await rowOf(block).waitFor({ state: "detached" });
    };
    await tabTo(page, "Delete: 192.0.2.0/25");
    await deleteFocused("192.0.2.0/25");
    await expect.poll(async () => (await focused(page)).name).toBe("Delete: 198.51.100.0/24");
    await deleteFocused("198.51.100.0/24");
    await page.getByText("No blocks yet").waitFor();
    await expect.poll(async () => (await focused(page)).name).not.toBe("nothing");
  });

  describe("DNSSEC", () => {
    const makeZone = async (name: string) => {
      const names = { crm_id: "acme", mname: `ns1.${name}`, rname: `hostmaster.${name}`, serial_type: "numeric" };
      const times = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 600, ttl: 300 };
      const made = await dnsApi("POST", `/master_zone/${name}`, { ...names, ...times });
      expect(made.status, JSON.stringify(made.body)).toBe(200);
    };
    const addRecord = (zone: string, name: string, type: string, value: string) =>
      dnsApi("POST", `/rr/${zone}`, { name, type, value });
    const signing = async (zone: string) => (await dnsApi("GET", `/dnssec/${zone}`)).body;
    const section = () => page.locator("main");

    it("signs a zone and shows the DS record for the parent", async () => {
      const zone = "signed.example.org";
      await makeZone(zone);
      await open(`/dns/demo/zones/${zone}/dnssec`);
      await button("Sign the zone").click();
      await expectToast(page, "being signed");
      const ds = `${zone}. IN DS ${(await signing(zone)).keys[0].ds[0]}`;
      await page.getByText(ds).waitFor();
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await section().getByRole("button", { name: "Copy" }).click();
      await expectToast(page, "Copied");
      expect(await page.evaluate("navigator.clipboard.readText()")).toBe(ds);
      // As on a page that came over plain HTTP from another machine.
      await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })");
      await section().getByRole("button", { name: "Copy" }).click();
      await expectToast(page, "copy it by hand");
      await expectAccessible(page);
      await button("Stop signing").click();
      await inDialog()
        .getByLabel(/to confirm/)
        .fill(zone);
      await inDialog().getByRole("button", { name: "Stop signing" }).click();
      await button("Sign the zone").waitFor();
    });

    it("sees the DS at the parent, replaces keys, and does not stop while the DS is there", async () => {
      const [parent, child] = ["secure.example.org", "sub.secure.example.org"];
      for (const zone of [parent, child]) await makeZone(zone);
      for (const [zone, name] of [
        [parent, "sub"],
        [child, "@"],
      ] as const) {
        await addRecord(zone, name, "NS", `ns1.${child}.`);
      }
      await open(`/dns/demo/zones/${child}/dnssec`);
      await page.getByLabel("Keys", { exact: true }).selectOption("ksk-zsk");
      await button("Sign the zone").click();
      await rowOf("KSK").getByText("published").waitFor();
      await button("Ask the parent now").click();
      await page.getByText("serves no DS record of this zone yet").waitFor();

      const { keys } = await signing(child);
      await addRecord(parent, "sub", "DS", keys[0].ds[0]);
      await button("Ask the parent now").click();
      await page.getByText("The parent serves a DS record of this zone").waitFor();
      await rowOf("KSK").getByText("in use").waitFor();

      // CDS asks for the removal, and the parent, which is here, does it; then the other way about.
      await page.getByLabel(/^Publish CDS and CDNSKEY/).click();
      await page.getByText("CDS asks the parent to remove the DS record").waitFor();
      await becomes(`sub.${parent}`, "DS", []);
      await page.getByLabel(/^Publish CDS and CDNSKEY/).click();
      await page.getByText("The parent serves a DS record of this zone").waitFor();

      await button("Stop signing").click();
      await inDialog()
        .getByLabel(/to confirm/)
        .fill(child);
      await inDialog().getByRole("button", { name: "Stop signing" }).click();
      await inDialog().getByText(`The parent zone has a DS record of ${child} (key ${keys[0].key_tag})`).waitFor();
      await inDialog().getByRole("button", { name: "Cancel" }).click();

      await button(`Replace: ${keys[1].key_tag}`).click();
      await inDialog().getByText("Replace the ZSK?").waitFor();
      await inDialog().getByRole("button", { name: "Replace" }).click();
      await expectToast(page, "The new key is on its way");
      await rowOf("ZSK").getByText("published").waitFor();
      await button(`Replace: ${keys[0].key_tag}`).click();
      await inDialog().getByRole("button", { name: "Replace" }).click();
      await inDialog().getByText("A replacement is under way").waitFor();
      await inDialog().getByRole("button", { name: "Cancel" }).click();
      expect((await signing(child)).keys.map(({ state }: { state: string }) => state)).toEqual([
        "active",
        "active",
        "published",
      ]);
    });

    it("replaces a KSK, and all keys by those of another algorithm", async () => {
      for (const zone of ["ksk.example.org", "algorithm.example.org"]) {
        await makeZone(zone);
        const layout = zone.startsWith("ksk") ? "ksk-zsk" : "csk";
        const { keys } = (await dnsApi("PUT", `/dnssec/${zone}`, { enabled: true, keys: layout })).body;
        await dnsApi("POST", `/dnssec/${zone}/ds_seen`, { key_tag: keys[0].key_tag });
      }
      const [ksk] = (await signing("ksk.example.org")).keys;
      await open("/dns/demo/zones/ksk.example.org/dnssec");
      await button(`Replace: ${ksk.key_tag}`).click();
      await inDialog().getByText("Replace the KSK?").waitFor();
      await inDialog().getByRole("button", { name: "Replace" }).click();
      await rowOf("KSK").filter({ hasText: "published" }).waitFor();
      expect((await signing("ksk.example.org")).keys).toHaveLength(3);

      await open("/dns/demo/zones/algorithm.example.org/dnssec");
      await button("Change the algorithm").click();
      await inDialog().getByLabel("Algorithm").selectOption("15");
      await expectAccessible(page);
      await inDialog().getByRole("button", { name: "Replace" }).click();
      await rowOf("Ed25519").getByText("made").waitFor();
      await rowOf("ECDSA").getByText("in use").waitFor();
    });

    it("takes a word for what the parent has after saying what a false one does", async () => {
      const zone = "word.example.org";
      await makeZone(zone);
      const [key] = (await dnsApi("PUT", `/dnssec/${zone}`, { enabled: true })).body.keys;
      await dnsApi("POST", `/dnssec/${zone}/ds_seen`, { key_tag: key.key_tag });
      const before = await signing(zone);
      await open(`/dns/demo/zones/${zone}/dnssec`);
      await button("The parent has none").click();
      await inDialog().getByText("take the zone for forged").waitFor();
      await expectAccessible(page);
      await inDialog().getByRole("button", { name: "Cancel" }).click();
      expect(await signing(zone)).toEqual(before);
      await button("The parent has none").click();
      await inDialog().getByRole("button", { name: "The parent has none" }).click();
      await expectToast(page, "Noted: the parent has no DS record");
    });

    it("exports keys, and signs with imported ones", async () => {
      const zone = "keys.example.org";
      await makeZone(zone);
      const [key] = (await dnsApi("PUT", `/dnssec/${zone}`, { enabled: true })).body.keys;
      await open(`/dns/demo/zones/${zone}/dnssec`);
      await button(`Export: ${key.key_tag}`).click();
      await inDialog().getByText("Whoever has the .private file can sign for this zone").waitFor();
      const files = await inDialog().locator("pre").allTextContents();
      expect(files[1]).toMatch(/^Private-key-format: v1\.3\n/);
      await expectAccessible(page);
      await inDialog().getByRole("button", { name: "Close" }).click();

      await dnsApi("PUT", `/dnssec/${zone}`, { enabled: false });
      await open(`/dns/demo/zones/${zone}/dnssec`);
      await button("Import keys").click();
      await inDialog().getByLabel("The .key file", { exact: true }).fill(files[0]!);
      await inDialog().getByRole("button", { name: "Import keys" }).click();
      await inDialog()
        .getByText(/\.private file/)
        .first()
        .waitFor();
      await inDialog().getByLabel("The .private file", { exact: true }).fill(files[1]!);
      await inDialog().getByRole("button", { name: "Import keys" }).click();
      await expectToast(page, "The keys are being taken over");
      await rowOf(String(key.key_tag)).getByText("published").waitFor();
      expect((await signing(zone)).keys[0].ds).toEqual(key.ds);
    });
  });

  it("changes the SOA, suspends and resumes", async () => {
    await open("/dns/demo/zones/console.example.org/settings");
    await page.getByLabel("Refresh").fill("nonsense");
    await button("Save").click();
    await page.locator(".field.wrong").filter({ hasText: "Refresh" }).waitFor();
    await page.getByLabel("Refresh").fill("1800");
    await button("Save").click();
    await expectToast(page, "Saved");
    expect((await dnsApi("GET", "/soa/console.example.org")).body.refresh).toBe(1800);
    await button("Suspend").click();
    await inDialog().getByRole("button", { name: "Cancel" }).click();
    expect((await dnsApi("GET", "/soa/console.example.org")).body.suspended).toBe(false);
    await button("Suspend").click();
    await inDialog().getByRole("button", { name: "Suspend" }).click();
    await expectToast(page, "is suspended");
    await eventually(
      async () => rcodeOf(await askDns(stack.addresses.dns, "console.example.org", "SOA")),
      (rcode) => rcode === "REFUSED",
    );
    await button("Resume").click();
    await inDialog().getByRole("button", { name: "Resume" }).click();
    await expectToast(page, "is served again");
    await becomes("www.console.example.org", "A", ["192.0.2.20"]);
  });

  it("adds an access list and shows the stanza to paste for every name server", async () => {
    await open("/dns/demo/transfers");
    await button("Add an access list").first().click();
    await inDialog().getByLabel("Name", { exact: true }).fill("secondary");
    await inDialog().getByLabel("Addresses or blocks").fill("192.0.2.53\n2001:db8::/48");
    await inDialog().getByRole("button", { name: "Add an access list" }).click();
    await expectToast(page, "Access list secondary was added");
    const stanza = inDialog().locator("pre");
    await stanza.filter({ hasText: "primaries" }).waitFor();
    const telling = { nsd: "request-xfr", knot: "remote:", pdns: "pdnsutil", unbound: "auth-zone", bind: "primaries" };
    for (const [server, word] of Object.entries(telling)) {
      await inDialog().getByLabel("Name server").selectOption(server);
      await stanza.filter({ hasText: word }).waitFor();
    }
    await expectAccessible(page);
    await page.keyboard.press("Escape");
    await inDialog().waitFor({ state: "detached" });
    expect((await dnsApi("GET", "/acls")).body.acls).toMatchObject([
      { name: "secondary", blocks: ["192.0.2.53/32", "2001:db8::/48"], tsig: { name: "secondary" } },
    ]);
    await button("Delete: secondary").click();
    await inDialog().getByRole("button", { name: "Delete" }).click();
    await expectToast(page, "was deleted");
    expect((await dnsApi("GET", "/acls")).body.acls).toEqual([]);
  });

  it("keeps resolver blocks and catalogs", async () => {
    await open("/dns/demo/resolver-blocks");
    await button("Add a block").first().click();
    await inDialog().getByLabel("Block").fill("192.0.2.1/24");
    await inDialog().getByRole("button", { name: "Add a block" }).click();
    await inDialog().locator(".field.wrong").filter({ hasText: "host bits" }).waitFor();
    await inDialog().getByLabel("Block").fill("192.0.2.0/24");
    await inDialog().getByLabel("Description").fill("office");
    await inDialog().getByRole("button", { name: "Add a block" }).click();
    await rowOf("office").waitFor();
    expect((await dnsApi("GET", "/resolver_blocks")).body.resolver_blocks).toEqual([
      { block: "192.0.2.0/24", description: "office" },
    ]);

    await open("/dns/demo/catalogs");
    await button("Add a catalog").first().click();
    await inDialog().getByLabel("Catalog zone").fill("catalog.example.net");
    await inDialog().getByRole("button", { name: "Add a catalog" }).click();
    await rowOf("catalog.example.net").waitFor();
    await button("Delete: catalog.example.net").click();
    await inDialog().getByRole("button", { name: "Delete" }).click();
    await expectToast(page, "catalog.example.net was deleted");
  });

  it("makes a policy feed, imports a list with progress, and a reseller with the licence activates it", async () => {
    await open("/operator/feeds");
    await button("Make a feed").first().click();
    await inDialog().getByLabel("Zone").fill("rpz.example.net");
    await inDialog().getByRole("button", { name: "Make a feed" }).click();
    await page.waitForURL("**/operator/feeds/rpz.example.net/rules");
    await button("Add a rule").first().click();
    await inDialog().getByLabel("Trigger").fill("qname:bad.example");
    await inDialog().getByRole("button", { name: "Add a rule" }).click();
    await rowOf("qname:bad.example").waitFor();

    for (const action of ["A 192.0.2.80", "AAAA 2001:db8::80"]) {
      await button("Add a rule").first().click();
      await inDialog().getByLabel("Trigger").fill("qname:local.example");
      await inDialog().getByLabel("Action").fill(action);
      await inDialog().getByRole("button", { name: "Add a rule" }).click();
      await rowOf(action).waitFor();
    }
    await button("Delete: qname:local.example").first().click();
    await inDialog().getByText("qname:local.example AAAA 2001:db8::80").waitFor();
    await inDialog().getByText("qname:local.example A 192.0.2.80").waitFor();
    await expect.poll(() => rowOf("qname:local.example").count()).toBe(2);
    await inDialog().getByRole("button", { name: "Delete" }).click();
    await rowOf("qname:local.example").first().waitFor({ state: "detached" });
    await expect.poll(() => rowOf("qname:bad.example").count()).toBe(1);

    await button("Import a list").click();
    await inDialog().getByLabel("List").fill("worse.example\nnot a name..\nworst.example\n");
    await inDialog().getByRole("button", { name: "Import", exact: true }).click();
    await page.waitForURL(/job=/);
    await inDialog().getByText("done", { exact: true }).waitFor();
    await inDialog().getByText("What was rejected").waitFor();
    await expectAccessible(page);
    // The job is found again after the page was left.
    await page.reload();
    await inDialog().getByText("done", { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await rowOf("qname:worst.example").first().waitFor();

    await open("/dns/demo/feeds");
    await page.getByText("no licence").waitFor();
    await open("/operator/resellers");
    await button("Grant the RPZ licence: demo").click();
    await button("Withdraw the RPZ licence: demo").waitFor();
    await open("/dns/demo/feeds");
    await button("Activate").click();
    await expectToast(page, "is active");
    expect((await dnsApi("GET", "/active_rpz")).body.active_rpz).toMatchObject([{ zone: "rpz.example.net", rules: 5 }]);
  });

  it("reads of a large zone what is in sight, and finds any record; changes of what is out of sight stay", async () => {
    const times = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600, serial_type: "numeric" };
    const names = { crm_id: "demo", mname: "ns1.large.test", rname: "hostmaster.large.test" };
    await dnsApi("POST", "/master_zone/large.test", { ...names, ...times });
    await withStackDatabase(stack.dataDir, (db) => fillZone(db, "large.test", 5_000));
    await open("/dns/demo/zones/large.test/records");
    await rowOf("host-000003").waitFor();
    expect(await page.getByRole("row").count()).toBeLessThan(300);
    await button("Delete: host-000003 A").click();
    // The next pages are read as the reader comes near the end of those before.
    const scrollOn = async () => {
      await page.evaluate("window.scrollTo(0, document.body.scrollHeight)");
      return Number(await page.getByRole("table").getAttribute("aria-rowcount"));
    };
    await eventually(scrollOn, (rows) => rows > 600, 120_000);
    expect(await page.getByRole("row").count()).toBeLessThan(300);
    await expectAccessible(page);
    // The rows out of sight are reckoned with by the height of those in sight, also where there is little room.
    const heights = () =>
      page
        .locator("tbody tr:not(.spacer)")
        .evaluateAll((rows) => [
          ...new Set(rows.map((row) => Math.round(Number((row as unknown as { offsetHeight: number }).offsetHeight)))),
        ]);
    expect(await heights()).toEqual([38]);
    const window = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await heights()).toEqual([38]);
    await page.setViewportSize(window!);
    const table = (await page.locator(".table-frame").boundingBox())!;
    const remove = (await button(/^Delete: host-/)
      .last()
      .boundingBox())!;
    expect(remove.x + remove.width).toBeLessThan(table.x + table.width);
    await page.getByRole("searchbox").fill("host-004999");
    await rowOf("host-004999").waitFor();
    await button("Edit: host-004999 A").click();
    await inDialog().getByLabel("Address").fill("192.0.2.77");
    await button("Keep as pending change").click();
    await page.getByText("2 pending changes").waitFor();
    // What was found before, and both changes, of which the search finds one.
    await page.getByRole("searchbox").fill("host-00001");
    await rowOf("host-000019").waitFor();
    await rowOf("host-000003").getByText("deleted").waitFor();
    await rowOf("192.0.2.77").getByText("changed").waitFor();
    await button("Review and apply").click();
    await inDialog().getByText("1 added, 2 deleted").waitFor();
    await inDialog().getByRole("button", { name: "Apply" }).click();
    await expectToast(page, /Applied/);
    await becomes("host-004999.large.test", "A", ["192.0.2.77"]);
    await becomes("host-000003.large.test", "A", []);
    await page.getByRole("combobox", { name: "Type" }).selectOption("NS");
    await page.getByRole("searchbox").fill("");
    await rowOf("ns1.large.test.").waitFor();
    await rowOf("host-000019").waitFor({ state: "detached" });
  });

  it("says in Spanish what was refused and what to do, beside the field where there is one", async () => {
    const { page: spanish, context } = await visit(visited.browser, stack.addresses.console, { language: "es" });
    await signIn(spanish, stack.credentials.operator);
    await spanish.goto(`${stack.addresses.console}/dns/demo/zones/console.example.org/records`);
    await settled(spanish);
    await spanish.getByRole("button", { name: "Agregar un registro" }).click();
    await spanish.getByRole("dialog").getByLabel("Dirección").fill("192.0.2.999");
    const keep = spanish.getByRole("button", { name: "Dejar como cambio pendiente" });
    await keep.click();
    const wrong = spanish.locator(".field.wrong");
    await wrong.filter({ hasText: "«192.0.2.999» no es una dirección IPv4." }).waitFor();
    await spanish.getByRole("dialog").getByLabel("Dirección").fill("");
    await keep.click();
    await wrong.first().waitFor();
    await spanish.goto(`${stack.addresses.console}/dns/demo/zones/nowhere.example/records`);
    await spanish.getByRole("alert").filter({ hasText: "nowhere.example no existe" }).waitFor();
    await spanish.goto(`${stack.addresses.console}/dns/nobody/transfers`);
    await spanish.getByRole("alert").filter({ hasText: "No existe ese revendedor" }).waitFor();
    await context.close();
  });

  it("suspends, resumes and deletes a company; only its own key confirms that", async () => {
    await open("/dns/demo/companies/acme");
    await button("Suspend").click();
    await inDialog().getByRole("button", { name: "Suspend" }).click();
    await button("Resume").waitFor();
    await eventually(
      async () => rcodeOf(await askDns(stack.addresses.dns, "console.example.org", "SOA")),
      (rcode) => rcode === "REFUSED",
    );
    await button("Resume").click();
    await inDialog().getByRole("button", { name: "Resume" }).click();
    await becomes("www.console.example.org", "A", ["192.0.2.20"]);

    await button("Delete the company").click();
    await inDialog()
      .getByLabel(/API key/)
      .fill("not-the-key");
    await inDialog().getByRole("button", { name: "Delete the company" }).click();
    await inDialog().getByRole("alert").waitFor();
    await inDialog()
      .getByLabel(/API key/)
      .fill("acme-key-for-the-console");
    await inDialog().getByRole("button", { name: "Delete the company" }).click();
    await expectToast(page, "Company acme was deleted");
    expect((await dnsApi("GET", "/soa/console.example.org")).status).toBe(400);
  });

  it("did all of this without an error in the browser", () => {
    expect(visited.complaints).toEqual([]);
  });
});
