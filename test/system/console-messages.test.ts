import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { browserNote, expectAccessible, expectNoSidewaysScroll, hasBrowser, settled } from "../support/browser.ts";
import { type ConsoleVisit, visitConsole } from "../support/console-visit.ts";
import { eventually } from "../support/stack.ts";

// Messages are found, and one's story read, in a real browser on the running stack.
describe.skipIf(!hasBrowser)(`messages in the console${browserNote}`, () => {
  let visited: ConsoleVisit;

  beforeAll(async () => {
    visited = await visitConsole(["mail-api", "delivery", "tracking", "bounce"]);
    const { stack } = visited;
    const call = (method: string, path: string, body: unknown) =>
      callApi(method, `${stack.addresses.mail_api}/v1${path}`, { Authorization: stack.credentials.instance.key }, body);
    const { body } = await call("POST", "/campania/", {
      tipo: "api",
      nombre: "messages",
      remitente: "news@demo.example",
      remitente_nombre: "News",
      asunto: "Hello",
      url: "http://www.demo.example/",
      charset: "utf8",
      desusc: "no",
    });
    const sent = await call("POST", "/envio/send_many_inline/", {
      campana_id: body.numid,
      email: true,
      contactos: [
        "fine@example.org",
        "defer+late@example.org",
        "reject+never@example.org",
        "bounce+told@example.org",
      ].map((email) => ({ email })),
      html: "<p>Hello</p>",
    });
    expect(sent).toMatchObject({ status: 200 });
    const { login, password } = stack.credentials.operator;
    const basic = { Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}` };
    const held = await callApi("POST", `${stack.addresses.console}/admin/v1/queues/held.example.net/hold`, basic);
    expect(held.status).toBe(200);
    const kept = await call("POST", "/envio/send_many_inline/", {
      ...{ campana_id: body.numid, email: true, html: "<p>Hello</p>" },
      contactos: [{ email: "kept@held.example.net" }],
    });
    expect(kept.status).toBe(200);
  });

  afterAll(() => visited?.close());

  it("are found by what is typed, and narrowed by their state", async () => {
    const { page } = visited;
    await visited.open("/mail/demo/messages");
    await page.getByRole("link", { name: "fine@example.org" }).waitFor();
    await expectAccessible(page);
    await page.getByRole("searchbox").fill("reject+never@example.org");
    await page.getByRole("link", { name: "fine@example.org" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "reject+never@example.org" }).click();
    await page.getByText("Attempt 1: bounced").waitFor();
    await visited.open("/mail/demo/messages?q=reject%2Bnever%40example.org");
    await page.getByRole("link", { name: "reject+never@example.org" }).waitFor();
    await page.getByRole("searchbox").fill("");
    await page.getByRole("link", { name: "fine@example.org" }).waitFor();
    await page.getByLabel("State", { exact: true }).selectOption("bounced");
    await page.getByRole("link", { name: "fine@example.org" }).waitFor({ state: "detached" });
    await page.getByRole("link", { name: "reject+never@example.org" }).waitFor();
  });

  it("are taken back for good once that is confirmed", async () => {
    const { page } = visited;
    await visited.open("/mail/demo/messages?q=kept%40held.example.net");
    await page.getByRole("link", { name: "kept@held.example.net" }).click();
    const cancel = page.getByRole("button", { name: "Cancel", exact: true });
    await cancel.click();
    await visited.dialog().getByText("It is taken back for good").waitFor();
    await expectAccessible(page);
    await visited.dialog().getByRole("button", { name: "Close" }).last().click();
    await visited.dialog().waitFor({ state: "detached" });
    await expect.poll(() => cancel.count()).toBe(1);
    await cancel.click();
    await visited.dialog().getByRole("button", { name: "Cancel the message" }).click();
    await page.getByText("The message was cancelled").first().waitFor();
    await cancel.waitFor({ state: "detached" });
  });

  it("show the report that came back about them, as it was received", async () => {
    const { page, stack } = visited;
    const headers = { Authorization: stack.credentials.instance.key };
    // The page of a message that was delivered is read once.
    await eventually(
      () => callApi("GET", `${stack.addresses.mail_api}/v1/contacto/bounce+told@example.org`, headers),
      ({ body }) => JSON.stringify(body).includes("rebote_hard"),
    );
    await visited.open("/mail/demo/messages?q=bounce%2Btold%40example.org");
    await page.getByRole("link", { name: "bounce+told@example.org" }).click();
    await page.getByText("Hard bounce").first().waitFor();
    await page.reload();
    await page.getByRole("button", { name: /^Show: / }).click();
    await visited.dialog().getByText("Final-Recipient: rfc822; bounce+told@example.org").waitFor();
    await expectAccessible(page);
    await page.keyboard.press("Escape");
    await visited.dialog().waitFor({ state: "detached" });
  });

  it("tell their story from acceptance on, on a phone too", async () => {
    const { page } = visited;
    await visited.open("/mail/demo/messages?q=defer%2Blate%40example.org");
    await page.getByRole("link", { name: "defer+late@example.org" }).click();
    await eventually(
      () => page.getByText("Attempt 3: delivered").count(),
      (count) => count === 1,
    );
    expect(await page.getByText(/Attempt [12]: deferred/).count()).toBe(2);
    await settled(page);
    await expectAccessible(page);
    await page.setViewportSize({ width: 360, height: 740 });
    await expectNoSidewaysScroll(page);
    await visited.open("/mail/demo/messages");
    await page.getByRole("link", { name: "fine@example.org" }).waitFor();
    await expectNoSidewaysScroll(page);
  });
});
