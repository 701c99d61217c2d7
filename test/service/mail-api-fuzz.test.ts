import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { expectNoFailure } from "../support/hostile-http.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { fc } from "../support/property.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
});

const FIELDS = {
  contacto: ["email", "nombre", "edad", "sexo", "invalido", "campos", "grupos", "remitente", "subtipo_dispositivo_id"],
  campania: [
    "tipo",
    "nombre",
    "remitente",
    "remitente_nombre",
    "asunto",
    "asunto_uri",
    "url",
    "charset",
    "desusc",
    "replyto",
    "numid",
  ],
  campania_apikey: ["numid", "apikey"],
  cantidad_eventos: ["fechahora_desde", "fechahora_hasta"],
  ver_eventos: ["fechahora_desde", "fechahora_hasta", "pagina", "cantidad"],
  grupo: ["nombre"],
  global: ["nombre", "valor"],
} as const;

const usual = fc.constantFrom(
  "a@example.org",
  "a@b",
  "api",
  "normal",
  "si",
  "http://example.org/",
  "XYZTAG-CURLXYZ",
  "2024-01-01_00:00:00",
  "9999-12-31T23:59:59",
  "0001-01-01_00:00:00",
  "M",
  0,
  1,
  10,
  -1,
  1e308,
  2 ** 53,
  true,
  null,
);
const value = fc.oneof(
  { weight: 3, arbitrary: usual },
  { weight: 2, arbitrary: fc.string({ unit: "binary" }) },
  { weight: 1, arbitrary: fc.jsonValue() },
  {
    weight: 1,
    arbitrary: fc.array(fc.record({ nombre: fc.oneof(fc.string(), usual), valor: fc.oneof(fc.string(), usual) })),
  },
);

const request = fc.constantFrom(...(Object.keys(FIELDS) as (keyof typeof FIELDS)[])).chain((operation) =>
  fc.record({
    method: fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"),
    path: fc.constantFrom(`/v1/${operation}`, `/v1/${operation}/`),
    body: fc.oneof(
      fc.record(Object.fromEntries(FIELDS[operation].map((field) => [field, value])), { requiredKeys: [] }),
      fc.jsonValue(),
      fc.string(),
    ),
  }),
);

const STATUSES = new Set([200, 400, 403, 404, 405, 413]);

test("whatever the fields hold, the answer is one of the documented ones", async () => {
  await fc.assert(
    fc.asyncProperty(request, async ({ method, path, body }) => {
      const answer = await api.north.call(method, path, body as object);
      expect(STATUSES).toContain(answer.status);
      if (answer.status !== 200) {
        expect(answer.body).toEqual({ status: "err", on: expect.any(String) });
      }
    }),
    { numRuns: 400 },
  );
  expect(api.failures).toEqual([]);
});

test("whatever stands in the path or the query, no answer is a 500", async () => {
  const part = fc.oneof(
    fc.string({ unit: "binary" }).filter((text) => !/\p{Surrogate}/u.test(text)),
    fc.constantFrom("a@example.org", "%", "%00", "%ff", "a%2fb@x.org", ".."),
  );
  const encode = (text: string) => (/^%(00|ff)?$/.test(text) ? text : encodeURIComponent(text));
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom("contacto", "invalidar", "revalidar", "whitelist", "campania", "ver_eventos", "campania_apikey"),
      fc.constantFrom("GET", "POST", "PUT", "DELETE"),
      part,
      part,
      async (operation, method, segment, query) => {
        const paths = [
          `/v1/${operation}/${encode(segment)}`,
          `/v1/${operation}?numid=${encode(query)}&pagina=${encode(query)}`,
        ];
        for (const path of paths) expect(STATUSES).toContain((await api.north.call(method, path)).status);
      },
    ),
    { numRuns: 200 },
  );
  expect(api.failures).toEqual([]);
});

test("what tries to confuse it, or who stands before it, is answered as nothing worse than a refusal", async () => {
  const paths = ["/v1/contacto", "/v1/campania", "/v1/eeid_info", "/v1/envio/send_one_form", "/docs"];
  await expectNoFailure(api.url, paths, `Authorization: ${api.north.key}\r\n`);
  expect(api.failures).toEqual([]);
});

test("who breaks off before its body is read keeps no place of the large requests that come after it", async () => {
  const { hostname, port } = new URL(api.url);
  const head = `POST /v1/contacto HTTP/1.1\r\nHost: a.test\r\nAuthorization: ${api.north.key}\r\n`;
  for (let n = 0; n < 20; n += 1) {
    const socket = connect(Number(port), hostname);
    await once(socket, "connect");
    socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n5\r\nab`);
    await sleep(n % 6);
    socket.resetAndDestroy();
  }
  const large = await api.north.call("POST", "/v1/grupo", { nombre: "x".repeat(70_000) });
  expect(large.status).toBe(400);
});

test("a body above the limit is 413, whatever it holds", async () => {
  const small = await startMailApi({ PALOMAR_API_BODY_LIMIT: "64KiB" });
  for (const body of [JSON.stringify({ nombre: "x".repeat(70_000) }), "x".repeat(70_000)]) {
    const answer = await small.north.call("POST", "/v1/grupo", body);
    expect([answer.status, answer.body.status]).toEqual([413, "err"]);
  }
  await small.stop();
});

test("what only reads has no large body, which would take a place of large requests", async () => {
  const read = (octets: number) => api.north.call("GET", "/v1/campania", `{}${" ".repeat(octets)}`);
  expect((await read(60_000)).status).toBe(200);
  expect((await read(70_000)).status).toBe(413);
});

test("a key that asks too often has to wait", async () => {
  const limited = await startMailApi({ PALOMAR_LIMIT_LOOPBACK: "true", PALOMAR_API_REQUESTS_PER_SECOND: "3" });
  // More than the limit lets through in as many seconds as they may take on a busy machine.
  const answers = await Promise.all(Array.from({ length: 100 }, () => limited.north.call("GET", "/v1/version")));
  const turnedAway = answers.filter(({ status }) => status === 429);
  expect(turnedAway.length).toBeGreaterThanOrEqual(2);
  expect(turnedAway[0]!.headers["retry-after"]).toBe("1");
  expect(turnedAway[0]!.body).toEqual({ status: "err", on: "demasiadas peticiones" });
  await limited.stop();
});
