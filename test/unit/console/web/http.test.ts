import { afterEach, expect, test, vi } from "vitest";
import { request } from "../../../../services/console/web/src/http.ts";

afterEach(() => vi.unstubAllGlobals());

const answerWith = (body: string | ReadableStream, type = "application/json", status = 200) =>
  vi.stubGlobal("fetch", async () => new Response(body, { status, headers: { "Content-Type": type } }));

test("an answer whose connection breaks in the middle is one that did not come", async () => {
  const broken = new ReadableStream({
    start: (controller) => {
      controller.enqueue(new TextEncoder().encode('{"zones":['));
      controller.error(new TypeError("network error"));
    },
  });
  answerWith(broken);
  expect(await request("GET", "/zones")).toEqual({ ok: false, error: { status: 0, msg: "", body: undefined } });
});

test("who gave up waiting is told nothing", async () => {
  const abort = new AbortController();
  abort.abort();
  answerWith(new ReadableStream({ start: (controller) => controller.error(abort.signal.reason) }));
  await expect(request("GET", "/zones", { signal: abort.signal })).rejects.toThrow("abort");
});

test("JSON is parsed, other text is given as it is", async () => {
  answerWith('{"zones":[]}');
  expect(await request("GET", "/zones")).toEqual({ ok: true, value: { zones: [] } });
  answerWith("@ NS ns1.example.net.", "text/plain");
  expect(await request("GET", "/zones")).toEqual({ ok: true, value: "@ NS ns1.example.net." });
});

test.each([
  [{ msg: "user ana already exists", code: "user-exists", values: { login: "ana" } }, "login"],
  [{ msg: "duplicated zone: example.org" }, "fqdn"],
  [{ status: "err", on: "invalid email The email address is not valid. It must have exactly one @-sign." }, "email"],
  [{ msg: "invalid field: host: is too long" }, "host"],
  [{ msg: "apikey does not match" }, undefined],
])("a refusal is about a field, also one that names none: %j", async (body, field) => {
  answerWith(JSON.stringify(body), "application/json", 400);
  const answer = await request("POST", "/x");
  expect(answer.ok ? undefined : answer.error.field).toBe(field);
});
