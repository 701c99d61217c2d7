import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { parseJsonBody, parseTextBody, readBody, unreadBody } from "../../../../services/platform/http/request-body.ts";

const LIMIT = 1_000;

/** A request whose body comes in these chunks. */
function requestOf(chunks: readonly (string | Buffer)[], headers: Record<string, string> = {}): IncomingMessage {
  const octets = chunks.map((chunk) => Buffer.from(chunk as string));
  return Object.assign(Readable.from(octets), { headers, complete: true }) as unknown as IncomingMessage;
}

/** An object with so many members. */
const membersOf = (many: number, from = 0) =>
  `{${Array.from({ length: many }, (_, index) => `"${from + index}":1`).join(",")}}`;

const readJson = async (chunks: readonly (string | Buffer)[], headers?: Record<string, string>) => {
  const body = await readBody(requestOf(chunks, headers), LIMIT);
  return body.ok ? parseJsonBody(body.value) : body;
};

describe("a JSON body", () => {
  it.each([
    ["nothing", [], {}],
    ["an object", ['{"a":1}'], { a: 1 }],
    ["an array", [" [1]"], [1]],
    [
      "characters that are parted",
      [Buffer.from([0x7b, 0x22, 0xc3]), Buffer.from([0xb1, 0x22, 0x3a, 0x31, 0x7d])],
      { ñ: 1 },
    ],
    ["a byte order mark", ["\ufeff{}"], {}],
  ])("reads %s", async (_, chunks, expected) => {
    expect(await readJson(chunks)).toEqual({ ok: true, value: expected });
  });

  it.each([
    ["a scalar", ["1"]],
    ["half a text", ['{"a":']],
    ["what is not UTF-8", [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])]],
  ])("refuses %s", async (_, chunks) => {
    expect(await readJson(chunks)).toEqual({ ok: false, error: { kind: "malformed-json" } });
  });

  it("refuses what is too large, announced or not, compressed or not", async () => {
    const tooLarge = { ok: false, error: { kind: "too-large" } };
    const large = `{"a":"${"x".repeat(LIMIT)}"}`;
    expect(await readJson([large])).toEqual(tooLarge);
    expect(await readJson(["{}"], { "content-length": String(LIMIT + 1) })).toEqual(tooLarge);
    expect(await readJson([gzipSync(large)], { "content-encoding": "gzip" })).toEqual(tooLarge);
  });

  it.each([
    ["empty objects", `[${"{},".repeat(2_000_000)}{}]`],
    ["empty lists, in an object", `{"a":[${"[],".repeat(2_000_000)}[]]}`],
    ["levels", "[".repeat(2_000_001)],
    ["names of members of an object", membersOf(10_001)],
    [
      "names of members of many objects",
      `[${Array.from({ length: 1_001 }, (_, i) => membersOf(10, 10 * i)).join(",")}]`,
    ],
    ["numbers, behind a text with a quote", `["\\"",${"1,".repeat(2_000_001)}1]`],
  ])("refuses more than it would parse: %s", (_, text) => {
    expect(parseJsonBody(Buffer.from(text))).toEqual({ ok: false, error: { kind: "too-large" } });
  });

  it("takes a few names of members, however often they are there, in texts too", () => {
    const text = `{"list":[${Array.from({ length: 100 }, () => membersOf(9_998)).join(",")}],"a":${JSON.stringify(membersOf(9_998, 9_998))}}`;
    expect(parseJsonBody(Buffer.from(text)).ok).toBe(true);
  });

  it.each([
    ["brackets and commas", "[{,".repeat(1_000_000)],
    ["quotes and backslashes", '\\"[,\\\\'.repeat(1_000_000)],
  ])("counts nothing within a text: %s", (_, text) => {
    const { ok } = parseJsonBody(Buffer.from(`{"a":"${text}"}`));
    expect(ok).toBe(true);
  });

  it.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["GZIP", gzipSync],
    ["x-gzip", gzipSync],
  ])("decompresses %s", async (encoding, compress) => {
    const headers = { "content-encoding": encoding };
    expect(await readJson([compress('{"a":1}')], headers)).toEqual({ ok: true, value: { a: 1 } });
    expect(await readJson(["no such thing"], headers)).toEqual({ ok: false, error: { kind: "malformed-json" } });
  });

  it("takes an empty list of encodings for none", async () => {
    expect(await readJson(['{"a":1}'], { "content-encoding": "" })).toEqual({ ok: true, value: { a: 1 } });
  });

  it("refuses encodings that it does not know", async () => {
    const refused = { ok: false, error: { kind: "unknown-coding", known: ["identity", "gzip", "deflate", "br"] } };
    expect(await readJson(["{}"], { "content-encoding": "zstd" })).toEqual(refused);
    expect(await readJson(["{}"], { "content-encoding": "gzip, br" })).toEqual(refused);
  });
});

describe("a request that its client has broken off before its turn", () => {
  it.each<Record<string, string>>([{}, { "content-encoding": "gzip" }])("is at its end: %j", async (headers) => {
    const request = requestOf(["{}"], headers);
    (request as unknown as Readable).destroy();
    await new Promise((resolve) => (request as unknown as Readable).once("close", resolve));
    expect(await readBody(request, LIMIT)).toEqual({ ok: false, error: { kind: "malformed-json" } });
    expect(unreadBody(request)).toEqual({ ok: false, error: { kind: "malformed-json" } });
  });
});

describe("a body of text", () => {
  it("is taken as it is, and must be UTF-8", () => {
    expect(parseTextBody(Buffer.from("a\nñ"))).toEqual({ ok: true, value: "a\nñ" });
    expect(parseTextBody(Buffer.from([0xe1]))).toMatchObject({
      ok: false,
      error: { kind: "invalid-field", field: "body" },
    });
  });
});
