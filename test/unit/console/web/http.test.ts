import { afterEach, expect, test, vi } from "vitest";
import { request } from "../../../../services/console/web/src/http.ts";
import { invalidField, sentenceOf, unacceptable } from "../../../../services/core/refusal.ts";
import { sentence } from "../../../../services/core/sentences.ts";
import { PROBLEM_TYPE, problemOf } from "../../../../services/platform/http/problem.ts";

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
  expect(await request("GET", "/zones")).toEqual({
    ok: false,
    error: { status: 0, message: "", values: {}, body: undefined },
  });
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
  [unacceptable("user-exists", { login: "ana" }), "login"],
  [unacceptable("zone-exists", { domain: "example.org" }), "fqdn"],
  [unacceptable("email-invalid", { reason: sentence("one-at-sign") }), "email"],
  [invalidField("host", "too-long"), "host"],
  [unacceptable("company-key-wrong"), undefined],
])("a refusal is about a field, also one that names none: %j", async (refusal, field) => {
  answerWith(JSON.stringify(problemOf(refusal, 400, "in words")), PROBLEM_TYPE, 400);
  const answer = await request("POST", "/x");
  expect(answer).toMatchObject({
    ok: false,
    error: { status: 400, message: "in words", code: sentenceOf(refusal).code },
  });
  expect(answer.ok ? undefined : answer.error.field).toBe(field);
});
