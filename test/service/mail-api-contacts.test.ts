import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sendOctets } from "../support/hostile-http.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

const refusal = (on: string) => ({ status: "err", on });

/** The table of operations; POST and PUT, grupo and base are one there. */
const OPERATIONS = [
  "GET /v1/version",
  "GET /v1/cantidad_eventos",
  "GET /v1/ver_eventos",
  "GET /v1/contacto/{email}",
  "POST /v1/contacto",
  "GET /v1/contactos/invalidos",
  "GET /v1/invalidar/{email}",
  "GET /v1/revalidar/{email}",
  "GET /v1/whitelist/{email}",
  "POST /v1/whitelist/{email}",
  "PUT /v1/whitelist/{email}",
  "DELETE /v1/whitelist/{email}",
  "POST /v1/campania",
  "GET /v1/campania",
  "GET /v1/campania_apikey",
  "POST /v1/campania_apikey",
  "POST /v1/envio/send_one_uri",
  "POST /v1/envio/send_one_inline",
  "POST /v1/envio/send_one_form",
  "POST /v1/envio/send_many_uri",
  "POST /v1/envio/send_many_inline",
  "GET /v1/eeid_info/{eeid}",
  "GET /v1/eventos/stream",
  "GET /v1/eeid_eml/{eeid}/{email}",
  "POST /v1/grupo",
  "POST /v1/base",
  "GET /v1/filtros",
  "GET /v1/global",
  "POST /v1/global",
  "DELETE /v1/global",
];

describe("credentials", () => {
  test.each([
    ["no key", {}],
    ["an empty key", { Authorization: "" }],
    ["an unknown key", { Authorization: "nobody" }],
    ["the other instance's key", { Authorization: "api-key-of-south" }],
  ])("%s is 403", async (_, headers) => {
    const answer = await api.north.call("GET", "/v1/version", undefined, { Authorization: "", ...headers });
    expect(answer.status).toBe(403);
    expect(answer.body).toEqual(refusal("apikey invalida"));
  });

  test("at a host that no instance has the key alone decides; Bearer, port and case do not matter", async () => {
    const requests: Record<string, string>[] = [
      { Host: "127.0.0.1:8025" },
      { Host: "NORTH.TEST:8025" },
      { Host: "north.test." },
      { Authorization: "Bearer api-key-of-north" },
    ];
    for (const headers of requests) {
      const answer = await api.north.call("GET", "/v1/version/", undefined, headers);
      expect(answer).toMatchObject({ status: 200, body: { version: "1.5" } });
    }
  });

  test("path comes before method, method before key", async () => {
    const anonymous = { Authorization: "" };
    const path = await api.north.call("GET", "/v1/nothing", undefined, anonymous);
    expect([path.status, path.body]).toEqual([404, refusal("no existe")]);
    const method = await api.north.call("DELETE", "/v1/version", undefined, anonymous);
    expect([method.status, method.body]).toEqual([405, refusal("metodo no permitido")]);
    expect(method.headers.allow).toContain("GET");
  });

  test("a coding that is not read is named before the body is judged", async () => {
    const answer = await api.north.call("POST", "/v1/grupo", "{}", { "Content-Encoding": "zstd" });
    expect([answer.status, answer.body]).toEqual([415, refusal("content-encoding no admitido")]);
  });

  test.each([
    ["GARBAGE\r\n\r\n", 400, "peticion http invalida"],
    [`GET /v1/version HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`, 431, "cabeceras demasiado grandes"],
    ["GET /v1/version HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n", 417, "expectativa no admitida"],
    [
      `POST /v1/grupo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;${"x".repeat(20_000)}`,
      413,
      "demasiado grande",
    ],
  ])("what is no request is answered in the API's own words: %#", async (octets, status, on) => {
    const answer = await sendOctets(api.url, octets);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4))).toEqual(refusal(on));
  });

  test("a target that names an instance's host counts as its Host field does", async () => {
    const ask = (target: string, host: string) =>
      sendOctets(
        api.url,
        `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${api.north.key}\r\nConnection: close\r\n\r\n`,
      );
    expect(await ask("http://north.test/v1/version", "south.test")).toMatch(/^HTTP\/1\.1 200 /);
    expect(await ask("http://south.test/v1/version", "north.test")).toMatch(/^HTTP\/1\.1 403 /);
  });

  test("the OpenAPI document and the docs need no key", async () => {
    const document = await api.north.call("GET", "/openapi.json", undefined, { Authorization: "" });
    expect(document.body.openapi).toMatch(/^3\.1/);
    expect(document.body.info.version).toBe((await api.north.call("GET", "/v1/version")).body.version);
    const declared = Object.entries(document.body.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(declared.sort()).toEqual([...OPERATIONS].sort());
    const names = Object.values(document.body.paths).flatMap((methods) =>
      Object.values(methods as object).map(({ operationId }) => operationId),
    );
    expect(new Set(names).size).toBe(declared.length);
    const form = document.body.paths["/v1/envio/send_one_form"].post.requestBody.content["multipart/form-data"].schema;
    expect(form.required).toEqual(["campana_id", "contacto"]);
    expect(Object.keys(form.properties)).toEqual(expect.arrayContaining(["html_url", "attach1", "attach2"]));
    const parametersOf = (path: string, method: string) => document.body.paths[path][method].parameters;
    const pattern = new RegExp(parametersOf("/v1/ver_eventos", "get")[0].schema.pattern);
    const forms = ["2026-11-20_12:00:00", "2026-11-20T12:00:00", "", "2026-11-20", "2026-11-20 12:00:00"];
    expect(forms.map((form) => pattern.test(form))).toEqual([true, true, false, false, false]);
    for (const operation of ["one_uri", "one_inline", "one_form", "many_uri", "many_inline"]) {
      expect(parametersOf(`/v1/envio/send_${operation}`, "post")).toMatchObject([
        { in: "header", name: "Idempotency-Key" },
      ]);
      const {
        403: forbidden,
        404: unknown,
        409: repeated,
      } = document.body.paths[`/v1/envio/send_${operation}`].post.responses;
      expect(forbidden.description.includes("licencia de archivo requerida")).toBe(operation.endsWith("inline"));
      expect([unknown.description, repeated.description].join()).toMatch(/`no existe`.*`Idempotency-Key repetida`/);
    }
    const campaign = document.body.paths["/v1/campania"].get.responses["200"].content["application/json"].schema;
    expect(campaign.properties.campanias.items.properties.charset.description).toContain("UTF-8");
    // Patterns that only JavaScript understands make the document invalid for readers of other languages.
    expect(JSON.stringify(document.body)).not.toMatch(/\\\\p\{|\(\?[!<]/);
    expect((await api.north.call("GET", "/docs", undefined, { Authorization: "" })).status).toBe(200);
  });
});

describe("contacto", () => {
  test("created with nothing but an email, it has every field of the table", async () => {
    const created = await api.north.call("POST", "/v1/contacto/", { email: "ana@Example.org" });
    expect(created.status).toBe(200);
    expect(created.body).toEqual({
      status: "ok",
      contacto: {
        numid: expect.any(Number),
        email: "ana@example.org",
        nombre: "",
        apellido: "",
        edad: null,
        sexo: "",
        profesion: "",
        localidad: "",
        operacion: "alta",
        actualizado: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
        origenes: "",
        codigo_pais: "",
        codigo_region: "",
        ciudad: "",
        dispositivo: "",
        subtipo_dispositivo_id: null,
        grupo_de_dominio_id: 0,
        invalido: false,
        campos: [],
        eventos: [],
        grupos: [],
        campanias: [],
        campanias_desusc: [],
      },
    });
    const read = await api.north.call("GET", "/v1/contacto/ana@example.org");
    expect(read.body).toEqual(created.body);
  });

  test("an update keeps what it does not name; fields and groups add up, null removes a field", async () => {
    const email = "bruno@gmail.com";
    await api.north.call("POST", "/v1/contacto", {
      email,
      nombre: "Bruno",
      apellido: "Díaz",
      edad: 40,
      sexo: "M",
      profesion: "chef",
      localidad: "Rosario",
      codigo_pais: "AR",
      subtipo_dispositivo_id: 3,
      campos: [
        { nombre: "XYZCOLORXYZ", valor: "rojo" },
        { nombre: "TALLE", valor: "L" },
      ],
      grupos: ["clientes"],
    });
    const updated = await api.north.call("POST", "/v1/contacto/", {
      email,
      nombre: "Bruno José",
      edad: null,
      campos: [
        { nombre: "COLOR", valor: "azul" },
        { nombre: "XYZTALLEXYZ", valor: null },
      ],
      grupos: ["boletín", "clientes"],
    });
    expect(updated.body.contacto).toMatchObject({
      nombre: "Bruno José",
      apellido: "Díaz",
      edad: 40,
      sexo: "M",
      profesion: "chef",
      localidad: "Rosario",
      codigo_pais: "AR",
      subtipo_dispositivo_id: 3,
      operacion: "modificacion",
      grupo_de_dominio_id: 1,
      campos: [{ nombre: "XYZCOLORXYZ", valor: "azul" }],
      grupos: ["boletín", "clientes"],
      origenes: "boletín,clientes",
    });
    const cleared = await api.north.call("POST", "/v1/contacto", { email: updated.body.contacto.email, sexo: "" });
    expect(cleared.body.contacto).toMatchObject({ sexo: "", nombre: "Bruno José" });
  });

  test("addresses are compared by exact local part and A-label domain, and returned as they were given", async () => {
    const given = await api.north.call("POST", "/v1/contacto", { email: "eva@BÜCHER.example" });
    expect(given.body.contacto.email).toBe("eva@bücher.example");
    const found = await api.north.call("GET", "/v1/contacto/eva@xn--bcher-kva.example");
    expect(found.body.contacto.numid).toBe(given.body.contacto.numid);
    expect((await api.north.call("GET", "/v1/contacto/Eva@xn--bcher-kva.example")).status).toBe(404);
  });

  test("the path is percent-decoded", async () => {
    await api.north.call("POST", "/v1/contacto", { email: "a+b/c@example.org" });
    const found = await api.north.call("GET", "/v1/contacto/a%2Bb%2Fc%40example.org/");
    expect(found.body.contacto.email).toBe("a+b/c@example.org");
  });

  test("invalido by POST, the deprecated way, stores no event", async () => {
    const email = "old@example.org";
    const made = await api.north.call("POST", "/v1/contacto", { email, invalido: true });
    expect(made.body.contacto).toMatchObject({ invalido: true, eventos: [] });
    const kept = await api.north.call("POST", "/v1/contacto", { email, nombre: "Old" });
    expect(kept.body.contacto.invalido).toBe(true);
    const back = await api.north.call("POST", "/v1/contacto", { email, invalido: false });
    expect(back.body.contacto).toMatchObject({ invalido: false, eventos: [] });
  });

  test("another instance sees nothing of it, and has its own", async () => {
    await api.north.call("POST", "/v1/contacto", { email: "shared@example.org", nombre: "North" });
    expect((await api.south.call("GET", "/v1/contacto/shared@example.org")).status).toBe(404);
    await api.south.call("POST", "/v1/contacto", { email: "shared@example.org", nombre: "South" });
    const north = await api.north.call("GET", "/v1/contacto/shared@example.org");
    expect(north.body.contacto.nombre).toBe("North");
  });

  test.each([
    [{}, "falta email"],
    [{ email: null }, "falta email"],
    [{ email: 5 }, "email invalido"],
    [{ email: "a@b" }, "invalid email The domain name b is not valid. It should have a period."],
    [{ email: "plain" }, "invalid email The email address is not valid. It must have exactly one @-sign."],
    [{ email: "ñandú@example.org" }, "invalid email Internationalized characters before the @-sign are not supported."],
    [{ email: "c@example.org", nombre: 5 }, "nombre invalido"],
    [{ email: "c@example.org", nombre: "a\r\nBcc: x" }, "nombre invalido"],
    [{ email: "c@example.org", nombre: "a\0b" }, "nombre invalido"],
    [{ email: "c@example.org", nombre: "\ud800" }, "nombre invalido"],
    [{ email: "c@example.org", nombre: "a".repeat(501) }, "nombre invalido"],
    [{ email: "c@example.org", edad: "40" }, "edad invalido"],
    [{ email: "c@example.org", edad: 151 }, "edad invalido"],
    [{ email: "c@example.org", edad: -1 }, "edad invalido"],
    [{ email: "c@example.org", sexo: "MM" }, "sexo invalido"],
    [{ email: "c@example.org", invalido: "true" }, "invalido invalido"],
    [{ email: "c@example.org", campos: {} }, "campos invalido"],
    [{ email: "c@example.org", campos: ["x"] }, "campos invalido"],
    [{ email: "c@example.org", campos: [{ valor: "x" }] }, "falta nombre"],
    [{ email: "c@example.org", campos: [{ nombre: "X" }] }, "falta valor"],
    [{ email: "c@example.org", campos: [{ nombre: "X", valor: 1 }] }, "valor invalido"],
    [{ email: "c@example.org", grupos: "x" }, "grupos invalido"],
    [{ email: "c@example.org", grupos: [""] }, "grupos invalido"],
    [
      { email: "c@example.org", remitente: "x" },
      "remitente invalido The email address is not valid. It must have exactly one @-sign.",
    ],
    [{ email: "c@example.org", remitente: "x@elsewhere.example" }, "dominio remitente no permitido"],
    [
      { email: "c@example.org", remitente: "x@missing.example.net" },
      "remitente invalido The domain name missing.example.net does not exist.",
    ],
    [{ email: "c@example.org", remitente_nombre: 1 }, "remitente_nombre invalido"],
    ["{", "json invalido"],
    ["[]", "json invalido"],
    ['"text"', "json invalido"],
  ])("%j is 400 %s", async (body, on) => {
    const answer = await api.north.call("POST", "/v1/contacto/", body);
    expect(answer.body).toEqual(refusal(on));
    expect(answer.status).toBe(400);
    expect((await api.north.call("GET", "/v1/contacto/c@example.org")).status).toBe(404);
  });

  test("a sender domain whose look-up times out is no error", async () => {
    api.dns.set("slow.example.net", "timeout");
    const answer = await api.north.call("POST", "/v1/contacto", {
      email: "slow@example.org",
      remitente: "x@slow.example.net",
    });
    expect(answer.status).toBe(200);
  });

  test("an unknown contact is 404", async () => {
    for (const email of ["nobody@example.org", "plain", "a@b"]) {
      const answer = await api.north.call("GET", `/v1/contacto/${email}`);
      expect([answer.status, answer.body]).toEqual([404, refusal("no existe")]);
    }
  });

  test("twenty writers of one new address make one contact", async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        api.north.call("POST", "/v1/contacto", {
          email: "race@example.org",
          campos: [{ nombre: `F${index}`, valor: "x" }],
          grupos: [`g${index % 3}`, `g${(index + 1) % 3}`],
        }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
    const { contacto } = (await api.north.call("GET", "/v1/contacto/race@example.org")).body;
    expect(contacto.campos).toHaveLength(20);
    expect(contacto.grupos).toEqual(["g0", "g1", "g2"]);
  });
});

describe("addresses are judged and worded as python-email-validator 1.1.3 does", () => {
  interface Vector {
    readonly input: string;
    readonly allow_smtputf8: boolean;
    readonly mode: "syntax" | "deliverability";
    readonly ok: boolean;
    readonly error?: string;
  }
  const vectors: Vector[] = JSON.parse(
    readFileSync(new URL("../golden/mail/validator-vectors.json", import.meta.url), "utf8"),
  );

  test("in the email of a contact and in a sender, byte for byte", async () => {
    const judged = vectors.filter(({ mode, allow_smtputf8 }) => mode === "syntax" && !allow_smtputf8);
    expect(judged.length).toBeGreaterThan(50);
    for (const { input, ok, error } of judged) {
      const contact = await api.south.call("POST", "/v1/contacto", { email: input });
      expect([input, contact.status, contact.body.on]).toEqual(
        ok ? [input, 200, undefined] : [input, 400, `invalid email ${error}`],
      );
      const sender = await api.south.call("POST", "/v1/contacto", { email: "v@example.org", remitente: input });
      if (!ok) expect(sender.body).toEqual(refusal(`remitente invalido ${error}`));
      else expect([undefined, "dominio remitente no permitido"]).toContain(sender.body.on);
    }
  });
});

describe("contactos/invalidos", () => {
  test("lists the invalid ones of the caller only, however many, without eventos and campos", async () => {
    const other = await api.south.call("GET", "/v1/contactos/invalidos/");
    expect(other.body).toEqual({ status: "ok", contactos: [] });
    await api.db.raw(
      `insert into contacts (instance_id, email, email_key, invalid)
       select ?, 'many' || n || '@example.org', 'many' || n || '@example.org', true from generate_series(1, 1200) as n`,
      [api.south.id],
    );
    await api.north.call("POST", "/v1/contacto", { email: "north-only@example.org", invalido: true });
    const { body } = await api.south.call("GET", "/v1/contactos/invalidos");
    expect(body.contactos).toHaveLength(1200);
    expect(body.contactos[0]).toMatchObject({ email: "many1@example.org", invalido: true, grupos: [], campanias: [] });
    expect(body.contactos[0]).not.toHaveProperty("eventos");
    expect(body.contactos[0]).not.toHaveProperty("campos");
    const { contactos } = (await api.north.call("GET", "/v1/contactos/invalidos")).body;
    expect(contactos.map(({ email }: { email: string }) => email)).toContain("north-only@example.org");
  });
});
