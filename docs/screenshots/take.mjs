// Takes the pictures of the README anew: `node docs/screenshots/take.mjs`. It starts the product on free ports and a
// data folder of its own, fills it with what a small hosting company has, and visits the pages in Debian's Chromium.
import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

/** Questions that a name server is asked. */
const QUESTIONS = ["example.org", "www.example.org", "mail.example.org", "www.shop.example.org", "nowhere.example.org"];

const MESSAGE =
  '<html><body style="font-family:sans-serif;color:#234"><h1 style="color:#1c6b3c">Hello XYZNOMBREXYZ</h1>' +
  '<p>Tulips in XYZCOLORXYZ, while they last.</p><p><a href="https://shop.example.org/tulips">To the shop</a></p></body></html>';

const folder = dirname(fileURLToPath(import.meta.url));
const root = join(folder, "../..");
const dataDir = mkdtempSync(join(tmpdir(), "palomar-screenshots-"));
const listeners = ["MAIL_API", "DNS_API", "CONSOLE", "TRACKING", "DNS", "SUBMISSION", "SUBMISSIONS", "MX", "METRICS"];
const palomar = spawn(process.execPath, [join(root, "bin/palomar.mjs"), "start"], {
  env: {
    ...process.env,
    ...Object.fromEntries(listeners.map((name) => [`PALOMAR_${name}_LISTEN`, "127.0.0.1:0"])),
    PALOMAR_DATA_DIR: dataDir,
  },
  stdio: ["ignore", "ignore", "inherit"],
});

try {
  const { addresses, credentials } = await whenReady();
  const call = caller(addresses, credentials);
  await addZones(call);
  await addMail(call);
  const askAgain = setInterval(() => ask(addresses.dns), 20);
  try {
    await takeAll(addresses, credentials, call);
  } finally {
    clearInterval(askAgain);
  }
} finally {
  palomar.kill("SIGINT");
  await new Promise((resolve) => palomar.once("exit", resolve));
  rmSync(dataDir, { recursive: true, force: true });
}

/** What the running product says of itself. */
async function whenReady() {
  const read = (name) => JSON.parse(readFileSync(join(dataDir, name), "utf8"));
  while (!existsSync(join(dataDir, "addresses.json")) || !existsSync(join(dataDir, "credentials.json"))) {
    if (palomar.exitCode !== null) throw new Error("the product did not start");
    await sleep(200);
  }
  return { addresses: read("addresses.json"), credentials: read("credentials.json") };
}

/** Calls the console's HTTP as the operator; a refusal is an error. */
function caller({ console: address }, { operator }) {
  const basic = Buffer.from(`${operator.login}:${operator.password}`).toString("base64");
  return async (method, path, body) => {
    const isText = typeof body === "string";
    const answer = await fetch(`${address}/admin/v1${path}`, {
      method,
      headers: {
        Authorization: `Basic ${basic}`,
        ...(body === undefined ? {} : { "Content-Type": isText ? "text/plain" : "application/json" }),
      },
      ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text;
  };
}

async function addZones(call) {
  for (const [id, name] of [
    ["garden", "Garden shop"],
    ["bakery", "Corner bakery"],
  ]) {
    await call("POST", "/dns/demo/company", { crm_id: id, name, apikey: `${id}-key-for-the-pictures` });
  }
  const times = { refresh: 7200, retry: 900, expire: 1_209_600, minimum: 300, ttl: 3600, serial_type: "numeric" };
  const names = { mname: "ns1.example.net", rname: "hostmaster.example.net" };
  const zones = ["example.org", "shop.example.org", "bread.example.net", "garden.example", "2.0.192.in-addr.arpa"];
  for (const [index, zone] of zones.entries()) {
    const crm_id = index === 2 ? "bakery" : "garden";
    await call("POST", `/dns/demo/master_zone/${zone}`, { crm_id, ...names, ...times });
  }
  await call("POST", "/dns/demo/rr/example.org/batch", {
    create: [
      { name: "@", type: "A", value: "192.0.2.10" },
      { name: "@", type: "AAAA", value: "2001:db8::10" },
      { name: "@", type: "MX", value: "mail", rr_prio: "10" },
      { name: "@", type: "TXT", value: "v=spf1 mx -all" },
      { name: "@", type: "CAA", value: '0 issue "ca.example.net"' },
      { name: "mail", type: "A", value: "192.0.2.25" },
      { name: "www", type: "CNAME", value: "@" },
      { name: "_imaps._tcp", type: "SRV", value: "5 993 mail", rr_prio: "1" },
    ],
  });
  await call("POST", "/dns/demo/rr/shop.example.org", { name: "www", type: "A", value: "192.0.2.20" });
  await call("PUT", "/dns/demo/dnssec/shop.example.org", { enabled: true });
}

async function addMail(call) {
  const people = ["Ana", "Luis", "Marta", "Pedro", "Rosa", "Juan", "Elena", "Diego"];
  const lines = Array.from({ length: 180 }, (_, index) => {
    const name = people[index % people.length];
    return `${name.toLowerCase()}${index}@example.org,${name},${20 + (index % 50)},vip,red`;
  });
  const bounces = Array.from({ length: 7 }, (_, index) => `bounce+${index}@example.org,Zoe,40,vip,blue`);
  const csv = ["email,nombre,edad,grupos,COLOR", ...lines, ...bounces, ""].join("\n");
  const { job } = await call("POST", "/instances/demo/contacts/import?dry_run=false", csv);
  while ((await call("GET", `/jobs/${job}`)).state === "running") await sleep(200);
  await call("POST", "/instances/demo/filters", {
    nombre: "Over forty",
    condiciones: { campo: "edad", es: ">=", valor: 40 },
  });
}

/** A campaign whose message is written. */
async function writeCampaign(call, nombre) {
  const { numid } = await call("POST", "/mail/demo/campania/", {
    ...{ tipo: "normal", nombre, remitente: "news@demo.example", remitente_nombre: "Garden shop" },
    ...{ asunto: "XYZNOMBREXYZ, spring is here", url: "https://shop.example.org/", charset: "utf8", desusc: "si" },
  });
  await call("PUT", `/instances/demo/campaigns/${numid}/message`, {
    ...{ remitente: "news@demo.example", remitente_nombre: "Garden shop", asunto: "XYZNOMBREXYZ, spring is here" },
    ...{ html: MESSAGE, grupos: ["vip"], filtros: [] },
  });
  return numid;
}

function ask(server) {
  const [host, port] = [server.slice(0, server.lastIndexOf(":")), Number(server.split(":").at(-1))];
  const name = QUESTIONS[Math.floor(Math.random() ** 2 * QUESTIONS.length)];
  const labels = name.split(".").flatMap((label) => [label.length, ...Buffer.from(label)]);
  const question = Buffer.from([0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...labels, 0, 0, 1, 0, 1]);
  const socket = createSocket("udp4");
  socket.once("message", () => socket.close());
  socket.once("error", () => socket.close());
  socket.send(question, port, host);
}

async function takeAll({ console: address }, { operator }, call) {
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args });
  const arrive = async (look) => {
    const page = await browser.newPage({ locale: "en", reducedMotion: "reduce", ...look });
    page.setDefaultTimeout(120_000);
    await page.goto(address);
    await page.fill("input[name=login]", operator.login);
    await page.fill("input[name=password]", operator.password);
    await page.click("button[type=submit]");
    await page.locator(".shell").waitFor();
    return page;
  };
  const open = async (page, path) => {
    await page.goto(address + path);
    await page.locator("main h1").first().waitFor();
    await page.locator(".skeleton").first().waitFor({ state: "detached" });
    await page.waitForLoadState("networkidle");
  };
  const take = (page, name) => page.screenshot({ path: join(folder, `${name}.png`) });

  const wide = await arrive({ viewport: { width: 1280, height: 800 } });
  await open(wide, "/dns/demo/zones/example.org/records");
  await take(wide, "records");
  await wide.getByRole("button", { name: "Delete: @ TXT" }).click();
  await wide.getByRole("button", { name: "Edit: mail A" }).click();
  await wide.getByRole("dialog").getByLabel("Address").fill("192.0.2.26");
  await wide.getByRole("button", { name: "Keep as pending change" }).click();
  await wide.getByText("2 pending changes").waitFor();
  await wide.getByRole("button", { name: "Review and apply" }).click();
  await wide.getByText("1 added, 2 deleted").waitFor();
  await take(wide, "difference");
  await wide.keyboard.press("Escape");
  await wide.getByRole("button", { name: "Discard all" }).click();
  await open(wide, "/dns/demo/zones/shop.example.org/dnssec");
  await wide.getByText("IN DS").first().waitFor();
  await take(wide, "dnssec");

  const sent = await writeCampaign(call, "Autumn bulbs");
  await call("POST", `/instances/demo/campaigns/${sent}/start`, {});
  const draft = await writeCampaign(call, "Spring sale");
  const tall = await arrive({ viewport: { width: 1280, height: 900 } });
  await open(tall, `/mail/demo/campaigns/${draft}`);
  await take(tall, "campaign");
  while ((await call("GET", `/instances/demo/campaigns/${sent}`)).estado !== "enviado") await sleep(1_000);
  await open(tall, "/mail/demo/statistics?period=hour");
  await take(tall, "statistics");

  const phone = await arrive({ viewport: { width: 390, height: 780 } });
  await open(phone, "/dns/demo/zones");
  await take(phone, "zones-phone");

  // The DNS servers report what they were asked every few seconds; a line needs a few minutes of it.
  while ((await call("GET", "/dns_statistics")).series.length < 4) await sleep(5_000);
  await open(wide, "/");
  await take(wide, "overview");
  const dark = await arrive({ viewport: { width: 1280, height: 800 }, colorScheme: "dark" });
  await open(dark, "/operator/dns");
  await take(dark, "dns-statistics-dark");
  await browser.close();
}
