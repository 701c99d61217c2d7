import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { type ParsedMail, simpleParser } from "mailparser";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { DELEGATION_SCHEME, makeDelegationToken } from "../../services/core/delegation-token.ts";
import { makePersonalise } from "../../services/operations/mail/audience.ts";
import { findContacts } from "../../services/store/mail/contacts/recipients.ts";
import { listInstanceDomains } from "../../services/store/mail/instances/instances.ts";
import { type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let campaign: number;

beforeAll(async () => {
  stack = await startMailStack();
  campaign = await stack.addCampaign();
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
});

type Fields = Readonly<Record<string, unknown>>;

const sendOne = (fields: Fields = {}, headers: Readonly<Record<string, string>> = {}) =>
  stack.call("POST", "/envio/send_one_inline/", { ...ONE, campana_id: campaign, ...fields }, headers);

const sendMany = (fields: Fields) =>
  stack.call("POST", "/envio/send_many_inline/", { campana_id: campaign, email: true, html: "<p>Hi</p>", ...fields });

const ONE = { email: true, contacto: { email: "ana@one.example.net" }, html: "<p>Hi</p>" };

const info = async (eeid: string) => (await stack.call("GET", `/eeid_info/${eeid}`)).body.envio_efectivo;

const untilSent = (eeid: string) =>
  eventually(
    () => info(eeid),
    (batch) => batch.estado === "enviado",
  );

/** The newest message that an address got from a batch that was sent. */
async function received(eeid: string, rcptTo: string): Promise<ParsedMail & { readonly octets: Buffer }> {
  await untilSent(eeid);
  const { octets } = await stack.newestOf(eeid, rcptTo);
  return { ...(await simpleParser(octets)), octets };
}

const eventsOf = (batch: { contactos: { email: string; eventos: { eventos: string }[] }[] }) =>
  Object.fromEntries(batch.contactos.map(({ email, eventos }) => [email, eventos.map(({ eventos }) => eventos)]));

describe("send_one_inline", () => {
  test("names the console's user as the one who called", async () => {
    const claims = { audience: "mail", login: "ana", instance: "test" } as const;
    const token = makeDelegationToken(stack.context.keyRing, claims, Date.now());
    const { body } = await sendOne({}, { Authorization: `${DELEGATION_SCHEME} ${token}` });
    expect(await info(body.eeid)).toMatchObject({ creador_id: "ana" });
  });

  test("answers with an eeid, and the message arrives signed", async () => {
    const contacto = { email: "ana@one.example.net", nombre: "Ana", apellido: "Díaz" };
    const { status, body } = await sendOne({ contacto, asunto: "Hola XYZNOMBREXYZ ñ", html: "<p>Hi XYZEMAILXYZ</p>" });
    expect(status).toBe(200);
    expect(body).toEqual({ status: "ok", sent: 1, eeid: expect.stringMatching(/^[0-9a-f-]{36}$/) });

    const batch = await untilSent(body.eeid);
    expect(batch).toMatchObject({
      envio_id: body.eeid,
      campana_id: String(campaign),
      creador_id: "api",
      cant_particiones: 1,
      particiones_tomadas: 1,
      particiones_finalizadas: 1,
      salidas_con_error: 0,
      contactos: [{ email: "ana@one.example.net", eventos: [{ eventos: "envio" }] }],
    });
    expect(batch).not.toHaveProperty("archive");

    const message = await received(body.eeid, "ana@one.example.net");
    expect(message.subject).toBe("Hola Ana ñ");
    expect(message.from?.value).toEqual([{ address: `info@${TEST_DOMAIN}`, name: "The Sender" }]);
    expect(message.to).toMatchObject({ value: [{ address: "ana@one.example.net", name: "Ana Díaz" }] });
    expect(message.html).toContain("Hi ana@one.example.net");
    expect(message.text).toContain("Hi ana@one.example.net");
    expect(message.messageId).toMatch(new RegExp(`@${TEST_DOMAIN}>$`));

    const [domain] = await listInstanceDomains(stack.context.db, stack.instanceId);
    const verdict = await dkimVerify(message.octets, { resolver: async () => [[domain!.dkimRecord]] });
    expect(verdict.results.map(({ status, signingDomain }) => [status.result, signingDomain])).toEqual([
      ["pass", TEST_DOMAIN],
    ]);
  });

  test("personalises from custom fields, profile and globals, and escapes values in HTML", async () => {
    const email = "tags@one.example.net";
    const campos = [
      { nombre: "XYZCOLORXYZ", valor: "<red> XYZSHOPXYZ" },
      { nombre: "PROFESION", valor: "" },
      { nombre: "UNUSED", valor: "x" },
    ];
    await stack.call("POST", "/contacto/", { email, nombre: "N", localidad: "Quito", profesion: "baker", campos });
    await stack.call("POST", "/global/", { nombre: "SHOP", valor: "Corner & Co" });
    await stack.call("POST", "/global/", { nombre: "LOCALIDAD", valor: "never shown" });
    const html = "<p>XYZCOLORXYZ|XYZLOCALIDADXYZ|XYZSHOPXYZ|XYZNADAXYZ|XYZPROFESIONXYZ|</p>";
    const { body } = await sendOne({ contacto: { email }, asunto: "XYZCOLORXYZ", html });
    const message = await received(body.eeid, email);
    expect(message.subject).toBe("<red> XYZSHOPXYZ");
    expect(message.html).toContain("&lt;red&gt; XYZSHOPXYZ|Quito|Corner &amp; Co|||");

    const { db } = stack.context;
    const template = { from: { name: "", address: email }, subject: "XYZCOLORXYZ", html, unsubscribe: false };
    const content = { kind: "template", template, attachments: [] } as const;
    const personalise = await makePersonalise(db, { instanceId: stack.instanceId, content });
    expect(personalise((await findContacts(db, stack.instanceId, campaign, [email])).get(email)!)).toEqual({
      name: "N",
      tags: { COLOR: "<red> XYZSHOPXYZ", LOCALIDAD: "Quito", SHOP: "Corner & Co" },
    });
  });

  test("an empty value of a contact counts, and not the global variable of its name", async () => {
    const email = "empty@one.example.net";
    await stack.call("POST", "/contacto/", { email, campos: [{ nombre: "LOGO", valor: "" }] });
    await stack.call("POST", "/global/", { nombre: "LOGO", valor: "everybody's" });
    await stack.call("POST", "/global/", { nombre: "APELLIDO", valor: "nobody's" });
    const { body } = await sendOne({ contacto: { email }, html: "<p>(XYZLOGOXYZ|XYZAPELLIDOXYZ)</p>" });
    expect((await received(body.eeid, email)).html).toContain("(|)");
  });

  test("is refused where the copies would show more of their recipient than can be in memory", async () => {
    const email = "wide@one.example.net";
    const campos = [1, 2, 3].map((n) => ({ nombre: `WIDE${n}`, valor: "x".repeat(65_000) }));
    expect((await stack.call("POST", "/contacto/", { email, campos })).status).toBe(200);
    const bccOf = (count: number) => Array.from({ length: count }, (_, n) => ({ bcc_email: `w${n}@one.example.net` }));
    const html = "XYZWIDE1XYZ XYZWIDE2XYZ XYZWIDE3XYZ";
    expect(await sendOne({ contacto: { email }, html, copia_oculta: bccOf(1_000) })).toMatchObject({
      status: 400,
      body: { status: "err", on: "campos: los de estos contactos ocupan mas de 128 MiB" },
    });
    expect((await sendOne({ contacto: { email }, html, copia_oculta: bccOf(2) })).body).toMatchObject({ sent: 3 });
  });

  test("copies are sent, counted, seen where they may be, and get events of their own", async () => {
    await stack.call("POST", "/contacto/", { email: "gone@one.example.net" });
    await stack.call("GET", "/invalidar/gone@one.example.net");
    const { body } = await sendOne({
      contacto: { email: "boss@one.example.net", nombre: "Boss" },
      copia: [
        { cc_email: "cc@one.example.net", cc_nombre: "Carla", cc_apellido: "C" },
        { cc_email: "gone@one.example.net" },
      ],
      copia_oculta: [{ bcc_email: "bcc@other.example.net" }, { bcc_email: "boss@one.example.net" }],
      "reply-to": "answers@elsewhere.example.org",
    });
    expect(body.sent).toBe(3);
    const seen = await received(body.eeid, "bcc@other.example.net");
    for (const address of ["boss@one.example.net", "cc@one.example.net"]) {
      expect((await received(body.eeid, address)).messageId).toBe(seen.messageId);
    }
    expect(seen.to).toMatchObject({ value: [{ address: "boss@one.example.net", name: "Boss" }] });
    expect(seen.cc).toMatchObject({ value: [{ name: "Carla C" }, { address: "gone@one.example.net" }] });
    expect(seen.replyTo?.value[0]?.address).toBe("answers@elsewhere.example.org");
    expect(seen.octets.toString("latin1")).not.toMatch(/^bcc:|bcc@/im);
    expect(eventsOf(await info(body.eeid))).toEqual({
      "boss@one.example.net": ["envio"],
      "cc@one.example.net": ["envio"],
      "bcc@other.example.net": ["envio"],
      "gone@one.example.net": ["unknown"],
    });
    expect((await stack.call("GET", "/contacto/cc@one.example.net")).status).toBe(404);
  });

  test("attachments come in pieces of base64", async () => {
    const content = Buffer.from([0, 1, 2, 250, 13, 10, 0]).toString("base64");
    const adjuntos = [
      { filename: "año €.bin", content: [content.slice(0, 3), content.slice(3)] },
      { filename: "empty.txt", content: [] },
    ];
    const { body } = await sendOne({ contacto: { email: "files@one.example.net" }, adjuntos });
    const { attachments } = await received(body.eeid, "files@one.example.net");
    expect(attachments.map(({ filename, content }) => [filename, [...content]])).toEqual([
      ["año €.bin", [0, 1, 2, 250, 13, 10, 0]],
      ["empty.txt", []],
    ]);
  });

  test("a page of thousands of links arrives with all of them counted; one of too many is refused", async () => {
    const pageOf = (links: number) =>
      Array.from({ length: links }, (_, n) => `<a href="http://example.org/${n}">l</a>\n`).join("");
    const contactos = [1, 2, 3].map((n) => ({ email: `links${n}@one.example.net` }));
    const sent = await sendMany({ contactos, html: pageOf(3_000) });
    for (const { email } of contactos) {
      const { html } = await received(sent.body.eeid, email);
      expect(new Set(String(html).match(/\/c\/[^"]+/g))).toHaveProperty("size", 3_000);
    }
    expect(await sendOne({ html: pageOf(10_001) })).toMatchObject({
      status: 400,
      body: { status: "err", on: "html: mas de 10000 enlaces y etiquetas" },
    });
  });

  test("with desusc si the message carries List-Unsubscribe, signed, and a link", async () => {
    const numid = await stack.addCampaign({ desusc: "si" });
    const { body } = await sendOne({ campana_id: numid, contacto: { email: "out@one.example.net" } });
    const message = await received(body.eeid, "out@one.example.net");
    const header = message.octets.toString("latin1");
    expect(header).toContain("List-Unsubscribe-Post: List-Unsubscribe=One-Click");
    const [, url] =
      /^List-Unsubscribe: <(http:\/\/127\.0\.0\.1:9\/u\/[\w-]+)>/m.exec(header.replace(/\r\n /g, " ")) ?? [];
    expect(message.html).toContain(`href="${url}"`);
  });

  test('the flag may be the text "true"; without it nobody gets anything', async () => {
    expect((await sendOne({ email: "true" })).body.sent).toBe(1);
    for (const email of [false, "false"]) {
      const { status, body } = await sendOne({ email, contacto: { email: "nobody@one.example.net" } });
      expect([status, body.sent]).toEqual([200, 0]);
      expect(await info(body.eeid)).toMatchObject({ estado: "enviado", cant_particiones: 0, contactos: [] });
    }
    expect((await stack.call("GET", "/contacto/nobody@one.example.net")).status).toBe(404);
  });

  test("an earlier batch is joined", async () => {
    const first = await sendOne();
    const second = await sendOne({
      contacto: { email: "eva@one.example.net" },
      reuse_eeid: true,
      eeid: first.body.eeid,
    });
    expect(second.body).toEqual(first.body);
    const batch = await untilSent(first.body.eeid);
    expect(eventsOf(batch)).toEqual({ "ana@one.example.net": ["envio"], "eva@one.example.net": ["envio"] });
  });

  test("a contact that unsubscribed from the campaign is left out, without an event", async () => {
    await stack.call("POST", "/contacto/", { email: "left@one.example.net" });
    const { db } = stack.context;
    const { id } = await db("contacts").where({ email: "left@one.example.net" }).first("id");
    await db("campaign_unsubscriptions").insert({
      instance_id: stack.instanceId,
      contact_id: id,
      campaign_numid: campaign,
    });
    const { body } = await sendOne({ contacto: { email: "left@one.example.net" } });
    expect(body.sent).toBe(0);
    expect((await info(body.eeid)).contactos).toEqual([]);
  });

  test("nor does such a contact get a copy, whether it left the campaign or everything", async () => {
    const { db } = stack.context;
    const contact = async (email: string) => {
      await stack.call("POST", "/contacto/", { email });
      return (await db("contacts").where({ email }).first("id")).id;
    };
    const left = await contact("left.copy@one.example.net");
    await db("campaign_unsubscriptions").insert({
      instance_id: stack.instanceId,
      contact_id: left,
      campaign_numid: campaign,
    });
    const gone = await contact("gone.copy@one.example.net");
    await db("contacts").where({ id: gone }).update({ unsubscribed_at: new Date() });
    const fields = {
      contacto: { email: "stays@one.example.net" },
      copia: [{ cc_email: "left.copy@one.example.net" }],
      copia_oculta: [{ bcc_email: "gone.copy@one.example.net" }],
    };
    const { body } = await sendOne(fields);
    expect(body.sent).toBe(1);
    expect(eventsOf(await untilSent(body.eeid))).toEqual({ "stays@one.example.net": ["envio"] });
    // Another campaign may still write to who left this one.
    const other = await sendOne({ ...fields, campana_id: await stack.addCampaign() });
    expect(other.body.sent).toBe(2);
    expect(Object.keys(eventsOf(await untilSent(other.body.eeid)))).toContain("left.copy@one.example.net");
  });

  test.each<[string, Fields, number, string | RegExp]>([
    ["no flag", { email: undefined }, 400, "falta email"],
    ["a wrong flag", { email: 1 }, 400, "email invalido"],
    ["no campaign", { campana_id: undefined }, 400, "falta campana_id"],
    ["a campaign as text", { campana_id: "1" }, 400, "campana_id invalido"],
    ["an unknown campaign", { campana_id: 999_999 }, 404, "no existe"],
    ["no contact", { contacto: undefined }, 400, "falta contacto"],
    ["a contact without address", { contacto: {} }, 400, "falta email"],
    ["no html", { html: undefined }, 400, "falta html"],
    ["html of a wrong type", { html: 5 }, 400, "html invalido"],
    ["a malformed address", { contacto: { email: "a@b" } }, 400, /^invalid email The domain name b is not valid/],
    ["a malformed copy", { copia: [{ cc_email: "plain" }] }, 400, /^invalid email .*exactly one @-sign/],
    ["a malformed blind copy", { copia_oculta: [{ bcc_email: "x\r\n@y.z" }] }, 400, /^invalid email /],
    [
      "more to show in every copy than its reader's server takes",
      { copia: Array.from({ length: 300 }, (_, n) => ({ cc_email: `c${n}@example.net`, cc_nombre: "ñ".repeat(250) })) },
      400,
      "copia invalido",
    ],
    ["a copy without address", { copia: [{}] }, 400, "falta cc_email"],
    ["a foreign sender", { remitente: "a@foreign.example.org" }, 400, "dominio remitente no permitido"],
    ["a malformed sender", { remitente: "nobody" }, 400, /^remitente invalido /],
    ["a line break in the subject", { asunto: "a\r\nBcc: x@y.example.org" }, 400, "asunto invalido"],
    ["a line break in the sender's name", { remitente_nombre: "a\nb" }, 400, "remitente_nombre invalido"],
    ["a malformed reply address", { "reply-to": "a@b@c" }, 400, /^invalid email .*exactly one @-sign/],
    ["a reply address of a wrong type", { "reply-to": 1 }, 400, "reply-to invalido"],
    ["an attachment that is no base64", { adjuntos: [{ filename: "f", content: ["?"] }] }, 400, "content invalido"],
    ["an attachment without name", { adjuntos: [{ content: ["AA=="] }] }, 400, "falta filename"],
    ["a line break in a file name", { adjuntos: [{ filename: "a\nb", content: [] }] }, 400, "filename invalido"],
    ["archive as a text", { archive: "true" }, 400, "archive invalido"],
    ["reuse as a text", { reuse_eeid: "true" }, 400, "reuse_eeid invalido"],
    ["reuse without eeid", { reuse_eeid: true }, 400, "falta eeid"],
    ["reuse of no eeid", { reuse_eeid: true, eeid: "x" }, 400, "eeid invalido"],
    ["reuse of an unknown eeid", { reuse_eeid: true, eeid: "00000000-0000-4000-8000-000000000000" }, 404, "no existe"],
  ])("refuses %s", async (_what, fields, status, on) => {
    const answer = await sendOne(fields);
    expect(answer.status).toBe(status);
    expect(answer.body).toEqual({ status: "err", on: typeof on === "string" ? on : expect.stringMatching(on) });
  });
});

describe("send_many_inline", () => {
  test("is refused where the recipients' custom fields are more than can be in memory", async () => {
    const { db } = stack.context;
    const instance = await db("instances").where({ name: "test" }).first("id");
    const emails = Array.from({ length: 520 }, (_, number) => `large-${number}@one.example.net`);
    const fields = JSON.stringify({ bio: "x".repeat(2 ** 18) });
    await db("contacts").insert(emails.map((email) => ({ instance_id: instance.id, email, email_key: email, fields })));
    const send = (to: readonly string[]) => sendMany({ contactos: to.map((email) => ({ email })) });
    expect(await send(emails)).toMatchObject({
      status: 400,
      body: { status: "err", on: "campos: los de estos contactos ocupan mas de 128 MiB" },
    });
    expect(await send(emails.slice(0, 200))).toMatchObject({ status: 200, body: { sent: 200 } });
    await db("contacts").whereIn("email", emails).update({ fields: "{}" });
  });

  test("keeps the global variables that its template uses once, as they are then", async () => {
    const { db } = stack.context;
    const email = (n: number) => `global-${n}@two.example.net`;
    const valor = "ñ".repeat(65_536);
    await stack.call("POST", "/global/", { nombre: "LARGE", valor });
    const contactos = Array.from({ length: 200 }, (_, n) => ({ email: email(n) }));
    const storing = vi.spyOn(pg.Client.prototype, "query");
    const { body } = await sendMany({ contactos, html: "<p>XYZLARGEXYZ</p>" });
    const sent = (storing.mock.calls as unknown as [{ readonly values?: unknown[] }][]).flatMap(
      ([{ values = [] }]) => values,
    );
    const sizes = sent.flatMap((value) => (Buffer.isBuffer(value) ? value.buffer.byteLength : []));
    storing.mockRestore();
    expect(sizes.length).toBeGreaterThan(0);
    expect(Math.max(...sizes)).toBeLessThan(2 ** 17);
    await stack.call("POST", "/global/", { nombre: "LARGE", valor: "later" });
    expect((await received(body.eeid, email(7))).text?.trim()).toBe(valor);
    const message = await db("messages").where({ eeid: body.eeid }).first("template", "content_octets");
    expect(message.template.globals).toEqual({ LARGE: valor });
    expect(message.content_octets).toBeGreaterThan(2 * 65_536);
  });

  test("is refused where the global variables of its template take too much", async () => {
    const { db } = stack.context;
    const large = { key: "HUGE", name: "HUGE", value: "x".repeat(16 * 2 ** 20 + 1) };
    await db("globals").insert({ instance_id: stack.instanceId, ...large });
    const contactos = [{ email: "a@many.example.net" }];
    expect(await sendMany({ contactos, html: "<p>XYZHUGEXYZ</p>" })).toMatchObject({
      status: 400,
      body: { status: "err", on: "variables globales: las del mensaje ocupan mas de 16 MiB" },
    });
    expect(await sendMany({ contactos, html: "<p>XYZLOGOXYZ</p>" })).toMatchObject({ status: 200 });
    await stack.call("DELETE", "/global/", { nombre: "HUGE" });
  });

  test("leaves out malformed addresses, invalid contacts and repetitions", async () => {
    await stack.call("POST", "/contacto/", { email: "bad@many.example.net" });
    await stack.call("GET", "/invalidar/bad@many.example.net");
    const emails = [
      "a@many.example.net",
      "bad@many.example.net",
      "a@MANY.example.net",
      "A@many.example.net",
      "x@@y",
      "",
    ];
    const contactos = emails.map((email) => ({ email, nombre: email.slice(0, 1) }));
    const { body } = await sendMany({ contactos, asunto: "Dear XYZNOMBREXYZ" });
    expect(body.sent).toBe(2);
    expect(eventsOf(await untilSent(body.eeid))).toEqual({
      "a@many.example.net": ["envio"],
      "A@many.example.net": ["envio"],
      "bad@many.example.net": ["unknown"],
    });
    expect((await received(body.eeid, "A@many.example.net")).subject).toBe("Dear A");
  });

  test("cuts a batch into partitions, all of which end", async () => {
    const contactos = Array.from({ length: 500 }, (_, i) => ({ email: `n${i}@d${i % 2}.example.net` }));
    const { body } = await sendMany({ contactos });
    expect(body.sent).toBe(500);
    const batch = await untilSent(body.eeid);
    expect(batch).toMatchObject({ cant_particiones: 6, particiones_tomadas: 6, particiones_finalizadas: 6 });
    expect(await stack.inbox("n499@d1.example.net")).toHaveLength(1);
  });

  test.each<[string, Fields, number, string]>([
    ["no contacts", { contactos: undefined }, 400, "falta contactos"],
    ["an empty list", { contactos: [] }, 400, "contactos invalido"],
    ["a contact without address", { contactos: [{}] }, 400, "falta email"],
    ["too many", { contactos: Array(50_001).fill({ email: "a@b.example.org" }) }, 413, "demasiado grande"],
  ])("refuses %s", async (_what, fields, status, on) => {
    const answer = await sendMany(fields);
    expect([answer.status, answer.body.on]).toEqual([status, on]);
  });
});

describe("the archive", () => {
  test("gives back the very octets that were sent", async () => {
    const contactos = [{ email: "kept@one.example.net" }, { email: "reject+kept@one.example.net" }];
    const { body } = await sendMany({ contactos, archive: true });
    const { octets } = await received(body.eeid, "kept@one.example.net");
    expect((await info(body.eeid)).archive).toEqual({
      mensajes: 2,
      octetos: expect.any(Number),
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
    });
    const kept = await stack.call("GET", `/eeid_eml/${body.eeid}/kept@one.example.net`);
    expect(kept.status).toBe(200);
    expect(kept.body.msg).toBe(octets.toString("latin1"));
    const stranger = await stack.call("GET", `/eeid_eml/${body.eeid}/stranger@one.example.net`);
    expect(stranger.status).toBe(400);
  });

  test("copies can be read too, and a batch sent without has none", async () => {
    const copia_oculta = [{ bcc_email: "hidden@one.example.net" }];
    const kept = (await sendOne({ archive: true, copia_oculta })).body.eeid;
    const notKept = (await sendOne()).body.eeid;
    await untilSent(kept);
    await untilSent(notKept);
    expect((await stack.call("GET", `/eeid_eml/${kept}/hidden@one.example.net`)).status).toBe(200);
    expect((await stack.call("GET", `/eeid_eml/${notKept}/ana@one.example.net`)).status).toBe(400);
    expect((await stack.call("GET", "/eeid_eml/x/ana@one.example.net")).status).toBe(404);
    expect((await stack.call("GET", "/eeid_info/x")).status).toBe(404);
  });

  test("says so when a copy is there no more, or never will be", async () => {
    const eeid = (await sendOne({ archive: true })).body.eeid;
    await untilSent(eeid);
    await stack.context.db("archived_messages").where({ eeid }).delete();
    const { status, body } = await stack.call("GET", `/eeid_eml/${eeid}/ana@one.example.net`);
    expect([status, body.on]).toEqual([404, "no hay copia de este mensaje"]);
  });

  test("is a send's own: who joins an archived batch without it has none", async () => {
    const eeid = (await sendOne({ archive: true })).body.eeid;
    const joined = { contacto: { email: "joined@one.example.net" }, reuse_eeid: true, eeid };
    await sendOne(joined);
    await untilSent(eeid);
    const { status, body } = await stack.call("GET", `/eeid_eml/${eeid}/joined@one.example.net`);
    expect([status, body.on]).toEqual([400, "envio no archivado"]);
    expect((await stack.call("GET", `/eeid_eml/${eeid}/ana@one.example.net`)).status).toBe(200);
    const stranger = await stack.call("GET", `/eeid_eml/${eeid}/stranger@one.example.net`);
    expect([stranger.status, stranger.body.on]).toEqual([400, "nada enviado a este destinatario"]);
  });

  test("has nothing for a copy that is left out, which the batch tells of", async () => {
    const email = "left-out@one.example.net";
    await stack.call("POST", "/contacto/", { email, invalido: true });
    const eeid = (await sendOne({ archive: true, copia: [{ cc_email: email }] })).body.eeid;
    await untilSent(eeid);
    const { contactos } = await info(eeid);
    expect(contactos.find((contacto: { email: string }) => contacto.email === email).eventos).toMatchObject([
      { eventos: "unknown" },
    ]);
    const { status, body } = await stack.call("GET", `/eeid_eml/${eeid}/${email}`);
    expect([status, body.on]).toEqual([400, "nada enviado a este destinatario"]);
  });

  test("needs the licence", async () => {
    const instance = () => stack.context.db("instances").where({ id: stack.instanceId });
    await instance().update({ archive: false });
    const { status, body } = await sendOne({ archive: true });
    await instance().update({ archive: true });
    expect([status, body.on]).toEqual([403, "licencia de archivo requerida"]);
  });
});

describe("Idempotency-Key", () => {
  test("a repeated call gets the first answer, and one with another body 409", async () => {
    const contacto = { email: "once@one.example.net" };
    const headers = { "Idempotency-Key": "order 1" };
    const first = await sendOne({ contacto }, headers);
    const again = await sendOne({ contacto }, headers);
    expect(again.body).toEqual(first.body);
    expect(Object.keys(again.body)).toEqual(["status", "sent", "eeid"]);
    const other = await sendOne({ contacto, asunto: "x" }, headers);
    expect([other.status, other.body.on]).toEqual([409, "Idempotency-Key repetida"]);
    await untilSent(first.body.eeid);
    expect(await stack.inbox("once@one.example.net")).toHaveLength(1);
  });

  test("calls at the same time get one answer", async () => {
    const contacto = { email: "atonce@one.example.net" };
    const calls = Array.from({ length: 8 }, () => sendOne({ contacto }, { "Idempotency-Key": "order 2" }));
    const eeids = new Set((await Promise.all(calls)).map(({ body }) => body.eeid));
    expect(eeids.size).toBe(1);
  });

  test("a refused call does not use the key up", async () => {
    const headers = { "Idempotency-Key": "order 3" };
    expect((await sendOne({ html: undefined }, headers)).status).toBe(400);
    expect((await sendOne({}, headers)).status).toBe(200);
  });
});
