import { describe, expect, test } from "vitest";
import { z } from "zod";
import { forbidden } from "../../../../services/core/refusal.ts";
import { ok, refuse } from "../../../../services/core/result.ts";
import { type Dialect, inHeaders, statusOf } from "../../../../services/platform/http/dialect.ts";
import { type AnyEndpoint, type Door, endpoint } from "../../../../services/platform/http/endpoint.ts";
import { makeOpenapi } from "../../../../services/platform/http/openapi.ts";
import { packageVersion } from "../../../../services/platform/package-folder.ts";

const dialect: Dialect<null> = {
  title: "Test",
  description: "",
  base: "/v1",
  credentials: [inHeaders("Authorization", "Reseller"), inHeaders("Authorization")],
  queryFields: true,
  authenticate: async () => refuse({ kind: "unauthenticated" }),
  callerKey: () => "",
  say: ({ kind }) => kind,
  toHttp: (refusal) => ({ status: refusal.kind === "unauthenticated" ? 401 : statusOf(refusal), body: { msg: "" } }),
};

const base: Pick<AnyEndpoint<null>, "summary" | "reply" | "act"> = {
  summary: "",
  reply: z.object({}),
  act: async () => ok({}),
};

describe("what an operation may answer", () => {
  test("is what the API answers to a stranger, and what goes with its declaration", () => {
    expect(responsesOf({ ...base, method: "GET", path: "/a" })).toEqual(["200", "400", "401", "429", "default"]);
    const barred = forbidden("reseller-key-needed");
    const fields = z.object({ name: z.string() });
    expect(responsesOf({ ...base, method: "POST", path: "/a", authorise: () => barred, fields })).toEqual(
      ["200", "400", "401", "403", "413", "429", "default"], // a body, and not for everybody
    );
    expect(responsesOf({ ...base, method: "GET", path: "/a", open: true })).toEqual(["200", "400", "default"]);
    expect(responsesOf({ ...base, method: "PUT", path: "/a", open: true, replyStatus: 204 })).toContain("204");
  });

  test("has every reason for a status", () => {
    const refusals = { 401: "no licence", 404: "no such thing" };
    const { responses } = operationOf({ ...base, method: "GET", path: "/a", refusals } as AnyEndpoint<null>);
    expect(responses["401"]!.description).toBe("No credentials, or unknown ones; no licence");
    expect(responses["404"]!.description).toBe("no such thing");
  });
});

test("a reply of another type may be JSON as well", () => {
  const { responses } = operationOf({
    ...{ ...base, method: "GET", path: "/a", reply: z.string(), replyType: "text/plain" },
    jsonReply: z.object({ zone: z.string() }),
  });
  expect(responses["200"]!.content).toMatchObject({
    "text/plain": { schema: { type: "string" } },
    "application/json": { schema: { properties: { zone: { type: "string" } } } },
  });
});

describe("credentials", () => {
  const basic = { type: "http", scheme: "basic" } as const;
  const securityOf = (declared: object, otherDoor?: Door<null>) => {
    const endpoints = [{ ...base, method: "GET", path: "/a", ...declared }] as AnyEndpoint<null>[];
    const { paths, components } = makeOpenapi({ dialect, endpoints }, otherDoor);
    return [Object.values(paths ?? {}).map(({ get }) => get?.security), components?.securitySchemes];
  };
  const authorization = { type: "apiKey", in: "header", name: "Authorization" };
  const reseller = { type: "apiKey", in: "header", name: "Reseller" };
  const schemes = { Authorization: authorization, Reseller: reseller };

  test("are any of those that an API takes, or that an operation does", () => {
    expect(securityOf({})).toEqual([[[{ Authorization: [], Reseller: [] }, { Authorization: [] }]], schemes]);
    expect(securityOf({ open: true })).toEqual([[[]], schemes]);
    const credentials = [{ Basic: basic }];
    expect(securityOf({ credentials })).toEqual([[[{ Basic: [] }]], { ...schemes, Basic: basic }]);
  });

  test("are those of its own for each of two APIs in one document", () => {
    const other = { ...dialect, base: "/other", credentials: [inHeaders("X-API-Key")] };
    const endpoints = [{ ...base, method: "GET" as const, path: "/a" }];
    expect(securityOf({ open: true }, { dialect: other, endpoints })[0]).toEqual([[], [{ "X-API-Key": [] }]]);
  });
});

describe("the body of an operation", () => {
  test.each([
    ["text", "POST", undefined, ["text/plain"]],
    ["text", "PUT", "text/dns", ["text/dns"]],
    ["stream", "POST", "*/*", ["*/*"]],
    ["stream", "GET", undefined, []],
  ] as const)("%s of %s, said to be %s", (input, method, bodyType, types) => {
    const declared = { ...base, method, path: "/a", input, ...(bodyType && { bodyType }) };
    const { requestBody } = operationOf(endpoint<null, z.ZodRawShape, z.ZodType, z.ZodType>(declared));
    expect(Object.keys(requestBody?.content ?? {})).toEqual(types);
  });
});

describe("what an operation needs", () => {
  const named = z.object({ numid: z.int().meta({ description: "whose" }), apikey: z.string() });
  test.each([
    ["POST", { fields: named }, true, ["numid", "apikey"], {}],
    ["POST", { fields: named.partial() }, false, undefined, {}],
    ["PUT", { fields: named.partial().refine(({ numid }) => numid !== undefined) }, true, undefined, {}],
    // Where body and query stand in for each other, neither is needed.
    ["GET", { fields: named }, false, ["numid", "apikey"], { numid: undefined, apikey: undefined }],
    ["DELETE", { fields: named, queryFields: [] }, true, ["numid", "apikey"], {}],
    ["POST", { fields: named, queryFields: ["numid"] }, true, ["apikey"], { numid: undefined }],
    [
      "POST",
      { fields: named, queryFields: ["numid", "apikey"] },
      false,
      undefined,
      { numid: undefined, apikey: undefined },
    ],
    ["PUT", { fields: named, input: "text" }, true, undefined, { numid: true, apikey: true }],
    ["PUT", { input: "stream", bodyType: "*/*" }, false, undefined, {}],
  ] as const)("%s, case %#", (method, declared, isNeeded, ofBody, ofQuery) => {
    const { requestBody, parameters } = operationOf({ ...base, method, path: "/a", ...declared } as AnyEndpoint<null>);
    expect(requestBody?.required).toBe(isNeeded);
    expect(Object.values(requestBody?.content ?? {})[0]!.schema.required).toEqual(ofBody);
    expect(Object.fromEntries(parameters.map(({ name, required }) => [name, required]))).toEqual(ofQuery);
  });

  test("a header field that it heeds is a parameter", () => {
    const headerFields = z.object({ "Idempotency-Key": z.string().optional() });
    const { parameters } = operationOf({ ...base, method: "POST", path: "/a", headerFields });
    expect(parameters).toMatchObject([{ in: "header", name: "Idempotency-Key" }]);
  });

  test("a field that may come in the query keeps its description", () => {
    const { parameters } = operationOf({ ...base, method: "GET", path: "/a", fields: named });
    expect(parameters[0]).toMatchObject({ name: "numid", description: "whose" });
  });
});

test("the version is the API's own, or the product's", () => {
  expect(makeOpenapi({ dialect, endpoints: [] }).info.version).toBe(packageVersion);
  expect(makeOpenapi({ dialect: { ...dialect, version: "1.5" }, endpoints: [] }).info.version).toBe("1.5");
});

test("paths count from the root of the server that has the document", () => {
  expect(makeOpenapi({ dialect, endpoints: [] }).servers).toEqual([{ url: "/" }]);
});

test("a form has its fields and files", () => {
  const form = z.object({ campana_id: z.string(), attach1: z.file().optional() });
  const { requestBody } = operationOf({ ...base, method: "POST", path: "/a", input: "stream", form });
  const { schema } = requestBody!.content["multipart/form-data"]!;
  expect(requestBody!.required).toBe(true);
  expect(schema).toMatchObject({
    properties: { campana_id: { type: "string" }, attach1: { type: "string", format: "binary" } },
    required: ["campana_id"],
  });
});

test("an operation is named by its method and path", () => {
  const { paths } = makeOpenapi({ dialect, endpoints: [{ ...base, method: "GET", path: "/zone_file/:domain" }] });
  expect(paths!["/v1/zone_file/{domain}"]!.get!.operationId).toBe("getZoneFileDomain");
});

test("a body of text may be JSON as well", () => {
  const jsonBody = z.object({ create: z.array(z.string()) });
  const { requestBody } = operationOf({
    ...base,
    method: "POST",
    path: "/a",
    input: "text",
    bodyType: "text/dns",
    jsonBody,
  });
  expect(requestBody?.content).toMatchObject({
    "text/dns": { schema: { type: "string" } },
    "application/json": { schema: { properties: { create: { type: "array" } } } },
  });
});

interface Operation {
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: object }>>;
  readonly parameters: readonly { readonly name: string; readonly required?: boolean }[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Readonly<Record<string, { readonly schema: { readonly required?: readonly string[] } }>>;
  };
}

function operationOf(declared: AnyEndpoint<null>): Operation {
  const { paths } = makeOpenapi({ dialect, endpoints: [declared] });
  return Object.values(paths!["/v1/a"]!)[0] as Operation;
}

function responsesOf(declared: AnyEndpoint<null>): string[] {
  return Object.keys(operationOf(declared).responses);
}
