import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import {
  browserNote,
  expectAccessible,
  expectNoSidewaysScroll,
  expectToast,
  hasBrowser,
  settled,
  signIn,
  tabTo,
  visit,
} from "../support/browser.ts";
import { type ConsoleVisit, visitConsole } from "../support/console-visit.ts";
import { eventually, type StartedStack } from "../support/stack.ts";

// From a list of addresses to a finished campaign, in a real browser on the running stack; the mail API and the
// sandbox say what came of it.
describe.skipIf(!hasBrowser)(`mail in the console${browserNote}`, () => {
  let visited: ConsoleVisit;
  let stack: StartedStack;
  let page: Page;

  beforeAll(async () => {
    visited = await visitConsole(["mail-api", "delivery", "bounce", "tracking"]);
    ({ stack, page } = visited);
  });

  afterAll(() => visited?.close());

  const open = (path: string) => visited.open(`/mail/demo${path}`);
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: typeof name === "string" });
  const dialog = () => visited.dialog();
  const mailApi = async (method: string, path: string) => {
    const { key } = stack.credentials.instance;
    const answer = await callApi(method, `${stack.addresses.mail_api}/v1${path}`, { Authorization: key });
    return answer.body as Record<string, unknown>;
  };

  it("imports contacts: first on trial, then for good, and reports the lines that it rejected", async () => {
    const csv = join(visited.dataDir, "contacts.csv");
    const lines = Array.from({ length: 30 }, (_, index) => `p${index}@example.org,Ana${index},${20 + index},vip,red`);
    writeFileSync(
      csv,
      ["email,nombre,edad,grupos,COLOR", ...lines, "no address,,,,", "bounce+z@example.org,Zoe,40,vip,"].join("\n"),
    );
    await open("/contacts");
    await page.getByText("No contacts yet").waitFor();
    await page.getByRole("link", { name: "Import" }).first().click();
    await page.getByLabel("Choose a CSV file").setInputFiles(csv);
    await button("Try").click();
    await page.getByText("The address is not valid").waitFor();
    expect(await mailApi("GET", "/contacto/p1@example.org")).toMatchObject({ status: "err" });
    await page.getByLabel("Try it first").uncheck();
    await button("Import").click();
    await eventually(
      () => mailApi("GET", "/contacto/bounce+z@example.org"),
      (answer) => answer.status === "ok",
    );
    await expectAccessible(page);
  });

  it("finds a contact, changes it, and shows its history", async () => {
    await open("/contacts?search=p11");
    await page.getByRole("link", { name: "p11@example.org" }).click();
    await button("Edit").click();
    await dialog().getByLabel("Age").fill("old");
    await dialog().getByRole("button", { name: "Save" }).click();
    await dialog().locator(".field.wrong").filter({ hasText: "Age" }).waitFor();
    await dialog().getByLabel("Age").fill("31");
    await dialog().getByLabel("Last name").fill("Núñez");
    await dialog().getByLabel("Join groups").fill("Clients, VIP");
    await dialog().getByLabel("Custom fields").fill("ADDRESS=12 Main St\nRosario");
    await dialog().getByRole("button", { name: "Save" }).click();
    await dialog().locator(".field.wrong").filter({ hasText: "Rosario" }).waitFor();
    await dialog().getByLabel("Custom fields").fill("ADDRESS=12 Main St, Rosario");
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByText("Ana11 Núñez").waitFor();
    await button("Invalidate").click();
    await expectToast(page, "The contact was invalidated");
    await page.getByRole("cell", { name: "invalidated" }).waitFor();
    await button("Whitelist").click();
    await expectToast(page, "The contact was put on the whitelist");
    await button("Revalidate").click();
    await expectToast(page, "its validity stays as it is");
    await button("Take off the whitelist").click();
    await expectToast(page, "The contact was taken off the whitelist");
    expect(await mailApi("GET", "/contacto/p11@example.org")).toMatchObject({
      contacto: {
        ...{ apellido: "Núñez", edad: 31, invalido: true, grupos: expect.arrayContaining(["Clients, VIP"]) },
        campos: expect.arrayContaining([{ nombre: "XYZADDRESSXYZ", valor: "12 Main St, Rosario" }]),
      },
    });
    await expectAccessible(page);
  });

  it("builds a filter by clicking, counting as it is built", async () => {
    await open("/contacts/filters/new");
    await page.getByLabel("Name").fill("Grown up");
    await page.getByLabel("Field", { exact: true }).selectOption("edad");
    await page.getByLabel("Comparison").selectOption(">=");
    await page.getByLabel("Value").fill("40");
    await page.getByRole("status").filter({ hasText: "11 contacts" }).waitFor();
    await button("Condition").click();
    await page.getByLabel("What the condition is about").nth(1).selectOption("validity");
    await page.getByLabel("Whether it holds").nth(1).selectOption("not");
    await page.getByRole("status").filter({ hasText: "0 contacts" }).waitFor();
    await page.getByLabel("Whether it holds").nth(1).selectOption("is");
    await page.getByRole("status").filter({ hasText: "11 contacts" }).waitFor();
    await expectAccessible(page);
    await button("Save").click();
    await page.getByRole("link", { name: "Grown up" }).waitFor();
    expect(await mailApi("GET", "/filtros/")).toMatchObject({ filtros: [{ nombre: "Grown up", contactos: 11 }] });
  });

  it("keeps global variables and the whitelist", async () => {
    await open("/settings");
    await button("Add variable").first().click();
    await dialog().getByLabel("Name").fill("PHONE");
    await dialog().getByLabel("Value").fill("+54 341 555 0100");
    await dialog().getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "+54 341 555 0100" }).waitFor();
    await open("/contacts/whitelist");
    await page.getByLabel("Address").fill("p3@example.org");
    await button("Look up").click();
    await page.getByText("p3@example.org is not on the whitelist").waitFor();
    await button("Put on the whitelist").click();
    await page.getByText("p3@example.org is on the whitelist").waitFor();
    await expectAccessible(page);
  });

  it("finishes a normal campaign: message, preview, test, start, progress, report", async () => {
    await open("/campaigns");
    await button("Create campaign").first().click();
    await dialog().getByRole("button", { name: "Create" }).click();
    await dialog().locator(".field.wrong").filter({ hasText: "The name is needed." }).waitFor();
    await dialog().getByLabel("Name").fill("Spring");
    await dialog().getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Spring" }).waitFor();
    await page.getByRole("checkbox", { name: /^vip/ }).check();
    await page.getByLabel("Sender address").fill("news@stranger.example");
    await page.getByLabel("Subject").fill("Hello XYZNOMBREXYZ");
    await page
      .getByLabel("HTML of the message")
      .fill(
        '<h1>Hello XYZNOMBREXYZ</h1><p>XYZCOLORXYZ, call XYZPHONEXYZ</p><img src="https://images.example.org/x.png">',
      );
    await button("Save").click();
    // Nothing is saved that could not be sent.
    await page.getByText(/may not send from this domain/).waitFor();
    await page.getByLabel("Sender address").fill(`news@${stack.credentials.instance.domain}`);
    await button("Save").click();
    await expectToast(page, "Saved");

    await page.getByLabel("As contact").fill("p3@example.org");
    await button("Show").click();
    await page.getByText("Hello Ana3").first().waitFor();
    await page.getByLabel("Width").selectOption("phone");
    const frame = page.frameLocator("iframe");
    await frame.getByRole("heading", { name: "Hello Ana3" }).waitFor();
    await frame.getByText("red, call +54 341 555 0100").waitFor();
    await expectAccessible(page);

    await page.getByLabel("Send to").fill("trial@example.org");
    await button("Send test").click();
    await expectToast(page, /trial@example.org/);

    await button("Start").click();
    await dialog().getByRole("button", { name: "Start" }).click();
    await page.getByText("sent", { exact: true }).first().waitFor();
    // 31 contacts, of whom one is invalid.
    await page.getByText("30 / 30").waitFor();
    // Images from elsewhere are kept out by the console's policy: that is all it had to complain of.
    expect(visited.complaints.filter((text) => !text.includes("images.example.org"))).toEqual([]);

    await page.getByRole("link", { name: "Show the send" }).click();
    await button("Show recipients").click();
    await page.getByRole("row").filter({ hasText: "bounce+z@example.org" }).getByText("sent").waitFor();
    await expectAccessible(page);
  });

  it("gives a message back that was being written when the session ended", async () => {
    const { login, password } = stack.credentials.operator;
    const basic = { Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}` };
    const group = { nombre: "a-long-name-of-a-group-without-any-place-for-a-line-to-end-at" };
    await callApi("POST", `${stack.addresses.console}/admin/v1/instances/demo/groups`, basic, group);
    const { page: desk, context } = await visit(visited.browser, `${stack.addresses.console}/mail/demo/campaigns`);
    await signIn(desk, stack.credentials.operator);
    await desk.getByRole("button", { name: "Create campaign" }).first().click();
    await desk.getByLabel("Name").fill("Unsaved");
    await desk.getByRole("dialog").getByRole("button", { name: "Create" }).click();
    const html = desk.getByLabel("HTML of the message");
    await html.fill("<p>written for an hour</p>");
    await desk.getByRole("checkbox", { name: /^vip/ }).check();
    await context.clearCookies();
    await desk.getByRole("button", { name: "Save", exact: true }).click();
    await signIn(desk, stack.credentials.operator);
    expect(await html.inputValue()).toBe("<p>written for an hour</p>");
    expect(await desk.getByRole("checkbox", { name: /^vip/ }).isChecked()).toBe(true);
    await expectAccessible(desk);
    await desk.setViewportSize({ width: 360, height: 740 });
    await desk.getByText(group.nombre).waitFor();
    await expectNoSidewaysScroll(desk);
    const excess = await desk.evaluate<number[]>(
      "[...document.querySelectorAll('main, .recipients fieldset')].map((part) => part.scrollWidth - part.clientWidth)",
    );
    expect(excess).toEqual([0, 0, 0]);
    await desk.getByRole("button", { name: "Discard" }).click();
    await expect.poll(() => html.inputValue()).toBe("");
    await context.close();
  });

  it("closes a dialog when the reader goes back to a page of the same kind", async () => {
    await open("/campaigns");
    await page.evaluate("history.pushState(null, '', '?search=none')");
    await button("Create campaign").first().click();
    await dialog().getByLabel("Name").fill("Of this page");
    await page.goBack();
    await dialog().waitFor({ state: "detached" });
    await button("Create campaign").first().waitFor();
  });

  it("starts and tries what the page shows: saved, and as nobody has changed it since", async () => {
    await open("/campaigns");
    await button("Create campaign").first().click();
    await dialog().getByLabel("Name").fill("Seen");
    await dialog().getByRole("button", { name: "Create" }).click();
    await page.getByRole("checkbox", { name: /^vip/ }).check();
    await page.getByLabel("Sender address").fill(`news@${stack.credentials.instance.domain}`);
    await page.getByLabel("Subject").fill("As saved");
    await page.getByLabel("HTML of the message").fill("<p>Seen</p>");
    await button("Save").click();
    await expectToast(page, "Saved");
    await page.getByLabel("Send to").fill("trial@example.org");

    await page.getByLabel("Subject").fill("Never saved");
    await page.getByText("Not saved yet").first().waitFor();
    await expect.poll(() => button("Start").isDisabled()).toBe(true);
    await expect.poll(() => button("Send test").isDisabled()).toBe(true);
    await expectAccessible(page);
    await button("Discard").click();
    await expect.poll(() => page.getByLabel("Subject").inputValue()).toBe("As saved");
    await expect.poll(() => button("Send test").isDisabled()).toBe(false);

    await button("Start").click();
    await dialog().getByText("As saved").waitFor();
    await dialog().getByText("vip 31 contacts").waitFor();
    await expectAccessible(page);
    const { login, password } = stack.credentials.operator;
    const basic = { Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}` };
    const numid = new URL(page.url()).pathname.split("/").at(-1);
    const path = `${stack.addresses.console}/admin/v1/instances/demo/campaigns/${numid}`;
    const colleagues = { asunto: "Of a colleague", html: "<p>Other</p>", grupos: ["vip"] };
    const remitente = `news@${stack.credentials.instance.domain}`;
    expect((await callApi("PUT", `${path}/message`, basic, { ...colleagues, remitente })).status).toBe(200);
    await dialog().getByRole("button", { name: "Start" }).click();
    await dialog().getByText("The campaign was changed meanwhile").waitFor();
    await dialog().getByText("Of a colleague").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByLabel("Subject").inputValue()).toBe("Of a colleague");
    expect((await callApi("GET", path, basic)).body).toMatchObject({ estado: "borrador" });

    await page.getByLabel("Subject").fill("Written meanwhile");
    const again = { ...colleagues, remitente, asunto: "Of a colleague again" };
    expect((await callApi("PUT", `${path}/message`, basic, again)).status).toBe(200);
    await button("Save").click();
    const told = page.getByText("Somebody else has saved this message meanwhile");
    await told.waitFor();
    expect(await page.getByLabel("Subject").inputValue()).toBe("Written meanwhile");
    expect((await callApi("GET", path, basic)).body).toMatchObject({ asunto: "Of a colleague again" });
    await button("Save").click();
    await told.waitFor({ state: "detached" });
    await expectToast(page, "Saved");
    expect((await callApi("GET", path, basic)).body).toMatchObject({ asunto: "Written meanwhile" });
  });

  it("shows what came of it: bounces by reason and by destination, over time", async () => {
    await eventually(
      () => mailApi("GET", "/contacto/bounce+z@example.org"),
      (answer) => JSON.stringify(answer).includes("rebote_hard"),
      60_000,
    );
    await open("/statistics?period=hour");
    await page.getByText("userunknown").waitFor();
    await page.getByText("1 hard, 0 soft").first().waitFor();
    await page.getByText("As a table").click();
    await expectAccessible(page);
  });

  it("schedules a campaign, pauses, resumes and cancels it", async () => {
    await open("/campaigns");
    await button("Create campaign").first().click();
    await dialog().getByLabel("Name").fill("Autumn");
    await dialog().getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Autumn" }).waitFor();
    await page.getByRole("checkbox", { name: /^Grown up/ }).check();
    await page.getByLabel("Sender address").fill(`news@${stack.credentials.instance.domain}`);
    await page.getByLabel("Subject").fill("Later");
    await page.getByLabel("HTML of the message").fill("<p>Later</p>");
    await button("Save").click();
    await expectToast(page, "Saved");
    await button("Start").click();
    await dialog().getByLabel("When").selectOption("later");
    await dialog().getByLabel("Starts").fill("2040-01-31T09:00");
    await dialog().getByRole("button", { name: "Schedule" }).click();
    await expectToast(page, "The campaign is scheduled");
    await page.getByText("scheduled", { exact: true }).waitFor();
    await button("Pause").click();
    await page.getByText(/^Paused: /).waitFor();
    await button("Resume").click();
    await page.getByText(/^Paused: /).waitFor({ state: "detached" });
    await page.getByText("scheduled", { exact: true }).waitFor();
    await button("Cancel campaign").click();
    await dialog().getByRole("button", { name: "Close" }).last().waitFor();
    await dialog().getByRole("button", { name: "Cancel campaign" }).click();
    await page.getByText("cancelled", { exact: true }).first().waitFor();
  });

  it("filters messages by no moment that is half written, and says so", async () => {
    await open("/messages");
    await page.getByText("More filters").click();
    await page.getByLabel("Accepted from").pressSequentially("12312030");
    await page.getByRole("textbox", { name: "Words of the subject" }).focus();
    await page.getByRole("alert").filter({ hasText: "Fill this in." }).waitFor();
    expect(new URL(page.url()).search).toBe("");
  });

  it("writes and schedules a campaign by keyboard alone", async () => {
    await open("/campaigns");
    const type = (text: string) => page.keyboard.type(text);
    const press = (key: string) => page.keyboard.press(key);
    await tabTo(page, "Create campaign");
    await press("Enter");
    await dialog().waitFor();
    await type("By keyboard");
    await press("Enter");
    await page.getByRole("checkbox", { name: /^vip/ }).waitFor();
    await tabTo(page, /^vip/);
    await press("Space");
    await tabTo(page, "Sender address");
    await type(`news@${stack.credentials.instance.domain}`);
    await tabTo(page, "Subject");
    await type("Hello");
    await tabTo(page, "HTML of the message");
    await type("<p>Hello</p>");
    await tabTo(page, "Save");
    await press("Space");
    await expectToast(page, "Saved");
    await page.getByLabel("Send to").waitFor();
    await tabTo(page, "Send to");
    await type("keys@example.org");
    await press("Enter");
    await expectToast(page, /keys@example.org/);
    await tabTo(page, "Start");
    await press("Enter");
    await dialog().waitFor();
    await tabTo(page, "When");
    await press("ArrowDown");
    await tabTo(page, "Starts");
    // A year may have more than four digits: the key says that it ends here.
    await type("01312040");
    await press("ArrowRight");
    await type("0900AM");
    await press("Enter");
    await page.getByText("scheduled", { exact: true }).waitFor();
    await tabTo(page, "Cancel campaign");
    await press("Enter");
    await dialog().waitFor();
    await tabTo(page, "Cancel campaign");
    await press("Enter");
    await page.getByText("cancelled", { exact: true }).first().waitFor();
  });

  it("gives the key of an api campaign", async () => {
    await open("/campaigns");
    await button("Create campaign").first().click();
    await dialog().getByLabel("Type").selectOption("api");
    await dialog().getByLabel("Name", { exact: true }).fill("Receipts");
    await dialog().getByRole("button", { name: "Create" }).click();
    await dialog().getByText("Fill this in.").first().waitFor();
    await dialog().getByLabel("Sender address").fill(`shop@${stack.credentials.instance.domain}`);
    await dialog().getByLabel("Sender name").fill("Shop");
    await dialog().getByLabel("Subject").fill("Your receipt");
    await dialog().getByLabel("URL of the HTML").fill("https://shop.example.org/receipt.html");
    await dialog().getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Receipts" }).waitFor();
    await button("Show key").click();
    const { campanias } = (await mailApi("GET", "/campania/?tipo=api")) as { campanias: { numid: number }[] };
    const { camp_apikey } = await mailApi("GET", `/campania_apikey?numid=${campanias[0]?.numid}`);
    await page.getByText(String(camp_apikey)).waitFor();
  });

  it("checks sender domains, and says what to create where the zone is elsewhere", async () => {
    await open(`/settings/domains?domain=${stack.credentials.instance.domain}`);
    await page.getByText("DKIM", { exact: true }).waitFor();
    await page.getByText(/v=DKIM1/).waitFor();
    await page.getByText("The zone is not hosted here").waitFor();
    await expectAccessible(page);
  });

  it("sets a webhook, shows its secret once, and its log", async () => {
    await open("/settings/webhooks");
    await button("Set webhook").first().click();
    await dialog().getByLabel("URL").fill("https://hooks.example.org/events");
    // Any, and those of the instance.
    await dialog().locator('select[name="campaign"] option').nth(1).waitFor({ state: "attached" });
    await dialog().getByRole("button", { name: "Save" }).click();
    await dialog().getByText("This is shown only once").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("https://hooks.example.org/events").waitFor();
    await page.getByText("Nothing was told yet.").waitFor();
    await expectAccessible(page);
  });

  it("sets a second webhook, for what becomes of deliveries, with reasons", async () => {
    await open("/settings/webhooks");
    await button("Set webhook").first().click();
    await dialog().getByLabel("Name", { exact: true }).fill("crm");
    await dialog().getByLabel("URL").fill("https://crm.example.org/events");
    await dialog().getByLabel("delivered", { exact: true }).check();
    await dialog().getByLabel("viewed", { exact: true }).uncheck();
    await expectAccessible(page);
    await dialog().getByRole("button", { name: "Save" }).click();
    await dialog().getByText("This is shown only once").waitFor();
    await page.keyboard.press("Escape");
    await page.getByText("Deliveries of crm").waitFor();
    await page.getByText(/^sent, clicked.*with reasons$/).waitFor();
  });

  it("lists who is not mailed and why, adds a domain and takes it off again", async () => {
    await mailApi("GET", "/invalidar/p2@example.org");
    await open("/contacts/suppressions");
    await page.getByText("p2@example.org").waitFor();
    await button("Add entry").first().click();
    await dialog().getByLabel("Address or domain").fill("trap.example.net");
    await dialog().getByLabel("Note").fill("a trap");
    await dialog().getByRole("button", { name: "Save" }).click();
    await expectToast(page, "@trap.example.net is on the list");
    await page.getByText("a trap").waitFor();
    await expectAccessible(page);
    await page.getByLabel("Why", { exact: true }).selectOption("by-hand");
    await page.getByText("p2@example.org").waitFor({ state: "detached" });
    await button(/^Take off: @trap/).click();
    await dialog().getByRole("button", { name: "Take off" }).click();
    await expectToast(page, "@trap.example.net was taken off the list");
  });

  it("fits a phone, in Spanish and in the dark", async () => {
    const visitor = await visit(visited.browser, stack.addresses.console, {
      width: 360,
      theme: "dark",
      language: "es",
    });
    await signIn(visitor.page, stack.credentials.operator);
    const lists = ["contacts/suppressions", "contacts/suppressions/import", "settings/webhooks"];
    const pages = [
      ...lists,
      "contacts",
      "contacts/filters",
      "campaigns",
      "campaigns/1",
      "sends",
      "statistics",
      "settings",
    ];
    for (const path of pages) {
      await visitor.page.goto(`${stack.addresses.console}/mail/demo/${path}`);
      await settled(visitor.page);
      await expectNoSidewaysScroll(visitor.page);
      await expectAccessible(visitor.page);
    }
    await visitor.context.close();
  });
});
