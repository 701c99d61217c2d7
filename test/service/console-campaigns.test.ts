import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startConsole } from "../../services/console/main.ts";
import { hashPassword } from "../../services/core/password.ts";
import { sentence } from "../../services/core/sentences.ts";
import { addUser } from "../../services/store/console/users.ts";
import { listCampaignSends } from "../../services/store/mail/campaigns/campaign-sends.ts";
import { callApi } from "../support/api-client.ts";
import { addTestInstance } from "../support/instances.ts";
import { type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let base: string;

const PASSWORD = "a password for tests";

beforeAll(async () => {
  stack = await startMailStack(undefined, {
    PALOMAR_CONSOLE_LISTEN: "127.0.0.1:0",
    PALOMAR_FETCH_ALLOW: "127.0.0.0/8",
  });
  const { db, keyRing } = stack.context;
  await addTestInstance(db, keyRing, {
    name: "other",
    host: "other.test",
    key: "key-of-other",
    archive: false,
    domains: [],
  });
  const passwordHash = await hashPassword(PASSWORD);
  await addUser(db, { login: "root", role: "operator", scope: null, passwordHash });
  await addUser(db, { login: "ana", role: "instance", scope: "test", passwordHash });
  await addUser(db, { login: "eve", role: "instance", scope: "other", passwordHash });
  await addUser(db, { login: "res", role: "reseller", scope: "acme", passwordHash });
  const { addresses } = await stack.run(startConsole);
  base = `${addresses.console}/admin/v1`;
});
afterAll(() => stack.stop());

function as(login: string) {
  const headers = { Authorization: `Basic ${Buffer.from(`${login}:${PASSWORD}`).toString("base64")}` };
  return (method: string, path: string, body?: unknown) => callApi(method, base + path, headers, body);
}
const ana = (method: string, path: string, body?: unknown) => as("ana")(method, `/instances/test${path}`, body);

async function addNormal(nombre: string): Promise<number> {
  const answer = await stack.call("POST", "/campania/", { tipo: "normal", nombre });
  return answer.body.numid;
}

async function addContacts(group: string, emails: readonly string[], more: object = {}): Promise<void> {
  for (const email of emails) {
    const answer = await stack.call("POST", "/contacto/", { email, grupos: [group], ...more });
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  }
}

const MESSAGE = {
  remitente: `news@${TEST_DOMAIN}`,
  remitente_nombre: "News",
  asunto: "Hola XYZNOMBREXYZ",
  html: "<p>Dear XYZNOMBREXYZ &amp; co</p>",
};
const until = (numid: number, estado: string) =>
  eventually(
    () => ana("GET", `/campaigns/${numid}`),
    ({ body }) => body.estado === estado,
  );

describe("a campaign of type normal", () => {
  test("has the sender, subject and URL of its message in the mail API too, which sends by them", async () => {
    const numid = await addNormal("completed");
    const { html: _, ...message } = MESSAGE;
    await ana("PUT", `/campaigns/${numid}/message`, { ...message, url: "https://news.example.org/", grupos: [] });
    const read = async () => (await stack.call("GET", "/campania/", { numid })).body.campanias[0];
    expect(await read()).toMatchObject({ ...message, url: "https://news.example.org/" });
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, asunto: "Otro", grupos: [] });
    expect(await read()).toMatchObject({ asunto: "Otro", url: "https://news.example.org/" });
    const contacto = { email: "completed@example.net" };
    const sent = await stack.call("POST", "/envio/send_one_inline/", {
      campana_id: numid,
      email: true,
      contacto,
      html: "x",
    });
    expect(sent).toMatchObject({ status: 200, body: { sent: 1 } });
  });

  test("is not shown with values that would make it larger than any message", async () => {
    const numid = await addNormal("long");
    await addContacts("long", ["long@example.net"], { campos: [{ nombre: "BIG", valor: "<".repeat(50_000) }] });
    const html = "XYZBIGXYZ".repeat(1_000);
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, html, grupos: ["long"] });
    const shown = await ana("POST", `/campaigns/${numid}/preview`, { email: "long@example.net" });
    expect(shown).toMatchObject({ status: 400, body: { code: "values-too-long" } });
    expect((await ana("POST", `/campaigns/${numid}/preview`, {})).status).toBe(200);
  });

  test("that is large keeps nobody waiting while it is looked at, and is looked at a few times at once", async () => {
    const numid = await addNormal("large");
    const html = "<i>w</i>".repeat(600_000);
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, html, grupos: [] });
    // Basic credentials are a tenth of a second's work on another thread, each time.
    const session = await callApi("POST", `${base}/session`, {}, { login: "ana", password: PASSWORD });
    const headers = { Cookie: String(session.headers["set-cookie"]).split(";")[0]!, "X-CSRF-Token": session.body.csrf };
    const preview = () => callApi("POST", `${base}/instances/test/campaigns/${numid}/preview`, headers, {});
    let answered = 0;
    const previews = Promise.all(Array.from({ length: 9 }, () => preview().finally(() => (answered += 1))));
    let asked = 0;
    for (; answered < 9; asked++) await callApi("GET", `${base}/session`, headers);
    // Who waited for each of them would be answered about as often as they are.
    expect(asked).toBeGreaterThan(2 * 9);
    expect(new Set((await previews).map(({ status }) => status))).toEqual(new Set([200]));
    const answers = await Promise.all(Array.from({ length: 30 }, preview));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const { body } = await ana("POST", `/campaigns/${numid}/preview`, {});
    expect(body.html.length).toBeGreaterThan(html.length);
    expect(body).toMatchObject({ text_cut: true });
    expect(body.text).toHaveLength(100_000);
  });

  test("whose page is somewhere else is fetched for one preview of an instance at a time", async () => {
    const numid = await addNormal("elsewhere");
    let most = 0;
    let open = 0;
    const page = createServer(async (_request, response) => {
      most = Math.max(most, ++open);
      await sleep(20);
      open -= 1;
      response.setHeader("Content-Type", "text/html").end("<p>Hola</p>");
    });
    await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(page.address() as AddressInfo).port}/`;
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, html: undefined, url });
    const asked = Array.from({ length: 5 }, () => ana("POST", `/campaigns/${numid}/preview`, {}));
    const answers = await Promise.all(asked);
    page.close();
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(answers[0]!.body).toMatchObject({ text: expect.stringMatching(/^Hola\n/), text_cut: false });
    expect(most).toBe(1);
  });

  test("is listed without its message", async () => {
    const { db } = stack.context;
    const { body } = await ana("GET", "/campaigns?search=large");
    expect(body.campaigns).toMatchObject([{ asunto: MESSAGE.asunto, url: "", grupos: [] }]);
    const sends = await listCampaignSends(db, stack.instanceId, [body.campaigns[0].numid]);
    expect(JSON.stringify([...sends]).length).toBeLessThan(1_000);
    expect((await ana("GET", `/campaigns/${body.campaigns[0].numid}`)).body.html.length).toBeGreaterThan(1_000_000);
  });

  test("goes to whoever is in one of its groups or filters, once; left out are the invalid and the unsubscribed", async () => {
    const numid = await addNormal("both");
    await addContacts("g1", ["a@example.net", "b@example.net", "gone@example.net", "out@example.net"], {
      nombre: "<Ana>",
    });
    await addContacts("g2", ["b@example.net", "c@example.net"], { nombre: "Ben", edad: 33 });
    await stack.call("GET", "/invalidar/gone@example.net");
    const { db } = stack.context;
    await db.raw(
      "insert into campaign_unsubscriptions (instance_id, contact_id, campaign_numid) select instance_id, id, ? from contacts where email = 'out@example.net'",
      [numid],
    );
    const [filter] = await db("filters")
      .insert({
        instance_id: stack.instanceId,
        name: "adults",
        conditions: JSON.stringify({ field: "age", is: ">=", value: 18 }),
      })
      .returning("id");

    const empty = await ana("POST", `/campaigns/${numid}/start`, {});
    expect(empty.status).toBe(409);
    const put = await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["g1"], filtros: [filter.id] });
    expect(put.body).toMatchObject({ numid, estado: "borrador", grupos: ["g1"], filtros: [filter.id], eeid: null });
    expect((await ana("POST", `/campaigns/${numid}/preview`, { email: "a@example.net" })).body).toEqual({
      asunto: "Hola <Ana>",
      html: expect.stringContaining("Dear &lt;Ana&gt; &amp; co"),
      text: expect.stringContaining("Dear <Ana> & co"),
      text_cut: false,
    });
    expect((await ana("POST", `/campaigns/${numid}/start`, {})).body.estado).toBe("programado");
    const { body } = await until(numid, "enviado");
    expect(body).toMatchObject({ destinatarios: 5, pausa: null });

    const info = (await stack.call("GET", `/eeid_info/${body.eeid}`)).body.envio_efectivo;
    expect(info).toMatchObject({
      estado: "enviado",
      campana_id: String(numid),
      creador_id: "ana",
      salidas_con_error: 0,
    });
    const events = Object.fromEntries(
      info.contactos.map((contact: { email: string; eventos: { eventos: string }[] }) => [
        contact.email,
        contact.eventos.map(({ eventos }) => eventos),
      ]),
    );
    expect(events).toEqual({
      "a@example.net": ["envio"],
      "b@example.net": ["envio"],
      "c@example.net": ["envio"],
      "gone@example.net": ["unknown"],
    });
    for (const to of ["a@example.net", "b@example.net", "c@example.net"]) {
      const [message, ...more] = await stack.inbox(to);
      expect(more).toEqual([]);
      expect(message!.octets.toString()).toMatch(/^List-Unsubscribe: /m);
    }
    expect(await stack.inbox("out@example.net")).toEqual([]);
    expect((await ana("GET", `/batches/${body.eeid}`)).body).toMatchObject({
      destinatarios: 3,
      entregados: 3,
      en_cola: 0,
      cancelados: 0,
    });
    const again = await ana("POST", `/campaigns/${numid}/start`, {});
    expect(again.status).toBe(409);
    expect((await ana("PUT", `/campaigns/${numid}/message`, MESSAGE)).status).toBe(409);
    expect((await ana("POST", `/campaigns/${numid}/cancel`)).status).toBe(409);
  });

  test("does not start when somebody changed it since it was looked at", async () => {
    const numid = await addNormal("changed");
    await addContacts("seen", ["seen@example.net"]);
    const write = (asunto: string) =>
      ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, asunto, grupos: ["seen"] });
    const at = new Date(Date.now() + 3_600_000).toISOString();
    const start = (modificado: string) => ana("POST", `/campaigns/${numid}/start`, { at, modificado });
    const { modificado: seen } = (await write("seen")).body;
    await write("of a colleague");
    expect(await start(seen)).toMatchObject({ status: 409, body: { code: "campaign-changed" } });
    const { body: now } = await ana("GET", `/campaigns/${numid}`);
    expect(now).toMatchObject({ estado: "borrador", asunto: "of a colleague" });
    expect(await start(now.modificado)).toMatchObject({ status: 200, body: { estado: "programado" } });
    await ana("POST", `/campaigns/${numid}/cancel`);
  });

  test("is not written over what somebody else has written since it was looked at", async () => {
    const numid = await addNormal("written by two");
    const write = (asunto: string, seen?: string | null) =>
      ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, asunto, modificado: seen });
    const { modificado: seen } = (await write("seen", null)).body;
    expect(await write("at the same time", null)).toMatchObject({ status: 409, body: { code: "message-changed" } });
    const { modificado: now } = (await write("of a colleague", seen)).body;
    expect(await write("late", seen)).toMatchObject({ status: 409, body: { code: "message-changed" } });
    expect((await ana("GET", `/campaigns/${numid}`)).body).toMatchObject({ asunto: "of a colleague", modificado: now });
    expect((await write("late, knowing it", now)).status).toBe(200);
    expect((await write("whatever is there")).status).toBe(200);
  });

  test("starts at its time, not before", async () => {
    const numid = await addNormal("later");
    await addContacts("late", ["late@example.net"]);
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["late"] });
    const at = new Date(Date.now() + 4_000);
    const started = await ana("POST", `/campaigns/${numid}/start`, { at: at.toISOString() });
    expect(started.body).toMatchObject({ estado: "programado", inicio: at.toISOString() });
    await until(numid, "enviado");
    const batch = (await ana("GET", `/batches?campaign=${numid}`)).body.batches[0];
    expect(Date.parse(batch.timestamp)).toBeGreaterThanOrEqual(at.getTime());
  });

  test.each([
    ["1970-01-01T00:00:00Z", "past"],
    [new Date(Date.now() - 25 * 3_600_000).toISOString(), "past"],
    ["9999-12-31T23:59:59-05:00", "moment-form"],
  ])("does not start at %s", async (at, reason) => {
    const numid = await addNormal("never");
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["late"] });
    const { status, body } = await ana("POST", `/campaigns/${numid}/start`, { at });
    expect([status, body.msg]).toEqual([
      400,
      sentence("invalid-field", { field: "at", reason: sentence(reason as "past") }).message,
    ]);
  });

  test("starts at once at a moment of the last day", async () => {
    const numid = await addNormal("yesterday");
    await addContacts("yesterdays", ["yesterday@example.net"]);
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["yesterdays"] });
    await ana("POST", `/campaigns/${numid}/start`, { at: new Date(Date.now() - 23 * 3_600_000).toISOString() });
    await until(numid, "enviado");
  });

  test("is paused, resumed and cancelled: nothing leaves after the answer, and the counts add up", async () => {
    const numid = await addNormal("stopped");
    const { db } = stack.context;
    await addContacts("many", ["m@example.net"]);
    await db.raw(
      `with added as (
         insert into contacts (instance_id, email, email_key)
         select ?, 'm' || n || '@d' || n % 7 || '.example.net', 'm' || n || '@d' || n % 7 || '.example.net'
         from generate_series(1, 3000) as n returning id
       )
       insert into contact_groups (instance_id, contact_id, group_id)
         select instance_id, added.id, groups.id from added, groups where name = 'many'`,
      [stack.instanceId],
    );
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["many"] });
    await ana("POST", `/campaigns/${numid}/start`);
    const delivered = async () =>
      Number((await db("sandbox_messages").where("rcpt_to", "like", "m%").count())[0]!.count);
    await eventually(delivered, (count) => count > 50);

    const paused = await ana("POST", `/campaigns/${numid}/pause`);
    expect(paused.body).toMatchObject({
      estado: "pausado",
      pausa: { motivo: { code: "paused-by", message: "pausado por ana" } },
    });
    await eventually(onTheWire, (count) => count === 0, 60_000);
    const atPause = await delivered();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await delivered()).toBe(atPause);
    expect(atPause).toBeLessThan(3_001);
    const info = (await stack.call("GET", `/eeid_info/${paused.body.eeid}`)).body.envio_efectivo;
    expect(info.estado).toBe("enviando");

    expect((await ana("POST", `/campaigns/${numid}/resume`)).body.estado).toMatch(/^(preparando|enviando)$/);
    await eventually(delivered, (count) => count > atPause);
    const cancelled = await ana("POST", `/campaigns/${numid}/cancel`);
    expect(cancelled.body.estado).toBe("cancelado");
    await eventually(onTheWire, (count) => count === 0, 60_000);
    const atCancel = await delivered();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await delivered()).toBe(atCancel);
    const progress = await eventually(
      () => ana("GET", `/batches/${cancelled.body.eeid}`),
      ({ body }) => body.en_cola === 0,
    );
    expect(progress.body).toMatchObject({ estado: "cancelado", entregados: atCancel });
    expect(progress.body.cancelados).toBe(progress.body.destinatarios - atCancel);
    expect(progress.body.particiones_finalizadas).toBe(progress.body.cant_particiones);
    expect((await stack.call("GET", `/eeid_info/${cancelled.body.eeid}`)).body.envio_efectivo.estado).toBe("cancelado");
    const joined = await stack.call("POST", "/envio/send_one_inline/", {
      campana_id: await stack.addCampaign(),
      email: true,
      contacto: { email: "x@example.net" },
      html: "<p>x</p>",
      reuse_eeid: true,
      eeid: cancelled.body.eeid,
    });
    expect(joined).toMatchObject({ status: 400, body: { on: "envio cancelado" } });

    async function onTheWire(): Promise<number> {
      const rows = await db("partitions").where({ eeid: paused.body.eeid, state: "leased" }).count();
      return Number(rows[0]!.count);
    }
  });

  test("pauses by itself when too much bounces, and says why", async () => {
    const numid = await addNormal("spike");
    const { db } = stack.context;
    await addContacts("bad", ["reject+0@example.net"]);
    await db.raw(
      `with added as (
         insert into contacts (instance_id, email, email_key)
         select ?, 'reject+' || n || '@s' || n % 9 || '.example.net', 'reject+' || n || '@s' || n % 9 || '.example.net'
         from generate_series(1, 900) as n returning id
       )
       insert into contact_groups (instance_id, contact_id, group_id)
         select instance_id, added.id, groups.id from added, groups where name = 'bad'`,
      [stack.instanceId],
    );
    await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["bad"] });
    await ana("POST", `/campaigns/${numid}/start`);
    const outcome = await eventually(
      () => ana("GET", `/campaigns/${numid}`),
      ({ body }) => body.estado === "pausado" || body.estado === "enviado",
      240_000,
    );
    expect(outcome.body.estado).toBe("pausado");
    expect(outcome.body.pausa.motivo.message).toMatch(/^rebotes: \d+ de \d+ destinatarios \(limite 10 %\)$/);
    const bounces = await ana("GET", `/bounces?by=reason&campaign=${numid}`);
    expect(bounces.body.bounces[0]).toMatchObject({ reason: "userunknown", soft: 0 });
    const byDomain = await ana("GET", `/bounces?by=destination&campaign=${numid}`);
    expect(byDomain.body.bounces[0].destination).toMatch(/^s\d\.example\.net$/);
    await ana("POST", `/campaigns/${numid}/cancel`);
  });

  test("that cannot start waits for a person, with the reason", async () => {
    const numid = await addNormal("no page");
    await addContacts("page", ["page@example.net"]);
    const put = await ana("PUT", `/campaigns/${numid}/message`, {
      ...MESSAGE,
      html: undefined,
      url: "http://127.0.0.1:1/",
      grupos: ["page"],
    });
    expect(put.body).toMatchObject({ url: "http://127.0.0.1:1/" });
    await ana("POST", `/campaigns/${numid}/start`);
    const { body } = await until(numid, "pausado");
    expect(body.pausa.motivo.message).toMatch(/^url inaccesible: /);
    const html = await ana("PUT", `/campaigns/${numid}/message`, { ...MESSAGE, grupos: ["page"] });
    expect(html.body.estado).toBe("pausado");
    await ana("POST", `/campaigns/${numid}/resume`);
    await until(numid, "enviado");
  });

  test("is tested with one address, and refuses what cannot be sent", async () => {
    const numid = await addNormal("checks");
    const path = `/campaigns/${numid}/message`;
    const refused = async (changes: object) => (await ana("PUT", path, { ...MESSAGE, ...changes })).body.msg;
    expect(await refused({ remitente: "" })).toContain("remitente");
    expect(await refused({ remitente: "x@elsewhere.example" })).toBe("dominio remitente no permitido");
    expect(await refused({ html: undefined })).toContain("html");
    expect(await refused({ url: "http://www.example.org/" })).toContain("url");
    expect(await refused({ html: undefined, url: "ftp://www.example.org/" })).toContain("url");
    expect(await refused({ asunto: "two\r\nlines" })).toContain("asunto");
    expect(await refused({ filtros: [4_711] })).toContain("filtros");
    expect(await refused({ grupos: ["nobody's"] })).toBe("invalid field: grupos: there is no group nobody's");
    const filter = { nombre: "Without", condiciones: { no: { grupo: "gone" } } };
    await ana("POST", "/groups", { nombre: "gone" });
    const { id } = (await ana("POST", "/filters", filter)).body;
    await ana("DELETE", "/groups/gone");
    expect(await refused({ filtros: [id] })).toBe("filtro Without: grupo gone no existe");
    await ana("PUT", path, MESSAGE);
    expect((await ana("POST", `/campaigns/${numid}/start`, {})).body.msg).toContain("grupos");
    const sent = await ana("POST", `/campaigns/${numid}/test`, { email: "tester@example.net" });
    expect(sent.body).toMatchObject({ sent: 1 });
    await eventually(
      () => stack.inbox("tester@example.net"),
      (messages) => messages.length === 1,
    );
    const api = await stack.addCampaign();
    expect((await ana("POST", `/campaigns/${api}/pause`)).status).toBe(409);
    expect((await ana("GET", `/campaigns/${api}`)).body).toMatchObject({ tipo: "api", estado: null });
    expect((await ana("POST", "/campaigns/999999/pause")).status).toBe(404);
  });
});

test("statistics tell what was sent, step by step", async () => {
  const { body } = await ana("GET", "/statistics?step=hour&from=2020-01-01");
  expect(body.msg).toContain("step");
  const series = (await ana("GET", "/statistics?step=day")).body.series;
  expect(series.length).toBeGreaterThan(29);
  const [first] = (await ana("GET", "/campaigns")).body.campaigns.filter(
    (c: { nombre: string }) => c.nombre === "both",
  );
  const ofCampaign = (await ana("GET", `/statistics?campaign=${first.numid}`)).body.series;
  // Of the day on which they were sent, whatever day it is by now.
  const sent = ofCampaign.filter((day: { sent: number }) => day.sent > 0);
  expect(sent).toMatchObject([{ sent: 3, views: 0, clicks: 0, bounces: 0 }]);
});

test("a destination is held, released and retried by an operator", async () => {
  const root = as("root");
  const queue = async () =>
    (await root("GET", "/queues")).body.queues.find(
      ({ destination }: { destination: string }) => destination === "held.example.net",
    );
  expect((await root("POST", "/queues/Held.example.net/hold")).body).toEqual({
    destination: "held.example.net",
    held: true,
  });
  const send = (email: string) =>
    stack.addCampaign().then((campana_id) =>
      stack.call("POST", "/envio/send_one_inline/", {
        campana_id,
        email: true,
        contacto: { email },
        html: "<p>x</p>",
      }),
    );
  await send("h@held.example.net");
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(await stack.inbox("h@held.example.net")).toEqual([]);
  expect(await eventually(queue, (found) => found?.due === 1)).toMatchObject({ waiting: 1, held: true });
  // One that nothing waits for is behind all others, and is to be seen whatever the limit.
  await root("POST", "/queues/nobody.example.net/hold");
  const few = (await root("GET", "/queues?limit=1")).body;
  expect(few).toMatchObject({ waiting: 1, held: 2 });
  expect(few.queues.at(-1)).toMatchObject({ destination: "nobody.example.net", waiting: 0, held: true });
  await root("POST", "/queues/nobody.example.net/release");
  await root("POST", "/queues/held.example.net/release");
  await eventually(
    () => stack.inbox("h@held.example.net"),
    (messages) => messages.length === 1,
  );
  await eventually(queue, (found) => found === undefined);

  await stack.context.db("partitions").where({ destination: "held.example.net" }).delete();
  await send("defer+1@held.example.net");
  const deferred = () => stack.context.db("deliveries").where({ recipient: "defer+1@held.example.net" });
  await eventually(deferred, ([delivery]) => delivery?.attempts === 1);
  await deferred().update({ due_at: stack.context.db.raw("now() + interval '1 hour'") });
  const retried = await root("POST", "/queues/held.example.net/retry");
  expect(retried.status).toBe(200);
  await eventually(
    () => stack.inbox("defer+1@held.example.net"),
    (messages) => messages.length === 1,
  );
});

test("is shown to the instance's people and operators only", async () => {
  for (const path of ["/campaigns", "/batches", "/statistics", "/bounces"]) {
    expect((await as("root")("GET", `/instances/test${path}`)).status).toBe(200);
    expect((await as("eve")("GET", `/instances/test${path}`)).status).toBe(404);
    expect((await as("res")("GET", `/instances/test${path}`)).status).toBe(403);
    expect((await as("eve")("GET", `/instances/other${path}`)).status).toBe(200);
  }
  const [batch] = (await ana("GET", "/batches?limit=1")).body.batches;
  expect((await as("eve")("GET", `/instances/other/batches/${batch.eeid}`)).status).toBe(404);
  expect((await ana("GET", "/batches/not-an-eeid")).status).toBe(404);
  expect((await ana("GET", `/messages/${batch.eeid}/nobody@example.net`)).status).toBe(404);
  expect((await ana("GET", "/../../queues")).status).not.toBe(200);
  expect((await as("ana")("GET", "/queues")).status).toBe(403);
  expect((await as("ana")("POST", "/queues/example.org/hold")).status).toBe(403);
  expect(stack.failures).toEqual([]);
});
