import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import Koa from "koa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebFiles } from "../../../services/console/web-files.ts";
import { type HttpListener, listenHttp } from "../../../services/platform/http/listen.ts";
import { callApi } from "../../support/api-client.ts";

const SCRIPT = "console.info(1);".repeat(50);
let folder: string;
let listener: HttpListener;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "palomar-web-"));
  mkdirSync(join(folder, "assets"));
  writeFileSync(join(folder, "index.html"), "<!doctype html><title>Palomar</title>");
  writeFileSync(join(folder, "icon.svg"), "<svg/>");
  const script = join(folder, "assets/app-Bx9k2Lm0.js");
  writeFileSync(script, SCRIPT);
  writeFileSync(`${script}.br`, brotliCompressSync(SCRIPT));
  writeFileSync(`${script}.gz`, gzipSync(SCRIPT));
  const files = (await WebFiles.load(folder))!;
  const app = new Koa();
  app.use(async (ctx) => {
    if (!(await files.serve(ctx))) ctx.status = 404;
  });
  listener = (await listenHttp(app, [{ host: "127.0.0.1", port: 0 }], { observe: () => {} }))!;
});
afterAll(async () => {
  await listener.close();
  rmSync(folder, { recursive: true });
});

const get = (path: string, headers: Record<string, string> = {}) => callApi("GET", listener.url + path, headers);

test("assets with hashed names are kept for ever, and come compressed to whoever takes it", async () => {
  const plain = await get("/assets/app-Bx9k2Lm0.js");
  expect(plain).toMatchObject({ status: 200, body: SCRIPT });
  expect(plain.headers).toMatchObject({
    "cache-control": "public, max-age=31536000, immutable",
    "content-type": "text/javascript; charset=utf-8",
    vary: "Accept-Encoding",
  });
  for (const [accepted, encoding] of [
    ["gzip, deflate, br", "br"],
    ["gzip", "gzip"],
    ["br;q=0, gzip;q=0", undefined],
  ] as const) {
    const { headers } = await get("/assets/app-Bx9k2Lm0.js", { "Accept-Encoding": accepted });
    expect(headers["content-encoding"]).toBe(encoding);
  }
});

test.each(["/", "/index.html", "/dns/one/zones/example.org", "/campaigns"])(
  "%s is the page, revalidated",
  async (path) => {
    const { status, headers, body } = await get(path, { Accept: "text/html,*/*;q=0.8" });
    expect(status).toBe(200);
    expect(body).toContain("<title>Palomar</title>");
    expect(headers["cache-control"]).toBe("no-cache");
    expect(headers["content-security-policy"]).toContain("script-src 'self';");
    expect(headers["content-security-policy"]).toContain("default-src 'none'");
  },
);

test.each(["/assets/gone-Bx9k2Lm0.js", "/admin/v1/nothing", "/docs/x"])("%s is nothing", async (path) => {
  expect((await get(path, { Accept: "text/html" })).status).toBe(404);
});

test.each(["/../package.json", "/%2e%2e/package.json", "/..%2fpackage.json"])("%s leads nowhere else", async (path) => {
  expect((await get(path, { Accept: "*/*" })).status).toBe(404);
});

test("a page is for those who take HTML", async () => {
  expect((await get("/zones", { Accept: "*/*" })).status).toBe(404);
  expect((await get("/", { Accept: "*/*" })).status).toBe(200);
});

test("without a build there is nothing to serve", async () => {
  expect(await WebFiles.load(join(folder, "missing"))).toBeUndefined();
});
