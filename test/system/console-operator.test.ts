import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { addTrafficReport } from "../../services/store/dns/dns-traffic.ts";
import { callApi } from "../support/api-client.ts";
import { browserNote, expectAccessible, expectToast, hasBrowser, signIn, visit } from "../support/browser.ts";
import { type ConsoleVisit, visitConsole } from "../support/console-visit.ts";
import { askDns } from "../support/dns-client.ts";
import { eventually, type StartedStack } from "../support/stack.ts";
import { withStackDatabase } from "../support/stack-database.ts";

// What an operator does in the console, in a real browser on the running stack.
describe.skipIf(!hasBrowser)(`the operator's pages${browserNote}`, () => {
  let visited: ConsoleVisit;
  let stack: StartedStack;
  let page: Page;

  beforeAll(async () => {
    visited = await visitConsole();
    ({ stack, page } = visited);
  });

  afterAll(() => visited?.close());

  const open = (path: string) => visited.open(path);
  const button = (name: string | RegExp) => page.getByRole("button", { name });
  const inDialog = () => visited.dialog();
  const rowOf = (text: string | RegExp) => visited.rowOf(text);
  const shownSecret = async () => (await inDialog().locator(".secret pre").textContent()) ?? "";
  const domainList = async (reseller: string, key: string) =>
    (
      await callApi("GET", `${stack.addresses.dns_api}/api/v1/domain_list`, {
        Authorization: key,
        Reseller: reseller,
      })
    ).status;
  const mailApi = (method: string, path: string, key: string, body?: unknown) =>
    callApi(method, `${stack.addresses.mail_api}/v1${path}`, { Authorization: key }, body);

  it("adds a reseller, shows its key once, and replaces it with a time of grace", async () => {
    await open("/operator/resellers");
    await button("Add a reseller").click();
    await inDialog().getByLabel("Identifier").fill("north");
    await inDialog().getByLabel("Name").fill("North Hosting");
    await inDialog().getByRole("button", { name: "Add a reseller" }).click();
    const firstKey = await shownSecret();
    await expectAccessible(page);
    expect(await domainList("north", firstKey)).toBe(200);
    await page.keyboard.press("Escape");
    await rowOf("North Hosting").waitFor();
    expect(await page.content()).not.toContain(firstKey);

    await button("New key: north").click();
    await inDialog().getByLabel(/Hours/).fill("2");
    await button("Issue the key").click();
    await inDialog().getByText("The old key stays good until").waitFor();
    const secondKey = await shownSecret();
    expect(await Promise.all([firstKey, secondKey].map((key) => domainList("north", key)))).toEqual([200, 200]);
    await page.keyboard.press("Escape");

    await button("New key: north").click();
    for (const hours of ["", "two"]) {
      await inDialog().getByLabel(/Hours/).fill(hours);
      await button("Issue the key").click();
      await inDialog().locator(".field.wrong").filter({ hasText: "Hours" }).waitFor();
    }
    await inDialog().getByLabel(/Hours/).fill("0");
    await button("Issue the key").click();
    await inDialog().getByText("no longer accepted").waitFor();
    const thirdKey = await shownSecret();
    expect(await Promise.all([firstKey, secondKey, thirdKey].map((key) => domainList("north", key)))).toEqual([
      403, 403, 200,
    ]);
    await page.keyboard.press("Escape");

    await button("Rename: north").click();
    await inDialog().getByLabel("Name").fill("Northern Hosting");
    await button("Save").click();
    await rowOf("Northern Hosting").waitFor();
  });

  it("leads to the reseller that is chosen", async () => {
    await open("/dns/demo/zones");
    await page.getByRole("combobox", { name: "Reseller" }).selectOption("north");
    await page.waitForURL("**/dns/north/zones");
    await page.getByText("No zones yet").waitFor();
    await button("Create a zone").first().click();
    await inDialog().getByText("create a company first").waitFor();
    await page.keyboard.press("Escape");
  });

  it("adds an instance, grants a licence, and replaces its key", async () => {
    await open("/operator/instances");
    await button("Add an instance").click();
    await inDialog().getByLabel("Name").fill("shop");
    await inDialog().getByLabel("Host of its API").fill("mail.shop.test");
    await inDialog().getByLabel("Sender domains").fill("shop..test");
    await inDialog().getByRole("button", { name: "Add an instance" }).click();
    await inDialog().locator(".field.wrong").filter({ hasText: "Sender domains" }).waitFor();
    await inDialog().getByLabel("Sender domains").fill("shop.test");
    await inDialog().getByRole("button", { name: "Add an instance" }).click();
    const key = await shownSecret();
    expect((await mailApi("GET", "/campania/", key)).status).toBe(200);
    await page.keyboard.press("Escape");
    await rowOf("mail.shop.test").waitFor();

    await button("Settings: shop").click();
    await inDialog().getByLabel("Licence to archive messages").check();
    await inDialog().getByLabel("Time zone").fill("Nowhere/Land");
    await button("Save").click();
    await inDialog().locator(".field.wrong").filter({ hasText: "Time zone" }).waitFor();
    await inDialog().getByLabel("Time zone").fill("America/Montevideo");
    await inDialog().getByLabel("Days that events are kept").fill("a year");
    await button("Save").click();
    await inDialog().locator(".field.wrong").filter({ hasText: "Days that events are kept" }).waitFor();
    await inDialog().getByLabel("Days that events are kept").fill("365");
    await button("Save").click();
    await expectToast(page, "The instance was changed");
    await rowOf("America/Montevideo").waitFor();

    await button("New key: shop").click();
    await inDialog().getByLabel(/Hours/).fill("0");
    await button("Issue the key").click();
    const newKey = await shownSecret();
    expect((await mailApi("GET", "/campania/", key)).status).toBe(403);
    expect((await mailApi("GET", "/campania/", newKey)).status).toBe(200);
    await page.keyboard.press("Escape");
  });

  it("adds a user, who can sign in; a new password ends that, and so does deletion", async () => {
    await open("/operator/users");
    await button("Add a user").click();
    await inDialog().getByLabel("Login").fill("operator");
    await inDialog().getByLabel("Role").selectOption("operator");
    await inDialog().getByRole("button", { name: "Add a user" }).click();
    await inDialog().locator(".field.wrong").filter({ hasText: "Choose another login" }).waitFor();
    await inDialog().getByLabel("Login").fill("maria");
    await inDialog().getByLabel("Role").selectOption("reseller");
    await inDialog().getByLabel("Reseller").fill("nobody");
    await inDialog().getByRole("button", { name: "Add a user" }).click();
    await inDialog().locator(".field.wrong").filter({ hasText: "Reseller" }).waitFor();
    await inDialog().getByLabel("Reseller").fill("demo");
    await inDialog().getByRole("button", { name: "Add a user" }).click();
    const password = await shownSecret();
    await page.keyboard.press("Escape");
    const maria = await visit(visited.browser, stack.addresses.console);
    await signIn(maria.page, { login: "maria", password });
    await maria.page.waitForURL("**/dns/demo/zones");

    await button("New password: maria").click();
    await inDialog().getByRole("button", { name: "New password" }).click();
    await inDialog().locator(".secret").waitFor();
    expect(await shownSecret()).not.toBe(password);
    await page.keyboard.press("Escape");
    await maria.page.reload();
    await maria.page.locator("input[name=login]").waitFor();
    await maria.context.close();

    await button("Delete: maria").click();
    await inDialog().getByRole("button", { name: "Delete" }).click();
    await expectToast(page, "User maria was deleted");
    await rowOf("maria").waitFor({ state: "detached" });
  });

  it("holds a destination, shows what waits for it, and lets it go", async () => {
    await open("/operator/queues");
    await page.getByText("Nothing waits").waitFor();
    await button("Hold a destination").click();
    await inDialog().getByLabel("Destination").fill("held.test");
    await inDialog().getByRole("button", { name: "Hold" }).click();
    await expectToast(page, "held.test is held");

    const { key } = stack.credentials.instance;
    const { body: campaign } = await mailApi("POST", "/campania/", key, {
      tipo: "api",
      nombre: "queues",
      remitente: "news@demo.example",
      remitente_nombre: "News",
      asunto: "Hello",
      url: "http://www.demo.example/",
      charset: "utf8",
      desusc: "no",
    });
    const sent = await mailApi("POST", "/envio/send_one_inline/", key, {
      campana_id: campaign.numid,
      email: true,
      contacto: { email: "someone@held.test" },
      html: "<p>Hello</p>",
    });
    expect(sent.body.sent).toBe(1);
    await rowOf("held.test").waitFor();
    await expectAccessible(page);
    await button("Release: held.test").click();
    await expectToast(page, "held.test is served again");
    const { login, password } = stack.credentials.operator;
    const basic = `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`;
    await eventually(
      () => callApi("GET", `${stack.addresses.console}/admin/v1/sandbox/messages`, { Authorization: basic }),
      ({ body }) => body.messages.some(({ to }: { to: string }) => to === "someone@held.test"),
      60_000,
    );
  });

  it("shows nodes and live DNS figures", async () => {
    await open("/operator/nodes");
    await rowOf("dns-server").waitFor();
    for (let count = 0; count < 50; count++) await askDns(stack.addresses.dns, `name-${count}.example.org`, "A");
    await open("/operator/dns");
    await page.getByText("REFUSED").waitFor({ timeout: 150_000 });
    await page.locator(".chart canvas").waitFor();
    await expectAccessible(page);
    await open("/");
    await page.getByRole("link", { name: /Queries per second/ }).waitFor();
    await expectAccessible(page);
  });

  it("draws no line where no server told anything, and says so in the table", async () => {
    const nowMs = Date.now();
    await withStackDatabase(stack.dataDir, async (db) => {
      for (const minutesAgo of [40, 30]) {
        const at = new Date(nowMs - minutesAgo * 60_000);
        const asked = { rcodes: {}, zones: {} };
        await addTrafficReport(db, { ...asked, source: randomUUID(), at, seconds: 5, queries: 6_000 });
      }
    });
    await open("/operator/dns");
    await page.getByText("As a table").click();
    await page.getByRole("row").filter({ hasText: "100" }).nth(1).waitFor();
    const told = (await page.locator("figure tbody td.end").allTextContents()).slice(0, 11);
    expect(told).toEqual(["100", ...told.slice(1, 10).map(() => "no data"), "100"]);
    await expectAccessible(page);
  });

  it("shows a message in quarantine as nothing but text, tries it again, and deletes it", async () => {
    const octets = Buffer.from(
      'Subject: Undeliverable\r\nContent-Type: text/html\r\n\r\n<img src="x" onerror="document.title=1"><b>returned</b>',
    );
    const quarantined = (problem: string) => ({
      ...{ mail_from: "", octets, problem, state: "quarantined", attempts: 5, quarantined_at: new Date() },
      feedback_address: "abuse@demo.example",
    });
    const [retried, deleted] = await withStackDatabase(stack.dataDir, (db) =>
      db("inbound_messages")
        .insert([quarantined("cannot be read"), quarantined("nobody knows")])
        .returning("id"),
    );
    await open("/operator/quarantine");
    await button(`Show: ${retried.id}`).click();
    await inDialog().locator("pre").filter({ hasText: '<img src="x" onerror="document.title=1">' }).waitFor();
    expect(await inDialog().locator("pre img, pre b").count()).toBe(0);
    expect(await page.title()).toBe("Bounce quarantine · Palomar");
    await expectAccessible(page);
    await page.keyboard.press("Escape");
    await button(`Try again: ${retried.id}`).click();
    await expectToast(page, "It is tried again");
    await rowOf("cannot be read").waitFor({ state: "detached" });
    await button(`Delete: ${deleted.id}`).click();
    await inDialog().getByRole("button", { name: "Delete" }).click();
    await expectToast(page, `Message ${deleted.id} was deleted`);
    await page.getByText("The quarantine is empty").waitFor();
    // What was tried again is with the workers, which find no bounce in it; what was deleted is nowhere.
    const left = await withStackDatabase(stack.dataDir, (db) =>
      eventually(
        () => db("inbound_messages").whereIn("id", [retried.id, deleted.id]).select("id", "state"),
        (rows) => rows.length === 1 && rows[0].state === "applied",
        60_000,
      ),
    );
    expect(left).toEqual([{ id: retried.id, state: "applied" }]);
  });

  it("starts the plan of a new address, draws what is planned and sent, pauses and ends it", async () => {
    await open("/operator/warm-ups");
    await button("Start a plan").first().click();
    await inDialog().getByLabel("Address").fill("nobody");
    await inDialog().getByRole("button", { name: "Start a plan" }).click();
    await inDialog().getByText("Give an IP address of yours, or system.").waitFor();
    await inDialog().getByLabel("Address").fill("192.0.2.20");
    await inDialog().getByLabel("First day").fill("3");
    await inDialog().getByRole("button", { name: "Start a plan" }).click();
    await expectToast(page, "192.0.2.20 sends by the plan");
    await rowOf("3 of 17").waitFor();
    await expectAccessible(page);
    const day = { source: "192.0.2.20", provider: "gmail", sent_before: 0, deferred_before: 0 };
    await withStackDatabase(stack.dataDir, (db) =>
      db("warm_up_days").insert([
        { ...day, number: 1, step: 1, planned: 200, sent: 200, deferred: 3, repeated: false },
        {
          ...{ ...day, number: 2, step: 2, planned: 400, sent: 123, deferred: 40, repeated: true },
          ...{ paused_until: new Date(Date.now() + 3_600_000), paused_for: "deferrals" },
        },
      ]),
    );
    await page.getByRole("link", { name: "192.0.2.20" }).click();
    await page.getByText("Day 3 of the plan: 123 of 400 sent; deferred: 40; complaints: 0.").waitFor();
    await page.getByText("Too many deferrals: it goes on at").waitFor();
    await page.getByRole("img", { name: "Planned and sent by day: gmail" }).waitFor();
    await expectAccessible(page);
    await page.setViewportSize({ width: 360, height: 740 });
    // The drawing follows a moment later.
    const isTooWide = () =>
      page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth");
    await expect.poll(isTooWide).toBe(false);
    await page.setViewportSize({ width: 1280, height: 860 });
    await button("Pause").click();
    await expectToast(page, "Nothing leaves from there until it is resumed");
    await button("Resume").click();
    await expectToast(page, "The plan goes on");
    await button("End the plan").click();
    await inDialog().getByRole("button", { name: "End the plan" }).click();
    await expectToast(page, "The plan is ended");
    await button("End the plan").waitFor({ state: "detached" });
  });

  it("shows what is held for its content, and lets it leave or takes it back with a reason", async () => {
    const { key } = stack.credentials.instance;
    const { body: campaigns } = await mailApi("GET", "/campania/", key);
    const send = async (subject: string) => {
      const { body } = await mailApi("POST", "/envio/send_one_inline/", key, {
        campana_id: campaigns.campanias[0].numid,
        email: true,
        asunto: subject,
        contacto: { email: "someone@shop.test" },
        html: "<p>Hello</p>",
      });
      return body.eeid as string;
    };
    const eeids = [await send("Win a prize"), await send("Win two prizes")];
    await withStackDatabase(stack.dataDir, (db) =>
      db("batches")
        .whereIn("eeid", eeids)
        .select("eeid", "instance_id")
        .then((batches) =>
          db("content_verdicts").insert(
            batches.map((batch) => ({
              ...batch,
              action: "hold",
              score: 12.5,
              symbols: { R_SPAM: 7.5, URL_BAD: 3, HTML_ONLY: 1, NO_NAME: 0.6, SHORT: 0.4 },
            })),
          ),
        ),
    );
    await open("/operator/held");
    const [first, second] = eeids.map((eeid) =>
      page.getByRole("row").filter({ has: page.locator(`a[href$="${eeid}"]`) }),
    );
    await first!.getByText("R_SPAM 7.5").waitFor();
    await first!.getByText("and 1 more").waitFor();
    await first!.getByText("12.5").waitFor();
    await expectAccessible(page);
    await first!.getByRole("button", { name: /^Let it leave/ }).click();
    await inDialog().getByLabel("Reason").fill("looked at");
    await inDialog()
      .getByRole("button", { name: /^Let it leave/ })
      .click();
    await expectToast(page, "The batch leaves");
    await second!.getByRole("button", { name: /^Take it back/ }).click();
    await inDialog().getByLabel("Reason").fill("a fraud");
    await inDialog()
      .getByRole("button", { name: /^Take it back/ })
      .click();
    await expectToast(page, "The batch is taken back");
    await page.getByText("Nothing is held for its content").waitFor();
  });

  it("keeps who did what, and finds it by login", async () => {
    await open("/operator/audit?actor=operator");
    for (const [action, object] of [
      ["reseller: add", "north"],
      ["reseller: new key", "north"],
      ["instance: add", "shop"],
      ["user: add", "maria"],
      ["queue: hold", "held.test"],
      ["warm-up: start", "192.0.2.20"],
      ["warm-up: end", "192.0.2.20"],
    ]) {
      await page.getByRole("row").filter({ hasText: action! }).filter({ hasText: object! }).first().waitFor();
    }
    await rowOf("user: add").getByText("role: Reseller; scope: demo").waitFor();
    await page.getByRole("searchbox").fill("maria");
    await page.waitForURL("**/operator/audit?actor=maria");
    // The rows of the wider search stay until the narrower one is answered.
    await rowOf("reseller: add").first().waitFor({ state: "detached" });
    await rowOf("session: begin").waitFor();
  });

  it("did all of this without an error in the browser", () => {
    expect(visited.complaints).toEqual([]);
  });
});
