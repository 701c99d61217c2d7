import { expect, test } from "vitest";
import { z } from "zod";
import { takesQuery } from "../../../../services/platform/http/endpoint.ts";

test.each([
  [{ method: "GET" }, true, true],
  [{ method: "DELETE" }, true, true],
  [{ method: "POST" }, true, false],
  [{ method: "GET" }, false, false],
  [{ method: "POST", queryFields: ["name"] }, false, true],
  [{ method: "POST", queryFields: ["other"] }, true, false],
  [{ method: "DELETE", queryFields: [] }, true, false],
  [{ method: "PUT", input: "text" }, false, true],
  [{ method: "POST", input: "stream" }, false, true],
] as const)("a field of %j, of an API that says %s, may come in the query: %s", (declared, queryFields, expected) => {
  const endpoint = {
    ...declared,
    path: "/",
    summary: "",
    reply: z.unknown(),
    act: async () => ({ ok: true }) as never,
  };
  expect(takesQuery(endpoint, { queryFields }, "name")).toBe(expected);
});
