import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hashApiKey } from "../../services/core/api-key.ts";
import { authenticateCampaign, MOST_CAMPAIGNS } from "../../services/store/mail/campaigns/campaigns.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

const whole = {
  tipo: "api",
  nombre: "Avisos",
  remitente: "avisos@example.org",
  remitente_nombre: "Avisos ñ",
  asunto: "Hola",
  url: "https://www.example.org/hola.html",
  charset: "utf8",
  desusc: "no",
};

const without = (field: string) => Object.fromEntries(Object.entries(whole).filter(([key]) => key !== field));

describe("POST campania", () => {
  test("of type api returns its key, of type normal none", async () => {
    const made = await api.north.call("POST", "/v1/campania/", whole);
    expect(made.status).toBe(200);
    expect(made.body).toEqual({
      status: "ok",
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      numid: expect.any(Number),
      camp_apikey: expect.stringMatching(/^\S{8,128}$/),
    });
    const normal = await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "Normal" });
    expect(Object.keys(normal.body)).toEqual(["status", "id", "numid"]);
    expect(normal.body.numid).toBeGreaterThan(made.body.numid);
  });

  test.each<[body: unknown, on: string]>([
    ...["tipo", "nombre", "remitente", "remitente_nombre", "asunto", "url", "charset", "desusc"].map(
      (field): [unknown, string] => [without(field), `falta ${field}`],
    ),
    [{ ...whole, nombre: null }, "falta nombre"],
    [{ ...whole, nombre: "" }, "nombre invalido"],
    [{ ...whole, tipo: "bulk" }, "tipo invalido"],
    [{ ...whole, tipo: 1 }, "tipo invalido"],
    [{ ...whole, desusc: "yes" }, "desusc invalido"],
    [{ ...whole, url: "ftp://example.org/" }, "url invalido"],
    [{ ...whole, url: "" }, "url invalido"],
    [{ ...whole, url: "https://www.example.org/\r\nX: y" }, "url invalido"],
    [{ ...whole, asunto: "a\nb" }, "asunto invalido"],
    [{ ...whole, replyto: "nobody" }, "replyto invalido"],
    [{ ...whole, asunto: "XYZTAG-CURLXYZ" }, "falta asunto_uri"],
    [{ ...whole, asunto: "XYZTAG-CURLXYZ", asunto_uri: "javascript:1" }, "asunto_uri invalido"],
    [
      { ...whole, remitente: "a@b@c" },
      "remitente invalido The email address is not valid. It must have exactly one @-sign.",
    ],
    [{ ...whole, remitente: "a@elsewhere.example" }, "dominio remitente no permitido"],
    [{ ...whole, remitente: "a@sub.example.org" }, "dominio remitente no permitido"],
    [{ ...whole, remitente: "a@south.example.net" }, "dominio remitente no permitido"],
    [
      { ...whole, remitente: "a@missing.example.net" },
      "remitente invalido The domain name missing.example.net does not exist.",
    ],
    [{ tipo: "normal" }, "falta nombre"],
    [{ tipo: "normal", nombre: "x", remitente: "a@elsewhere.example" }, "dominio remitente no permitido"],
  ])("%j is 400 %s", async (body, on) => {
    const answer = await api.north.call("POST", "/v1/campania/", body);
    expect([answer.status, answer.body]).toEqual([400, { status: "err", on }]);
  });
});

describe("GET campania", () => {
  test("lists the caller's, without their keys; tipo and numid select, in a body or in the query", async () => {
    const { numid, id } = (
      await api.south.call("POST", "/v1/campania", {
        ...whole,
        asunto: "XYZTAG-CURLXYZ",
        asunto_uri: "http://example.org/asunto",
        replyto: "re@example.org",
      })
    ).body;
    const normal = (await api.south.call("POST", "/v1/campania", { tipo: "normal", nombre: "N" })).body;
    const all = await api.south.call("GET", "/v1/campania/");
    expect(all.body).toEqual({
      status: "ok",
      campanias: [
        {
          ...whole,
          id,
          numid,
          asunto: "XYZTAG-CURLXYZ",
          asunto_uri: "http://example.org/asunto",
          replyto: "re@example.org",
        },
        {
          id: normal.id,
          numid: normal.numid,
          tipo: "normal",
          nombre: "N",
          remitente: "",
          remitente_nombre: "",
          asunto: "",
          asunto_uri: "",
          replyto: "",
          url: "",
          charset: "",
          desusc: "",
        },
      ],
    });
    const selections = [
      api.south.call("GET", "/v1/campania/", { tipo: "normal" }),
      api.south.call("GET", "/v1/campania/?tipo=normal"),
      api.south.call("GET", "/v1/campania/", { numid: normal.numid }),
      api.south.call("GET", `/v1/campania?numid=${normal.numid}`),
    ];
    for (const { body } of await Promise.all(selections)) expect(body.campanias).toEqual([all.body.campanias[1]]);
    for (const nothing of [{ numid: 999_999_999 }, { tipo: "bulk" }]) {
      const answer = await api.south.call("GET", "/v1/campania", nothing);
      expect(answer.body).toEqual({ status: "ok", campanias: [] });
    }
    expect((await api.north.call("GET", "/v1/campania", { numid })).body.campanias).toEqual([]);
  });

  test("asunto_uri beside a static subject is ignored", async () => {
    const { numid } = (await api.south.call("POST", "/v1/campania", { ...whole, asunto_uri: "http://example.org/" }))
      .body;
    const { campanias } = (await api.south.call("GET", "/v1/campania", { numid })).body;
    expect(campanias[0].asunto_uri).toBe("");
  });

  test.each([
    [{ tipo: "other" }, "tipo invalido"],
    [{ numid: "1" }, "numid invalido"],
    [{ numid: 1.5 }, "numid invalido"],
  ])("%j is 400 %s", async (body, on) => {
    const answer = await api.north.call("GET", "/v1/campania", body);
    expect([answer.status, answer.body.on]).toEqual([400, on]);
  });
});

describe("campania_apikey", () => {
  test("reads and sets the key that SMTP accepts", async () => {
    const { numid, camp_apikey } = (await api.north.call("POST", "/v1/campania", whole)).body;
    for (const read of [
      await api.north.call("GET", `/v1/campania_apikey?numid=${numid}`),
      await api.north.call("GET", "/v1/campania_apikey/", { numid }),
    ]) {
      expect(read.body).toEqual({ status: "ok", numid, camp_apikey });
    }
    const inBody = await api.north.call("POST", "/v1/campania_apikey", { numid, apikey: "clave-nueva-1" });
    expect(inBody.body).toEqual({ status: "ok", numid, camp_apikey: "clave-nueva-1" });
    const inQuery = await api.north.call("POST", `/v1/campania_apikey?numid=${numid}`, { apikey: "clave-nueva-2" });
    expect(inQuery.body).toEqual({ status: "ok", numid, camp_apikey: "clave-nueva-2" });

    // A key in a URL would stand in access logs.
    const path = `/v1/campania_apikey?numid=${numid}&apikey=clave-nueva-3`;
    expect(await api.north.call("POST", path)).toMatchObject({ status: 400, body: { on: "falta apikey" } });

    const login = (key: string) =>
      authenticateCampaign(api.db, "north", numid, hashApiKey(api.keyRing, "campaign", key));
    expect(await login("clave-nueva-2")).toMatchObject({ numid, instanceId: api.north.id });
    expect(await login("clave-nueva-1")).toBeUndefined();
    expect(await login(camp_apikey)).toBeUndefined();
    expect(
      await authenticateCampaign(api.db, "south", numid, hashApiKey(api.keyRing, "campaign", "clave-nueva-2")),
    ).toBeUndefined();
  });

  test("refuses what is not there, not of type api, or no key", async () => {
    const { numid } = (await api.north.call("POST", "/v1/campania", whole)).body;
    const normal = (await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "N" })).body;
    const outcomes: [string, unknown, number, string][] = [
      ["GET", undefined, 400, "falta numid"],
      ["GET", { numid: 999_999_999 }, 404, "no existe"],
      ["GET", { numid: normal.numid }, 400, "numid invalido"],
      ["POST", { apikey: "12345678" }, 400, "falta numid"],
      ["POST", { numid }, 400, "falta apikey"],
      ["POST", { numid, apikey: "short" }, 400, "apikey invalido"],
      ["POST", { numid, apikey: "with a space" }, 400, "apikey invalido"],
      ["POST", { numid, apikey: "x".repeat(129) }, 400, "apikey invalido"],
      ["POST", { numid: normal.numid, apikey: "12345678" }, 400, "numid invalido"],
      ["POST", { numid: 999_999_999, apikey: "12345678" }, 404, "no existe"],
    ];
    for (const [method, body, status, on] of outcomes) {
      const answer = await api.north.call(method, "/v1/campania_apikey", body);
      expect([method, body, answer.status, answer.body.on]).toEqual([method, body, status, on]);
    }
    expect((await api.south.call("GET", `/v1/campania_apikey?numid=${numid}`)).status).toBe(404);
    expect((await api.south.call("POST", "/v1/campania_apikey", { numid, apikey: "12345678" })).status).toBe(404);
  });
});

describe("an instance with all the campaigns that it may have", () => {
  beforeAll(async () => {
    await api.db.raw(
      `insert into campaigns (id, instance_id, type, name)
       select gen_random_uuid(), ?, 'normal', 'n' || n from generate_series(1, ?) as n`,
      [api.north.id, MOST_CAMPAIGNS],
    );
  });
  afterAll(async () => {
    await api.db("campaign_unsubscriptions").where({ instance_id: api.north.id }).delete();
    await api.db("campaigns").where({ instance_id: api.north.id }).delete();
  });

  test("makes no more, and another one does", async () => {
    const full = await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "N" });
    expect([full.status, full.body]).toEqual([400, { status: "err", on: "campania: mas de 50000 en la instancia" }]);
    expect((await api.south.call("POST", "/v1/campania", { tipo: "normal", nombre: "N" })).status).toBe(200);
  });

  test("tells of a contact who has unsubscribed from all of them", async () => {
    const email = "nobody@example.net";
    await api.north.call("POST", "/v1/contacto", { email });
    await api.db.raw(
      `insert into campaign_unsubscriptions (instance_id, campaign_numid, contact_id)
       select campaigns.instance_id, numid, contacts.id from campaigns
       join contacts on contacts.instance_id = campaigns.instance_id where campaigns.instance_id = ? and email = ?`,
      [api.north.id, email],
    );
    const { contacto } = (await api.north.call("GET", `/v1/contacto/${email}`)).body;
    expect(contacto).toMatchObject({ email, grupos: [], campanias: [], campos: [], eventos: [] });
    expect(contacto.campanias_desusc.length).toBeGreaterThanOrEqual(MOST_CAMPAIGNS);
    expect(contacto.campanias_desusc.at(-1)).toEqual({ numid: expect.any(Number), nombre: `n${MOST_CAMPAIGNS}` });
  });
});
