import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import type { Refusal } from "../../../../services/core/refusal.ts";
import { ok } from "../../../../services/core/result.ts";
import { makeApp } from "../../../../services/platform/http/app.ts";
import { type AnyEndpoint, type Method, RawReply } from "../../../../services/platform/http/endpoint.ts";
import { type HttpListener, listenHttp } from "../../../../services/platform/http/listen.ts";

const DECLARED: readonly (readonly [Method, string])[] = [
  ["GET", "/"],
  ["GET", "/rr/:domain"],
  ["POST", "/rr/:domain"],
  ["POST", "/rr/:domain/batch"],
  ["PUT", "/rr/:domain/:rr_id"],
  ["POST", "/rr/:domain/:rr_id"],
  ["GET", "/api/:whose/*path"],
];

let listener: HttpListener;

beforeAll(async () => {
  const endpoints = DECLARED.map(
    ([method, path]): AnyEndpoint<undefined> => ({
      method,
      path,
      summary: path,
      open: true,
      params: z.looseObject({}),
      reply: z.unknown(),
      act: async ({ params }) => ok(new RawReply("application/json", JSON.stringify({ path, params }))),
    }),
  );
  const app = makeApp<undefined>({
    dialect: {
      title: "Routing",
      description: "",
      base: "/v1",
      credentials: [],
      queryFields: false,
      authenticate: async () => ok(undefined),
      callerKey: () => "",
      say: ({ kind }) => kind,
      toHttp: (refusal: Refusal) => ({
        status: refusal.kind === "wrong-method" ? 405 : 404,
        body: { kind: refusal.kind, ...(refusal.kind === "invalid-field" && { field: refusal.field }) },
      }),
    },
    endpoints,
    bodyLimitOctets: 100,
    observe: () => undefined,
  });
  listener = (await listenHttp(app, [{ host: "127.0.0.1", port: 0 }], { observe: () => {} }))!;
});
afterAll(() => listener.close());

async function ask(method: string, path: string) {
  const response = await fetch(listener.url + path, { method });
  const text = await response.text();
  return { status: response.status, allow: response.headers.get("Allow"), body: text === "" ? null : JSON.parse(text) };
}

test("OPTIONS * is of no path", async () => {
  const { hostname, port } = new URL(listener.url);
  const asked = request({ hostname, port, method: "OPTIONS", path: "*" }).end();
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  expect([response.statusCode, JSON.parse(await text(response))]).toEqual([404, { kind: "unknown-path" }]);
});

describe("a path leads to the operation that is declared for it", () => {
  test.each([
    ["GET", "/v1/", "/", {}],
    ["GET", "/v1/rr/example.org", "/rr/:domain", { domain: "example.org" }],
    ["GET", "/v1/rr/example.org/", "/rr/:domain", { domain: "example.org" }],
    ["GET", "/v1/rr/example.org?domain=other", "/rr/:domain", { domain: "example.org" }],
    ["POST", "/v1/rr/a.test/batch", "/rr/:domain/batch", { domain: "a.test" }],
    ["PUT", "/v1/rr/batch/7", "/rr/:domain/:rr_id", { domain: "batch", rr_id: "7" }],
    ["GET", "/v1/rr/batch", "/rr/:domain", { domain: "batch" }],
    ["POST", "/v1/rr/a.test/7", "/rr/:domain/:rr_id", { domain: "a.test", rr_id: "7" }],
    [
      "PUT",
      "/v1/rr/0%2F25.2.0.192.in-addr.arpa/%C3%B1",
      "/rr/:domain/:rr_id",
      { domain: "0/25.2.0.192.in-addr.arpa", rr_id: "ñ" },
    ],
    ["PUT", "/v1/rr/100%25/7", "/rr/:domain/:rr_id", { domain: "100%", rr_id: "7" }],
    ["GET", "/v1/api/one/a", "/api/:whose/*path", { whose: "one", path: "a" }],
    ["GET", "/v1/api/one/a/b%20c/d", "/api/:whose/*path", { whose: "one", path: "a/b c/d" }],
  ])("%s %s: %s", async (method, path, declared, params) => {
    expect(await ask(method, path)).toEqual({ status: 200, allow: null, body: { path: declared, params } });
  });

  test("a name of 63 escaped octets a label, four times", async () => {
    const domain = Array(4).fill("\\000".repeat(63)).join(".");
    const { body } = await ask("GET", `/v1/rr/${encodeURIComponent(domain)}`);
    expect(body.params).toEqual({ domain });
  });
});

describe("a parameter that is no percent-encoded UTF-8 is an invalid field", () => {
  test.each([
    ["PUT", "/v1/rr/100%/7", "domain"],
    ["PUT", "/v1/rr/a.test/%FF", "rr_id"],
    ["GET", "/v1/rr/%zz", "domain"],
    ["GET", "/v1/api/one/a/%C3/%A9", "path"],
    ["PUT", "/v1/rr/a.test/7?a=%C3%B1&name=%ff", "name"],
    ["PUT", "/v1/rr/a.test/7?%ff=a", "query"],
  ])("%s %s: %s", async (method, path, field) => {
    expect((await ask(method, path)).body).toEqual({ kind: "invalid-field", field });
  });
});

describe("a path that nothing is declared for is 404", () => {
  test.each([
    "/v2/rr/example.org",
    "/v1/RR/a.test",
    "/v1/rr//7",
    "/v1/rr",
    "/v1/rr/a.test//",
    "/v1/rr/a.test/7/8",
    "/v1/api/one",
    "/v1/api/one/",
    "/v1/api//a",
    "/v1/other/one/a",
  ])("%s", async (path) => {
    expect(await ask("GET", path)).toEqual({ status: 404, allow: null, body: { kind: "unknown-path" } });
  });
});

describe("another method is 405, with those that there are", () => {
  test.each([
    ["DELETE", "/v1/rr/a.test", "HEAD, GET, POST"],
    ["OPTIONS", "/v1/rr/a.test/", "HEAD, GET, POST"],
    ["GET", "/v1/rr/a.test/batch", "POST"],
    ["PUT", "/v1/rr/a.test/batch/", "POST"],
    ["GET", "/v1/rr/a.test/7", "PUT, POST"],
    ["PROPFIND", "/v1/api/one/a", "HEAD, GET"],
    ["POST", "/docs", "HEAD, GET"],
  ])("%s %s: %s", async (method, path, allow) => {
    expect(await ask(method, path)).toEqual({ status: 405, allow, body: { kind: "wrong-method" } });
  });

  test("what has GET has HEAD", async () => {
    expect(await ask("HEAD", "/v1/rr/a.test")).toEqual({ status: 200, allow: null, body: null });
  });
});

test("whoever accepts problems is refused in one, with the API's words and what they are made of (RFC 9457)", async () => {
  const accepting = (accept: string) =>
    fetch(`${listener.url}/v1/rr/a.test`, { method: "DELETE", headers: { accept } });
  const told = await accepting("application/json, application/problem+json;q=0.5");
  expect(told.headers.get("Content-Type")).toBe("application/problem+json");
  expect([told.status, told.headers.get("Allow"), await told.json()]).toEqual([
    405,
    "HEAD, GET, POST",
    {
      title: "Method Not Allowed",
      status: 405,
      detail: "wrong-method",
      code: "wrong-method",
      values: { methods: "HEAD, GET, POST" },
    },
  ]);
  expect((await accepting("Application/Problem+JSON")).headers.get("Content-Type")).toBe("application/problem+json");
  for (const accept of ["application/json, */*", "*/*, application/problem+json;q=0", "text/problem", ""]) {
    expect(await (await accepting(accept)).json(), accept).toEqual({ kind: "wrong-method" });
  }
});
