import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import {
  type Accounts,
  addCampaign,
  dnsApiOf,
  mailApiOf,
  palomarJson,
  runPalomar,
  sendTo,
  zoneBody,
} from "../support/deployment.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { eventually, makeDataDir, removeDataDir, type StartedStack, startStack } from "../support/stack.ts";

// A deployment is backed up while it works, lost, and restored into an empty cluster.
const lost = makeDataDir();
const found = makeDataDir();
const file = join(found, "backup");
const env = { PALOMAR_DATA_DIR: found };
let stack: StartedStack | undefined;
let eeid: string;

const accountsOf = ({ credentials }: StartedStack): Accounts => ({
  reseller: { reseller_id: credentials.reseller.id, key: credentials.reseller.key },
  instance: { name: credentials.instance.name, key: credentials.instance.key },
});

beforeAll(async () => {
  // Nobody listens there: the queue stays full.
  stack = await startStack(lost, {
    PALOMAR_DELIVERY: "smtp://127.0.0.1:9",
    PALOMAR_RETRY_SECONDS: "1",
    PALOMAR_SENDER_DOMAIN_CHECK: "false",
  });
  const accounts = accountsOf(stack);
  const dnsApi = dnsApiOf(stack.addresses.dns_api, accounts);
  await dnsApi("POST", "/master_zone/kept.test", { ...zoneBody("kept.test"), crm_id: "demo" });
  for (const value of ["192.0.2.1", "192.0.2.2"])
    await dnsApi("POST", "/rr/kept.test", { name: "www", type: "A", value });
  await dnsApi("POST", "/rr/kept.test", { name: "txt", type: "TXT", value: '"back\\\\slash; \\"quote\\"" "é\ttab"' });
  const mailApi = mailApiOf(stack.addresses.mail_api, accounts);
  const sent = await sendTo(
    mailApi,
    await addCampaign(mailApi, "news@demo.example"),
    Array.from({ length: 30 }, (_, index) => `r${index}@example.net`),
  );
  expect(sent.body).toMatchObject({ status: "ok", sent: 30 });
  eeid = sent.body.eeid;
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(lost);
  removeDataDir(found);
});

it("is written while the stack runs, for its owner's eyes alone", async () => {
  const { rows } = await palomarJson(["backup", file], { PALOMAR_DATA_DIR: lost });
  expect(rows).toMatchObject({ zones: 1, deliveries: 30, contacts: 30 });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  // After the backup: not in it.
  const dnsApi = dnsApiOf(stack!.addresses.dns_api, accountsOf(stack!));
  await dnsApi("POST", "/rr/kept.test", { name: "late", type: "A", value: "192.0.2.3" });
  copyFileSync(join(lost, "credentials.json"), join(found, "credentials.json"));
  await stack!.stop();
  stack = undefined;
});

it("is verified without a database, by the secret", async () => {
  const verified = await palomarJson(["backup", "verify", file], { PALOMAR_DATA_DIR: lost });
  expect(verified).toMatchObject({ file, rows: { zones: 1, deliveries: 30 }, release: expect.any(String) });
  expect(await runPalomar(["backup", "verify", file], env)).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("there is no secret here"),
  });
  // None is made by asking.
  expect(existsSync(join(found, "secret"))).toBe(false);
});

it("replaces a file that is there, with its owner's rights alone, and leaves nothing beside it", async () => {
  const again = join(found, "again");
  writeFileSync(again, "of before", { mode: 0o644 });
  await palomarJson(["backup", again], { PALOMAR_DATA_DIR: lost });
  expect(statSync(again).mode & 0o777).toBe(0o600);
  expect(readdirSync(found).filter((name) => name.endsWith(".new"))).toEqual([]);
});

it("has failed where nobody reads its stream to the end", async () => {
  // The pipe is closed before: its reader takes no octet.
  const closed = ["bash", "-c", 'exec 3> >(exec true); wait $!; exec "$@" >&3 3>&-', "backup"];
  const { status, stderr } = await runPalomar(["backup", "-"], { PALOMAR_DATA_DIR: lost }, closed);
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: "palomar: standard output was closed before all of it was written\n",
  });
});

it("is not restored under another secret", async () => {
  const { status, stderr } = await runPalomar(["restore", file], { ...env, PALOMAR_SECRET: "quite another secret" });
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining("another secret") });
});

it("is not restored in part, or altered: nothing changes, and no database is even made", async () => {
  copyFileSync(join(lost, "secret"), join(found, "secret"));
  const other = join(found, "other");
  const whole = readFileSync(file);
  const altered = Buffer.from(whole);
  altered[whole.length >> 1]! ^= 1;
  for (const [octets, sentence] of [
    [whole.subarray(0, -200), "is not whole"],
    [altered, "was altered or damaged after it was written"],
    [Buffer.from("select 1;\n"), "is no backup"],
    [gzipSync("-- Palomar backup: {}\n"), "is no backup"],
  ] as const) {
    writeFileSync(other, octets);
    const { status, stderr } = await runPalomar(["restore", other], env);
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(sentence) });
    expect(stderr).toContain("nothing was restored");
    expect(await runPalomar(["backup", "verify", other], env)).toMatchObject({ status: 1 });
  }
  expect(existsSync(join(found, "postgres"))).toBe(false);
});

it("is restored into an empty cluster, once", async () => {
  // The secret has been replaced since: the one before is named beside it.
  const replaced = {
    PALOMAR_SECRET: "the secret that took its place",
    PALOMAR_SECRET_PREVIOUS: readFileSync(join(lost, "secret"), "utf8").trim(),
  };
  const { rows } = await palomarJson(["restore", file], { ...env, ...replaced });
  expect(rows).toMatchObject({ zones: 1, deliveries: 30 });
  expect(await runPalomar(["restore", file], env)).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("not empty"),
  });
});

it("and the stack starts on it: zones are answered, and what was queued is delivered, each once", async () => {
  stack = await startStack(found);
  const { dns } = stack.addresses;
  expect(dataOf(await askDns(dns, "www.kept.test", "A")).sort()).toEqual(["192.0.2.1", "192.0.2.2"]);
  expect((await askDns(dns, "late.kept.test", "A")).answers).toEqual([]);
  const { login, password } = stack.credentials.operator;
  const headers = { Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}` };
  const inbox = await eventually(
    () => callApi("GET", `${stack!.addresses.console}/admin/v1/sandbox/messages?limit=1000`, headers),
    ({ body }) => body.messages.length >= 30,
  );
  expect(new Set(inbox.body.messages.map(({ to }: { to: string }) => to)).size).toBe(30);
  expect(inbox.body.messages).toHaveLength(30);
  const mailApi = mailApiOf(stack.addresses.mail_api, accountsOf(stack));
  await eventually(
    async () => (await mailApi("GET", `/eeid_info/${eeid}`)).body.envio_efectivo?.estado,
    (state) => state === "enviado",
  );
});

it("numbers go on behind those that were given, and changes are published", async () => {
  const accounts = accountsOf(stack!);
  const dnsApi = dnsApiOf(stack!.addresses.dns_api, accounts);
  const added = await dnsApi("POST", "/rr/kept.test", { name: "new", type: "A", value: "192.0.2.4" });
  expect(added.status).toBe(200);
  await eventually(
    () => askDns(stack!.addresses.dns, "new.kept.test", "A"),
    (answer) => dataOf(answer)[0] === "192.0.2.4",
  );
});
