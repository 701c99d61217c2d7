import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ParsedMail, simpleParser } from "mailparser";
import { afterAll, beforeAll, expect, test } from "vitest";
import { start as startTracking } from "../../services/tracking/main.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";
import { BROWSER } from "../support/tracking.ts";

let stack: MailStack;
const dataDir = mkdtempSync(join(tmpdir(), "palomar-tracking-"));

beforeAll(async () => {
  stack = await startMailStack([startTracking, ...Object.values(MAIL_SERVICES)], {
    PALOMAR_TRACKING_LISTEN: "127.0.0.1:0",
    PALOMAR_DATA_DIR: dataDir,
    PALOMAR_MACHINE_SECONDS: "0",
  });
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
  rmSync(dataDir, { recursive: true });
});

const visit = (url: string, init: RequestInit = {}) =>
  fetch(url, { redirect: "manual", headers: { "User-Agent": BROWSER }, ...init });

async function send(campaign: number, email: string, html: string): Promise<{ eeid: string; sent: number }> {
  const answer = await stack.call("POST", "/envio/send_one_inline/", {
    campana_id: campaign,
    email: true,
    contacto: { email, nombre: "Ana & Eva" },
    html,
  });
  expect(answer.status).toBe(200);
  return answer.body;
}

const arrived = async (email: string): Promise<ParsedMail & { html: string }> => {
  const [message] = await eventually(
    () => stack.inbox(email),
    (messages) => messages.length > 0,
  );
  return (await simpleParser(message!.octets)) as ParsedMail & { html: string };
};

const eventsOf = async (email: string): Promise<string[]> =>
  (await stack.call("GET", `/contacto/${email}`)).body.contacto.eventos.map(({ evento }: { evento: string }) => evento);

test("a message is sent, opened, clicked and unsubscribed from, and the API tells so", async () => {
  const campaign = await stack.addCampaign({ desusc: "si" });
  const email = "ana@story.example.net";
  await send(
    campaign,
    email,
    `<html><body><p>Hola XYZNOMBREXYZ</p><a href="https://shop.example.org/?a=1&amp;n=XYZNOMBREXYZ#x">Shop</a>
     <a href="mailto:info@example.org">Mail</a> <!--[if mso]><a href="https://mso.example.org/">x</a><![endif]-->
     </body></html>`,
  );
  const message = await arrived(email);
  expect(message.html).toContain("Hola Ana &amp; Eva");
  expect(message.html).toContain('href="mailto:info@example.org"');
  expect(message.html).toContain('<!--[if mso]><a href="https://mso.example.org/">x</a><![endif]-->');
  expect(message.text).toContain("https://shop.example.org/?a=1&n=Ana & Eva#x");
  expect(message.text).not.toContain("/c/");

  const base = (await stack.context.addressOf("tracking")).replaceAll(".", "\\.");
  const link = new RegExp(`href="(${base}/c/[\\w-]+)">Shop`).exec(message.html)![1]!;
  const pixel = new RegExp(`<img src="(${base}/o/[\\w-]+)"`).exec(message.html)![1]!;
  const unsubscribe = new RegExp(`href="(${base}/u/[\\w-]+)"`).exec(message.html)![1]!;
  for (const url of [link, pixel, unsubscribe]) {
    expect(Buffer.from(url.split("/").at(-1)!, "base64url").toString("latin1")).not.toMatch(/ana|story/i);
  }
  const list = message.headers.get("list") as unknown as { unsubscribe: { url: string } };
  expect(list.unsubscribe.url).toBe(unsubscribe);
  const signature = String(message.headerLines.find(({ key }) => key === "dkim-signature")?.line);
  expect(signature.replaceAll(/\s/g, "").toLowerCase()).toMatch(/h=[^;]*list-unsubscribe:[^;]*list-unsubscribe-post/);

  expect((await visit(pixel)).headers.get("content-type")).toBe("image/gif");
  const click = await visit(link);
  expect(click.status).toBe(302);
  expect(click.headers.get("location")).toBe("https://shop.example.org/?a=1&n=Ana%20&%20Eva#x");
  await eventually(
    () => eventsOf(email),
    (events) => events.length === 3,
  );
  const oneClick = await visit(unsubscribe, {
    method: "POST",
    body: new URLSearchParams("List-Unsubscribe=One-Click"),
  });
  expect(oneClick.status).toBe(200);
  expect(await eventsOf(email)).toEqual(["envio", "vista", "click", "desuscripcion"]);

  const { contacto } = (await stack.call("GET", `/contacto/${email}`)).body;
  expect(contacto.campanias_desusc).toEqual([{ numid: campaign, nombre: "test" }]);
  expect(contacto).toMatchObject({ dispositivo: "escritorio", subtipo_dispositivo_id: 33, operacion: "desuscripcion" });
  expect((await send(campaign, email, "<p>again</p>")).sent).toBe(0);
});

test("what a machine does is listed and marked, and not counted", async () => {
  const campaign = await stack.addCampaign();
  const email = "eva@story.example.net";
  await send(campaign, email, '<a href="https://shop.example.org/">Shop</a>');
  const { html } = await arrived(email);
  const link = /href="([^"]+\/c\/[^"]+)"/.exec(html)![1]!;
  await visit(link, { headers: { "User-Agent": "Mozilla/5.0" } });
  await eventually(
    () => eventsOf(email),
    (events) => events.length === 2,
  );
  const always = { fechahora_desde: "2000-01-01T00:00:00", fechahora_hasta: "2100-01-01T00:00:00" };
  const { eventos } = (await stack.call("GET", "/ver_eventos", { ...always, pagina: 1, cantidad: 1_000 })).body;
  const own = eventos.filter((event: { email: string }) => event.email === email);
  expect(own).toContainEqual(expect.objectContaining({ evento: "click", maquina: true }));
});
