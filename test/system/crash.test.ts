import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { eventually, killStack, makeDataDir, removeDataDir, type StartedStack, startStack } from "../support/stack.ts";

// What was acknowledged survives `kill -9` of anything, at any time.
const dataDir = makeDataDir();
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

async function sandboxRecipients(): Promise<string[]> {
  const { addresses, credentials } = stack!;
  const { login, password } = credentials.operator;
  const answer = await callApi("GET", `${addresses.console}/admin/v1/sandbox/messages?limit=1000`, {
    Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`,
  });
  return answer.body.messages.map(({ to }: { to: string }) => to);
}

it("keeps records and mail when the whole stack is killed right after it acknowledged them", async () => {
  stack = await startStack(dataDir);
  const { credentials } = stack;
  await dnsApi("POST", `/master_zone/${zone}`, {
    crm_id: "demo",
    mname: `ns.${zone}`,
    rname: `root.${zone}`,
    refresh: 7200,
    retry: 900,
    expire: 1_209_600,
    minimum: 300,
    ttl: 3600,
    serial_type: "numeric",
  });
  const campaign = await mailApi("POST", "/campania/", {
    tipo: "api",
    nombre: "crash",
    remitente: "news@demo.example",
    remitente_nombre: "News",
    asunto: "Hello",
    url: "http://www.demo.example/",
    charset: "utf8",
    desusc: "no",
  });
  const contactos = Array.from({ length: 200 }, (_, n) => ({ email: `r${n}@example.net` }));
  const [record, sent] = await Promise.all([
    dnsApi("POST", `/rr/${zone}`, { name: "www", type: "A", value: "192.0.2.1" }),
    mailApi("POST", "/envio/send_many_inline/", {
      campana_id: campaign.body.numid,
      email: true,
      contactos,
      html: "<p>Hello XYZNOMBREXYZ</p>",
    }),
  ]);
  expect(record.status).toBe(200);
  expect(sent.body).toMatchObject({ status: "ok", sent: 200 });
  await killStack(stack.process);

  stack = await startStack(dataDir);
  expect(stack.credentials).toEqual(credentials);
  expect(stack.printed()).not.toContain(credentials.reseller.key);
  expect(dataOf(await askDns(stack.addresses.dns, `www.${zone}`, "A"))).toEqual(["192.0.2.1"]);
  const arrived = await eventually(sandboxRecipients, (recipients) => new Set(recipients).size === 200, 60_000);
  // What was under way when the worker died may arrive twice, within one flush window.
  expect(arrived.length).toBeLessThan(400);
  const batch = await eventually(
    async () => (await mailApi("GET", `/eeid_info/${sent.body.eeid}`)).body.envio_efectivo,
    ({ estado }) => estado === "enviado",
  );
  expect(batch.cant_particiones).toBe(batch.particiones_finalizadas);
}, 120_000);

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
    10_000,
  );
}, 120_000);

it("starts a service again that is killed", async () => {
  const before = await callApi("GET", `${stack!.addresses.metrics}/readyz`, {});
  expect(before.status).toBe(200);
  const { pid } = stack!.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  const services = children.filter((child) =>
    readFileSync(`/proc/${child}/cmdline`, "utf8").includes("service-process"),
  );
  expect(services.length).toBe(9);
  for (const service of services) process.kill(service, "SIGKILL");
  await eventually(
    () => callApi("GET", `${stack!.addresses.metrics}/readyz`, {}),
    ({ status }) => status === 503,
  );
  await eventually(
    () => callApi("GET", `${stack!.addresses.metrics}/readyz`, {}),
    ({ status }) => status === 200,
    60_000,
  );
  expect((await dnsApi("GET", "/domain_list")).body.domain_list).toHaveLength(1);
  expect(dataOf(await askDns(stack!.addresses.dns, `www.${zone}`, "A"))).toEqual(["192.0.2.1"]);
}, 120_000);

it("refuses a data folder that another stack is using", async () => {
  await expect(startStack(dataDir)).rejects.toThrow(/in use by another stack/);
  expect((await dnsApi("GET", "/domain_list")).status).toBe(200);
}, 60_000);
