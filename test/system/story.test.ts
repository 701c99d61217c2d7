import { readdirSync } from "node:fs";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { askDns, dataOf, rcodeOf } from "../support/dns-client.ts";
import { eventually, makeDataDir, removeDataDir, type StartedStack, startStack } from "../support/stack.ts";
import { isServer, startTraceCollector, type TraceCollector } from "../support/trace-collector.ts";

// The whole product as a customer meets it: one stack, started as `npm start` starts it, over real sockets.
const dataDir = makeDataDir();
let stack: StartedStack;
let collector: TraceCollector;

beforeAll(async () => {
  collector = await startTraceCollector();
  stack = await startStack(dataDir, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
});

afterAll(async () => {
  const traceId = "6bf92f3577b34da6a3ce929d0e0e4736";
  const last = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` };
  if (stack) await mailApi("GET", "/version", undefined, last);
  // Ctrl-C comes twice through npm, and is one wish to stop all the same.
  stack?.process.kill("SIGINT");
  const status = await stack?.stop();
  await collector.close();
  const locks = readdirSync(dataDir).filter((name) => name.endsWith(".lock"));
  removeDataDir(dataDir);
  expect(status).toBe(0);
  expect(locks).toEqual([]);
  // What waited for the collector was sent at the stop.
  const sent = collector.spans.filter((span) => span.traceId === traceId).map(({ name }) => name);
  expect(sent).toContain("GET /v1/version");
});

function dnsApi(method: string, path: string, body?: unknown) {
  const { reseller } = stack.credentials;
  const headers = { Authorization: reseller.key, Reseller: reseller.id };
  return callApi(method, `${stack.addresses.dns_api}/api/v1${path}`, headers, body);
}

function mailApi(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
  return callApi(
    method,
    `${stack.addresses.mail_api}/v1${path}`,
    { Authorization: stack.credentials.instance.key, ...headers },
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
      (await dnsApi("POST", "/company", { crm_id: "acme", name: "Acme", apikey: "acme key; one of 2026" })).body,
    ).toMatchObject({
      crm_id: "acme",
      apikey: "acmekeyoneof2026",
      suspended: false,
    });
    expect(rcodeOf(await askDns(stack.addresses.dns, `www.${zone}`, "A"))).toBe("REFUSED");

    const created = await dnsApi("POST", `/master_zone/${zone}`, soa);
    expect(created).toMatchObject({ status: 200, body: { domain: zone, serial: 1, suspended: false } });
    const record = await dnsApi("POST", `/rr/${zone}`, { name: "www", type: "A", value: "192.0.2.10" });
    expect(record).toMatchObject({ status: 200, body: { serial: 2 } });

    // How soon is what `npm run bench:dns` measures.
    const answer = await eventually(
      () => askDns(stack.addresses.dns, `www.${zone}`, "A"),
      (reply) => rcodeOf(reply) === "NOERROR",
    );
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
    );
    expect((await dnsApi("GET", "/domain_list")).body).toEqual({ domain_list: [] });

    expect((await dnsApi("PUT", `/resume_zone/${zone}`, { crm_id: "acme" })).status).toBe(200);
    await eventually(
      () => askDns(stack.addresses.dns, zone, "SOA"),
      (reply) => rcodeOf(reply) === "NOERROR",
    );
    expect((await dnsApi("GET", "/domain_list")).body).toEqual({
      domain_list: [{ domain: zone, crm_id: "acme", reverse: false }],
    });

    expect((await dnsApi("DELETE", `/master_zone/${zone}`)).body).toEqual({ msg: "deleted" });
    await eventually(
      () => askDns(stack.addresses.dns, zone, "SOA"),
      (reply) => rcodeOf(reply) === "REFUSED",
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
    expect((await mailApi("HEAD", `/invalidar/${email}`)).status).toBe(200);
    expect(await contact(email)).toMatchObject({ invalido: false });
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

  it("tells one story in one trace: the call, the delivery, the bounce", async () => {
    const email = "bounce+traced@example.net";
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    const caller = { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, "x-request-id": "story-1" };
    const body = { campana_id: campaign.numid, email: true, contacto: { email }, html: "<p>Hello</p>" };
    expect((await mailApi("POST", "/envio/send_one_inline/", body, caller)).body.sent).toBe(1);
    const span = (service: string, name: string) =>
      collector.find((one) => one.traceId === traceId && one.service === `palomar-${service}` && one.name === name);

    const call = await span("mail-api", "POST /v1/envio/send_one_inline");
    expect(call).toMatchObject({ parentSpanId: "00f067aa0ba902b7", failed: false });
    expect(isServer(call)).toBe(true);
    expect(call.attributes).toMatchObject({
      "http.request.method": "POST",
      "http.route": "/v1/envio/send_one_inline",
      "http.response.status_code": 200,
      "palomar.request_id": "story-1",
    });
    const deliver = await span("delivery", "deliver");
    expect(deliver).toMatchObject({ parentSpanId: call.spanId, attributes: { "palomar.outcome": "delivered" } });
    for (const step of ["compose", "smtp transaction"]) {
      expect(await span("delivery", step)).toMatchObject({ parentSpanId: deliver.spanId, failed: false });
    }
    const accepted = await span("bounce", "mx message");
    expect(accepted).toMatchObject({ parentSpanId: call.spanId, attributes: { "palomar.recipients": 1 } });
    const applied = await span("bounce", "apply bounce");
    expect(applied).toMatchObject({
      parentSpanId: call.spanId,
      attributes: { "palomar.finding": "dsn", "palomar.consequence": "bounce" },
    });
    const written = collector.spans.filter((one) => one.name === "database transaction" && one.traceId === traceId);
    expect(written.map(({ parentSpanId }) => parentSpanId)).toEqual(
      expect.arrayContaining([call.spanId, applied.spanId]),
    );
  });

  it("hands traces on from the console to the APIs, and begins them at submission, tracking and publication", async () => {
    const { login, password } = stack.credentials.operator;
    const traceId = "5bf92f3577b34da6a3ce929d0e0e4736";
    await callApi("GET", `${stack.addresses.console}/admin/v1/mail/demo/version?q=secret-query`, {
      Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`,
      traceparent: `00-${traceId}-00f067aa0ba902b7-01`,
    });
    const ofTrace = (service: string) =>
      collector.find((one) => one.traceId === traceId && one.service === `palomar-${service}` && isServer(one));
    const visit = await ofTrace("console");
    expect(visit.parentSpanId).toBe("00f067aa0ba902b7");
    expect(await ofTrace("mail-api")).toMatchObject({ name: "GET /v1/version", parentSpanId: visit.spanId });

    await callApi("GET", `${stack.addresses.tracking}/o/secret-token`, {});
    await collector.find(({ service, name }) => service === "palomar-tracking" && name === "GET /o/:token");
    const submitted = await collector.find(({ name }) => name === "submission message");
    expect(submitted).toMatchObject({ parentSpanId: "", attributes: { "palomar.recipients": 1 } });
    expect(submitted.attributes["palomar.eeid"]).toMatch(/^[0-9a-f-]{36}$/);
    const delivered = ({ name, traceId }: { name: string; traceId: string }) =>
      name === "deliver" && traceId === submitted.traceId;
    expect(await collector.find(delivered)).toMatchObject({ parentSpanId: submitted.spanId });
    await collector.find(({ service, name }) => service === "palomar-dns-server" && name === "publish zones");
  });

  it("names nobody in its traces, and no secret", () => {
    const { instance, operator, reseller } = stack.credentials;
    const told = collector.bodies.join("\n");
    expect(told.length).toBeGreaterThan(10_000);
    const secrets = [instance.key, operator.password, reseller.key, campaign.camp_apikey, "acmekeyoneof2026"];
    const people = ["bounce+", "bounce%2B", "by-smtp", "someone", "news@", "hostmaster", "192.0.2.10"];
    for (const word of [...secrets, ...people, "secret-token", "secret-query"]) expect(told).not.toContain(word);
  });

  it("turns a wrong key away", async () => {
    const answer = await callApi("GET", `${stack.addresses.mail_api}/v1/version`, { Authorization: "wrong" });
    expect(answer).toMatchObject({ status: 403, body: { status: "err", on: "apikey invalida" } });
  });
});

describe("monitoring", () => {
  it("is healthy, ready and measured", async () => {
    expect((await callApi("GET", `${stack.addresses.metrics}/healthz`, {})).status).toBe(200);
    // A database or a service that has to wait for a processor may be late for once.
    const ready = await eventually(
      () => callApi("GET", `${stack.addresses.metrics}/readyz`, {}),
      ({ body }) => body.status === "ok",
    );
    const { served } = ready.body;
    expect(ready).toMatchObject({ status: 200 });
    expect(ready.body).toEqual({ status: "ok", problems: [], served, expected: served, left_out: [] });
    await eventually(
      () => callApi("GET", `${stack.addresses.metrics}/metrics`, {}),
      ({ body }) => body.includes("palomar_observations_total"),
    );
  });
});
