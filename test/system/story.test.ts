import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { eventually, makeDataDir, removeDataDir, type StartedStack, startStack } from "../support/stack.ts";

// The whole product as a customer meets it: one stack, started as `npm start` starts it, over real sockets.
const dataDir = makeDataDir();
let stack: StartedStack;

beforeAll(async () => {
  stack = await startStack(dataDir);
});

afterAll(async () => {
  const status = await stack?.stop();
  removeDataDir(dataDir);
  expect(status).toBe(0);
});

function dnsApi(method: string, path: string, body?: unknown) {
  const { reseller } = stack.credentials;
  const headers = { Authorization: reseller.key, Reseller: reseller.id };
  return callApi(method, `${stack.addresses.dns_api}/api/v1${path}`, headers, body);
}

function mailApi(method: string, path: string, body?: unknown) {
  return callApi(
    method,
    `${stack.addresses.mail_api}/v1${path}`,
    { Authorization: stack.credentials.instance.key },
    body,
  );
}

describe("the DNS path", () => {
  const zone = "example.org";
  const soa = {
    crm_id: "acme",
    mname: `ns1.${zone}`,
    rname: `hostmaster.${zone}`,
    refresh: 7200,
    retry: 900,
    expire: 1_209_600,
    minimum: 300,
    ttl: 3600,
    serial_type: "numeric",
  };

  it("serves a zone from its creation to its deletion", async () => {
    expect(
      (await dnsApi("POST", "/company", { crm_id: "acme", name: "Acme", apikey: "acme key; one" })).body,
    ).toMatchObject({
      crm_id: "acme",
      apikey: "acmekeyone",
      suspended: false,
    });
    expect(rcodeOf(await askDns(stack.addresses.dns, `www.${zone}`, "A"))).toBe("REFUSED");

    const created = await dnsApi("POST", `/master_zone/${zone}`, soa);
    expect(created).toMatchObject({ status: 200, body: { domain: zone, serial: 1, suspended: false } });
    const record = await dnsApi("POST", `/rr/${zone}`, { name: "www", type: "A", value: "192.0.2.10" });
    expect(record).toMatchObject({ status: 200, body: { serial: 2 } });

    const startedAt = Date.now();
    const answer = await eventually(
      () => askDns(stack.addresses.dns, `www.${zone}`, "A"),
      (reply) => rcodeOf(reply) === "NOERROR",
      1_000,
    );
    expect(Date.now() - startedAt).toBeLessThan(1_000);
    expect(dataOf(answer)).toEqual(["192.0.2.10"]);
    expect(answer.flag_aa).toBe(true);
    expect(dataOf(await askDns(stack.addresses.dns, `www.${zone}`, "A", "tcp"))).toEqual(["192.0.2.10"]);
    expect(dataOf(await askDns(stack.addresses.dns, zone, "NS", "tcp"))).toEqual([`ns1.${zone}`]);
    expect(rcodeOf(await askDns(stack.addresses.dns, `nowhere.${zone}`, "A"))).toBe("NXDOMAIN");

    expect((await dnsApi("PUT", `/suspend_zone/${zone}`, { crm_id: "acme" })).body).toEqual({
      domain: zone,
      suspended: true,
    });
    await eventually(
      () => askDns(stack.addresses.dns, zone, "SOA"),
      (reply) => rcodeOf(reply) === "REFUSED",
      2_000,
    );
    expect((await dnsApi("GET", "/domain_list")).body).toEqual({ domain_list: [] });

    expect((await dnsApi("PUT", `/resume_zone/${zone}`, { crm_id: "acme" })).status).toBe(200);
    await eventually(
      () => askDns(stack.addresses.dns, zone, "SOA"),
      (reply) => rcodeOf(reply) === "NOERROR",
      2_000,
    );
    expect((await dnsApi("GET", "/domain_list")).body).toEqual({
      domain_list: [{ domain: zone, crm_id: "acme", reverse: false }],
    });

    expect((await dnsApi("DELETE", `/master_zone/${zone}`)).body).toEqual({ msg: "deleted" });
    await eventually(
      () => askDns(stack.addresses.dns, zone, "SOA"),
      (reply) => rcodeOf(reply) === "REFUSED",
      2_000,
    );
    expect(await dnsApi("GET", `/soa/${zone}`)).toMatchObject({ status: 400, body: { msg: `${zone} does not exist` } });
  });

  it("turns a wrong key away without saying more", async () => {
    const answer = await callApi("GET", `${stack.addresses.dns_api}/api/v1/domain_list`, {
      Authorization: "wrong",
      Reseller: "demo",
    });
    expect(answer.status).toBe(403);
    expect(Object.keys(answer.body)).toEqual(["msg"]);
  });
});

describe("the mail path", () => {
  let campaign: { numid: number; camp_apikey: string };

  beforeAll(async () => {
    const created = await mailApi("POST", "/campania/", {
      tipo: "api",
      nombre: "story",
      remitente: "news@demo.example",
      remitente_nombre: "News",
      asunto: "Hello",
      url: "http://www.demo.example/",
      charset: "utf8",
      desusc: "no",
    });
    expect(created.status).toBe(200);
    campaign = created.body;
  });

  const sendTo = (email: string) =>
    mailApi("POST", "/envio/send_one_inline/", {
      campana_id: campaign.numid,
      email: true,
      contacto: { email },
      html: "<p>Hello</p>",
    });

  const contact = async (email: string) =>
    (await mailApi("GET", `/contacto/${encodeURIComponent(email)}`)).body.contacto;
  const eventNames = (of: { eventos: { evento: string }[] }) => of.eventos.map(({ evento }) => evento);

  it("makes a contact invalid after two hard bounces, and leaves it out of the next send", async () => {
    const email = "bounce+1@example.net";
    for (const bounces of [1, 2]) {
      expect((await sendTo(email)).body).toMatchObject({ status: "ok", sent: 1 });
      await eventually(
        () => contact(email),
        (it) => eventNames(it).filter((name) => name === "rebote_hard").length === bounces,
      );
    }
    expect(await contact(email)).toMatchObject({ invalido: true });
    const third = await sendTo(email);
    expect(third).toMatchObject({ status: 200, body: { status: "ok", sent: 0 } });
    expect(eventNames(await contact(email))).toEqual(
      expect.arrayContaining(["envio", "rebote_hard", "invalidacion", "unknown"]),
    );
    const batch = (await mailApi("GET", `/eeid_info/${third.body.eeid}`)).body.envio_efectivo;
    expect(batch.contactos[0].eventos[0].eventos).toBe("unknown");
  });

  it("keeps a whitelisted contact valid whatever bounces", async () => {
    const email = "bounce+2@example.net";
    expect((await mailApi("POST", `/whitelist/${email}`)).body).toEqual({
      status: "ok",
      msg: `${email} added to whitelist`,
    });
    for (const bounces of [1, 2]) {
      expect((await sendTo(email)).body.sent).toBe(1);
      await eventually(
        () => contact(email),
        (it) => eventNames(it).filter((name) => name === "rebote_hard").length === bounces,
      );
    }
    expect(await contact(email)).toMatchObject({ invalido: false });
    expect((await mailApi("GET", `/invalidar/${email}`)).body).toEqual({ status: "ok", msg: "whitelisted" });
    expect((await sendTo(email)).body.sent).toBe(1);
  });

  it("invalidates and revalidates on request", async () => {
    const email = "someone@example.net";
    expect((await sendTo(email)).body.sent).toBe(1);
    expect((await mailApi("GET", `/invalidar/${email}`)).body).toEqual({ status: "ok", msg: `${email} invalidado` });
    expect(await contact(email)).toMatchObject({ invalido: true });
    expect((await sendTo(email)).body.sent).toBe(0);
    expect((await mailApi("GET", `/revalidar/${email}`)).body).toEqual({ status: "ok", msg: `${email} revalidado` });
    expect((await sendTo(email)).body.sent).toBe(1);
  });

  it("takes a message by SMTP and shows it as a batch", async () => {
    const [host, port] = stack.addresses.submission.split(":") as [string, string];
    const transport = createTransport({
      host,
      port: Number(port),
      requireTLS: true,
      tls: { rejectUnauthorized: false },
      auth: { user: `demo-${campaign.numid}`, pass: campaign.camp_apikey },
    });
    const info = await transport.sendMail({
      from: "News <news@demo.example>",
      to: "by-smtp@example.net",
      subject: "By SMTP",
      text: "Hello",
    });
    transport.close();
    const eeid = /^250 2\.6\.0 (\S+) queued/.exec(info.response)?.[1];
    expect(eeid).toBeDefined();
    const batch = await eventually(
      async () => (await mailApi("GET", `/eeid_info/${eeid}`)).body.envio_efectivo,
      ({ estado }) => estado === "enviado",
    );
    expect(batch.contactos).toMatchObject([{ email: "by-smtp@example.net", eventos: [{ eventos: "envio" }] }]);

    const { login, password } = stack.credentials.operator;
    const basic = `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`;
    const inbox = await callApi("GET", `${stack.addresses.console}/admin/v1/sandbox/messages`, {
      Authorization: basic,
    });
    const arrived = inbox.body.messages.find(({ to }: { to: string }) => to === "by-smtp@example.net");
    expect(arrived).toMatchObject({ subject: "By SMTP" });
    const raw = await callApi("GET", `${stack.addresses.console}/admin/v1/sandbox/messages/${arrived.id}`, {
      Authorization: basic,
    });
    expect(raw.body).toMatch(/^DKIM-Signature: /m);
  });

  it("turns a wrong key away", async () => {
    const answer = await callApi("GET", `${stack.addresses.mail_api}/v1/version`, { Authorization: "wrong" });
    expect(answer).toMatchObject({ status: 403, body: { status: "err", on: "apikey invalida" } });
  });
});

describe("monitoring", () => {
  it("is healthy, ready and measured", async () => {
    expect((await callApi("GET", `${stack.addresses.metrics}/healthz`, {})).status).toBe(200);
    expect((await callApi("GET", `${stack.addresses.metrics}/readyz`, {})).body).toEqual({
      status: "ok",
      problems: [],
    });
    expect((await callApi("GET", `${stack.addresses.metrics}/metrics`, {})).body).toContain(
      "palomar_observations_total",
    );
  });
});
