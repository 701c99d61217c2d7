import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { registerSuppressionCommand } from "../../services/cli/commands/suppression.ts";
import { start as startConsole } from "../../services/console/main.ts";
import { hashPassword } from "../../services/core/password.ts";
import { addUser } from "../../services/store/console/users.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { callApi } from "../support/api-client.ts";
import { runCommand } from "../support/command.ts";
import { addTestInstance } from "../support/instances.ts";
import { type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { sameInstance } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";
import { submitMessage } from "../support/submit.ts";

// Whoever put an address or a domain on a list, by whatever way: no way of sending gets around it.
const PASSWORD = "a password for tests";
const OTHER_KEY = "key-of-other";
const folder = mkdtempSync(join(tmpdir(), "palomar-lists-"));
let stack: MailStack;
let consoleUrl: string;
let submissions: string;
let numid: number;
let apikey: string;

beforeAll(async () => {
  stack = await startMailStack(undefined, { PALOMAR_CONSOLE_LISTEN: "127.0.0.1:0" });
  const { db, keyRing } = stack.context;
  await addTestInstance(db, keyRing, {
    ...{ name: "other", host: "other.test", key: OTHER_KEY, archive: false, domains: ["other.example.org"] },
  });
  const passwordHash = await hashPassword(PASSWORD);
  await addUser(db, { login: "root", role: "operator", scope: null, passwordHash });
  await addUser(db, { login: "ana", role: "instance", scope: "test", passwordHash });
  await addUser(db, { login: "eve", role: "instance", scope: "other", passwordHash });
  consoleUrl = (await stack.run(startConsole)).addresses.console!;
  submissions = (await stack.run(startSubmission)).addresses.submissions!;
  numid = await stack.addCampaign();
  apikey = (await stack.call("GET", `/campania_apikey?numid=${numid}`)).body.camp_apikey;
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
  rmSync(folder, { recursive: true });
});

const as = (login: string) => (method: string, path: string, body?: unknown, type?: string) =>
  callApi(
    method,
    `${consoleUrl}/admin/v1${path}`,
    {
      Authorization: `Basic ${Buffer.from(`${login}:${PASSWORD}`).toString("base64")}`,
      ...(type && { "Content-Type": type }),
    },
    body,
  );
const palomar = (...words: string[]) => runCommand(registerSuppressionCommand, stack.context, words);

function csvFile(name: string, text: string): string {
  const file = join(folder, `${name}.csv`);
  writeFileSync(file, text);
  return file;
}

/** Each lists the target for the instance. */
const LISTING: Readonly<Record<string, (target: string) => Promise<unknown>>> = {
  "the command": (target) => palomar("suppression", "add", "test", target),
  "the operator's command for all": (target) => palomar("suppression", "add", "@global", target),
  "the command that imports": (target) =>
    palomar("suppression", "import", "test", csvFile("import", `email\n${target.includes("@") ? "" : "@"}${target}\n`)),
  "the console's API": (target) => as("ana")("POST", "/instances/test/suppressions", { target }),
  "the operator by the console's API": (target) => as("root")("POST", "/suppressions", { target }),
  "an import by the console's API": async (target) => {
    const csv = `email\n${target.includes("@") ? "" : "@"}${target}\n`;
    const { status, body } = await as("ana")("POST", "/instances/test/suppressions/import", csv, "text/csv");
    expect(status, JSON.stringify(body)).toBeLessThan(300);
    await eventually(
      () => as("ana")("GET", `/jobs/${body.job}`),
      (job) => job.body.state === "done",
    );
  },
};

const EMAIL = { email: true, html: "<p>Hi</p>" };

/** Each tries to send to an address. */
const SENDING: Readonly<Record<string, (email: string) => Promise<unknown>>> = {
  "one message of the API": (email) =>
    stack.call("POST", "/envio/send_one_inline/", { campana_id: numid, ...EMAIL, contacto: { email } }),
  "many messages of the API": (email) =>
    stack.call("POST", "/envio/send_many_inline/", { campana_id: numid, ...EMAIL, contactos: [{ email }] }),
  "a copy of the API's": (email) =>
    stack.call("POST", "/envio/send_one_inline/", {
      ...{ campana_id: numid, ...EMAIL, contacto: { email: "else@free.example.net" }, copia: [{ cc_email: email }] },
    }),
  submission: async (email) => {
    const login = { user: `test-${numid}`, key: apikey };
    expect(await submitMessage(submissions, login, { from: `info@${TEST_DOMAIN}`, recipients: [email] })).toMatch(
      /^250/,
    );
  },
  "a campaign to a group": async (email) => {
    const group = `g${email.replace(/\W/g, "-")}`;
    await stack.call("POST", "/contacto/", { email, grupos: [group] });
    await stack.call("POST", "/contacto/", { email: `free-${email.split("@")[0]}@free.example.net`, grupos: [group] });
    const campaign = (await stack.call("POST", "/campania/", { tipo: "normal", nombre: group })).body.numid;
    const path = `/instances/test/campaigns/${campaign}`;
    const message = { remitente: `news@${TEST_DOMAIN}`, remitente_nombre: "N", asunto: "Hi", html: "<p>Hi</p>" };
    expect((await as("ana")("PUT", `${path}/message`, { ...message, grupos: [group] })).status).toBe(200);
    await as("ana")("POST", `${path}/start`, {});
    await eventually(
      () => as("ana")("GET", path),
      ({ body }) => body.estado === "enviado",
    );
  },
};

const deliveriesTo = (recipient: string) => stack.context.db("deliveries").where({ recipient });
const refusalsOf = async (email: string) => {
  const { db } = stack.context;
  const rows = await db("events")
    .leftJoin("contacts", sameInstance("contacts.id", "events.contact_id"))
    .where({ kind: 9 })
    .whereRaw("coalesce(contacts.email, events.email) = ?", [email])
    .select("detail");
  return rows.map(({ detail }) => detail?.reason);
};

let turn = 0;
const ways = Object.keys(LISTING).flatMap((listing) => ["address", "domain"].map((what) => [listing, what] as const));

test.each(ways)("listed by %s, an %s gets nothing by any way", async (listing, what) => {
  const domain = `listed${turn++}.example.net`;
  for (const [index, [sending, send]] of Object.entries(SENDING).entries()) {
    const email = `r${index}@${domain}`;
    if (what === "address" || index === 0) await LISTING[listing]!(what === "address" ? email : domain);
    await send(email);
    expect(await deliveriesTo(email), `${sending} to ${email}`).toEqual([]);
    expect(await refusalsOf(email), `${sending} to ${email}`).toEqual(["suppressed"]);
  }
});

test("another tenant with a key and an account that are good neither sees, adds nor takes off anything", async () => {
  const target = "mine@tenant.example.net";
  expect((await as("ana")("POST", "/instances/test/suppressions", { target })).body).toMatchObject({ added: true });
  const eve = as("eve");
  const hers = { target: "hers@tenant.example.net" };
  const tries = [
    eve("GET", "/instances/test/suppressions"),
    eve("GET", "/instances/test/suppressions/export"),
    eve("POST", "/instances/test/suppressions", hers),
    eve("POST", "/instances/test/suppressions/import", "email\nhers@tenant.example.net\n", "text/csv"),
    eve("DELETE", `/instances/test/suppressions/${encodeURIComponent(target)}`),
    eve("GET", "/suppressions"),
    eve("POST", "/suppressions", hers),
    eve("DELETE", `/suppressions/${encodeURIComponent(target)}`),
  ];
  for (const { status, body } of await Promise.all(tries)) {
    expect([403, 404], JSON.stringify(body)).toContain(status);
    expect(JSON.stringify(body)).not.toContain("mine@");
  }
  expect((await eve("GET", "/instances/other/suppressions")).body.suppressions).toEqual([]);
  await eve("POST", "/instances/other/suppressions", hers);
  expect((await palomar("suppression", "list", "test", "--search", "tenant")).json).toMatchObject([[{ target }]]);

  // Her key: what the other lists is mailed by her, and what she lists is mailed by the other.
  const call = (method: string, path: string, body?: unknown) =>
    stack.call(method, path, body, { Authorization: OTHER_KEY, Host: "other.test" });
  const made = await call("POST", "/campania/", {
    ...{ tipo: "api", nombre: "n", remitente: "n@other.example.org", remitente_nombre: "N", asunto: "Hi" },
    ...{ url: "http://example.org/", charset: "utf8", desusc: "no" },
  });
  const send = (email: string) => ({ campana_id: made.body.numid, ...EMAIL, contacto: { email } });
  expect((await call("POST", "/envio/send_one_inline/", send(target))).body).toMatchObject({ sent: 1 });
  expect((await call("POST", "/envio/send_one_inline/", send(hers.target))).body).toMatchObject({ sent: 0 });
  // Neither her whitelist nor her revalidation opens the other's list.
  await call("PUT", `/whitelist/${target}`);
  await call("GET", `/revalidar/${target}`);
  const own = { campana_id: numid, ...EMAIL, contacto: { email: target } };
  expect((await stack.call("POST", "/envio/send_one_inline/", own)).body).toMatchObject({ sent: 0 });
  expect(
    (await stack.call("POST", "/envio/send_one_inline/", { ...own, contacto: { email: hers.target } })).body,
  ).toMatchObject({
    sent: 1,
  });
});
