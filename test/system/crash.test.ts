import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { createTestDatabase } from "../support/database.ts";
import { addCampaign, runPalomar, zoneBody } from "../support/deployment.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { eventually, killStack, makeDataDir, removeDataDir, type StartedStack, startStack } from "../support/stack.ts";

// What was acknowledged survives `kill -9` of anything, at any time.
const dataDir = makeDataDir();
/** Every click counts: none is taken for a machine's because it came soon. */
const ENVIRONMENT = { PALOMAR_MACHINE_SECONDS: "0" };
const CLIENTS = 8;
const TARGET = "https://shop.example.org/offer";
const BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
let stack: StartedStack | undefined;

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

const zone = "crash.test";

function dnsApi(method: string, path: string, body?: unknown) {
  const { addresses, credentials } = stack!;
  const headers = { Authorization: credentials.reseller.key, Reseller: credentials.reseller.id };
  return callApi(method, `${addresses.dns_api}/api/v1${path}`, headers, body);
}

function mailApi(method: string, path: string, body?: unknown) {
  const { addresses, credentials } = stack!;
  return callApi(method, `${addresses.mail_api}/v1${path}`, { Authorization: credentials.instance.key }, body);
}

async function send(numid: number, name: string, recipients: number, html: string): Promise<string> {
  const { body } = await mailApi("POST", "/envio/send_many_inline/", {
    campana_id: numid,
    email: true,
    contactos: Array.from({ length: recipients }, (_, n) => ({ email: `r${n}@${name}.example.net` })),
    html,
  });
  expect(body).toMatchObject({ status: "ok", sent: recipients });
  return body.eeid;
}

const batchOf = async (eeid: string) => (await mailApi("GET", `/eeid_info/${eeid}`)).body.envio_efectivo;

function sandbox(path: string) {
  const { login, password } = stack!.credentials.operator;
  return callApi("GET", `${stack!.addresses.console}/admin/v1/sandbox/messages${path}`, {
    Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`,
  });
}

const sandboxMessages = async (): Promise<{ id: number; to: string }[]> => (await sandbox("?limit=1000")).body.messages;

/** The link of each message, once that many have arrived. */
async function findLinks(count: number): Promise<string[]> {
  const messages = await eventually(sandboxMessages, ({ length }) => length >= count, 60_000);
  const octets = await Promise.all(messages.map(({ id }) => sandbox(`/${id}`)));
  return octets.map(({ body }) => {
    const html = String(body).replaceAll("=\r\n", "").replaceAll("=3D", "=");
    return /href="([^"]*\/c\/[^"]+)"/.exec(html)![1]!;
  });
}

/** Several readers who click, one link after the other, until nobody answers them. */
function startClicking(links: readonly string[]) {
  let answered = 0;
  let isStopped = false;
  const clickOn = async (first: number) => {
    for (let n = first; !isStopped; n += CLIENTS) {
      if ((await locationOf(links[n % links.length]!)) === TARGET) answered += 1;
    }
  };
  const clients = Array.from({ length: CLIENTS }, (_, first) => clickOn(first));
  return {
    answered: () => answered,
    stop: async () => {
      isStopped = true;
      await Promise.all(clients);
      return answered;
    },
  };
}

/** Undefined when nobody answers. */
function locationOf(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    request(url, { headers: { "User-Agent": BROWSER } }, (response) => {
      response.resume();
      response.on("error", () => resolve(undefined));
      response.on("end", () => resolve(response.headers.location));
    })
      .on("error", () => resolve(undefined))
      .end();
  });
}

async function countClicks(eeid: string): Promise<number> {
  const { contactos } = await batchOf(eeid);
  const events = contactos.flatMap(({ eventos }: { eventos: { eventos: string }[] }) => eventos);
  return events.filter(({ eventos }: { eventos: string }) => eventos === "click").length;
}

it("keeps records, mail and clicks when the whole stack is killed right after it acknowledged them", async () => {
  stack = await startStack(dataDir, ENVIRONMENT);
  const { credentials } = stack;
  await dnsApi("POST", `/master_zone/${zone}`, { ...zoneBody(zone), crm_id: "demo" });
  const numid = await addCampaign(mailApi, "news@demo.example");
  const offer = await send(numid, "clicks", 20, `<p><a href="${TARGET}">Offer</a></p>`);
  const links = await findLinks(20);

  const clicking = startClicking(links);
  await eventually(
    async () => clicking.answered(),
    (answered) => answered > 50,
  );
  const [record, sent] = await Promise.all([
    dnsApi("POST", `/rr/${zone}`, { name: "www", type: "A", value: "192.0.2.1" }),
    send(numid, "mail", 200, "<p>Hello XYZNOMBREXYZ</p>"),
  ]);
  expect(record.status).toBe(200);
  await killStack(stack.process);
  const answered = await clicking.stop();

  stack = await startStack(dataDir, ENVIRONMENT);
  expect(stack.credentials).toEqual(credentials);
  expect(stack.printed()).not.toContain(credentials.reseller.key);
  expect(dataOf(await askDns(stack.addresses.dns, `www.${zone}`, "A"))).toEqual(["192.0.2.1"]);
  const arrived = await eventually(
    async () => (await sandboxMessages()).map(({ to }) => to).filter((to) => to.endsWith("@mail.example.net")),
    (recipients) => new Set(recipients).size === 200,
    60_000,
  );
  // What was under way when the worker died may arrive twice, within one flush window.
  expect(arrived.length).toBeLessThan(400);
  const batch = await eventually(
    () => batchOf(sent),
    ({ estado }) => estado === "enviado",
  );
  expect(batch.cant_particiones).toBe(batch.particiones_finalizadas);
  const stored = await eventually(
    () => countClicks(offer),
    (count) => count >= answered,
    60_000,
  );
  // One click of each client may have been stored and never answered.
  expect(stored).toBeLessThanOrEqual(answered + CLIENTS);
}, 900_000);

it("answers on and comes back by itself when the database is killed", async () => {
  const postmaster = Number(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
  process.kill(postmaster, "SIGKILL");
  expect(rcodeOf(await askDns(stack!.addresses.dns, `www.${zone}`, "A"))).toBe("NOERROR");
  const added = await eventually(
    () => dnsApi("POST", `/rr/${zone}`, { name: "after", type: "A", value: "192.0.2.2" }),
    ({ status }) => status !== 503,
    60_000,
  );
  expect(added.status).toBe(200);
  await eventually(
    () => askDns(stack!.addresses.dns, `after.${zone}`, "A"),
    (answer) => rcodeOf(answer) === "NOERROR",
    60_000,
  );
});

it("starts a service again that is killed", async () => {
  const isReady = (status: number) =>
    eventually(
      () => callApi("GET", `${stack!.addresses.metrics}/readyz`, {}),
      (answer) => answer.status === status,
    );
  await isReady(200);
  const { pid } = stack!.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  const services = children.filter((child) =>
    readFileSync(`/proc/${child}/cmdline`, "utf8").includes("service-process"),
  );
  expect(services.length).toBe(9);
  for (const service of services) process.kill(service, "SIGKILL");
  // Whoever watches sees that it happened.
  await eventually(
    async () => (await fetch(`${stack!.addresses.metrics}/metrics`)).text(),
    (text) => text.match(/^palomar_service_restarts_total\{service="[a-z-]+"\} 1$/gm)?.length === 9,
  );
  await isReady(200);
  expect((await dnsApi("GET", "/domain_list")).body.domain_list).toHaveLength(1);
  expect(dataOf(await askDns(stack!.addresses.dns, `www.${zone}`, "A"))).toEqual(["192.0.2.1"]);
});

it("refuses a data folder that another stack is using", async () => {
  await expect(startStack(dataDir)).rejects.toThrow(/in use by another stack/);
  expect((await dnsApi("GET", "/domain_list")).status).toBe(200);
});

it("a command says in a sentence what keeps it from the database, and so does the status, in time", async () => {
  const database = await createTestDatabase();
  // Somebody who takes the connection and never says a word.
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  try {
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const turnedAway = new URL(database.url);
    turnedAway.username = "nobody";
    const cases = [
      ["postgres://a:b@127.0.0.1:1/palomar", /^the database does not answer: connect ECONNREFUSED/],
      ["postgres://a:b@nowhere.invalid/palomar", /^the database does not answer: getaddrinfo/],
      [`postgres://a:b@127.0.0.1:${port}/palomar`, /^the database does not answer/],
      [turnedAway.href, /^the database turns us away: /],
    ] as const;
    const folder = makeDataDir();
    const env = { PALOMAR_DATA_DIR: folder, PALOMAR_SECRET: "the secret of this database" };
    await Promise.all(
      cases.map(async ([url, sentence]) => {
        const environment = { ...env, DATABASE_URL: url };
        const [status, list] = await Promise.all([
          runPalomar(["status", "--json"], environment),
          runPalomar(["reseller", "list"], environment),
        ]);
        const { problems, nodes } = JSON.parse(status.stdout);
        expect(status.status).toBe(1);
        expect(problems).toEqual([expect.stringMatching(sentence), "no stack runs on this data folder"]);
        expect(nodes).toBeUndefined();
        const said = list.stderr.split("\n").filter((line) => line.startsWith("palomar: the database"));
        expect(said).toEqual([expect.stringMatching(new RegExp(sentence.source.replace("^", "^palomar: ")))]);
        expect({ status: list.status, isStack: /^ +at /m.test(list.stderr) }).toEqual({ status: 1, isStack: false });
      }),
    );
    const known = { ...env, DATABASE_URL: database.url };
    const added = await runPalomar(["reseller", "add", "acme", "--name", "Acme"], known);
    expect(added.status, added.stderr).toBe(0);
    for (const command of [["reseller", "list"], ["migrate"], ["start", "dns-api"]]) {
      const { status, stderr } = await runPalomar(command, { ...known, PALOMAR_SECRET: "quite another secret" });
      expect({ status, stderr }).toEqual({
        status: 1,
        stderr: expect.stringMatching(/^palomar: PALOMAR_SECRET is not/m),
      });
    }
    const forget = (secret: string) =>
      runPalomar(["secret", "forget", "--confirm"], { ...known, PALOMAR_SECRET: secret });
    expect(await forget(known.PALOMAR_SECRET)).toMatchObject({
      status: 1,
      stderr: "palomar: nothing is lost: PALOMAR_SECRET is the secret of this database\n",
    });
    expect(await forget("quite another secret")).toMatchObject({ status: 0 });
    const { stdout } = await runPalomar(["reseller", "list"], { ...known, PALOMAR_SECRET: "quite another secret" });
    expect(stdout).toContain("acme");
    removeDataDir(folder);
  } finally {
    silent.close();
    await database.drop();
  }
});
