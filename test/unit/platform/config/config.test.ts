import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { loadConfig, unknownVariables } from "../../../../services/platform/config/config.ts";

const folder = mkdtempSync(join(tmpdir(), "palomar-config-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function fileWith(text: string): string {
  const file = join(folder, "secret");
  writeFileSync(file, text);
  return file;
}

const URL = "postgres://palomar@db.test/palomar";

it("a secret may stand in a file, as container engines hand them over", () => {
  const loaded = loadConfig({ DATABASE_URL: URL, PALOMAR_SECRET_FILE: fileWith("sixteen characters and more\n") });
  expect(loaded).toMatchObject({ ok: true, value: { secret: "sixteen characters and more" } });
});

it.each([
  [{ PALOMAR_SECRET_FILE: "/nowhere/secret" }, "PALOMAR_SECRET: PALOMAR_SECRET_FILE: ENOENT"],
  [
    { PALOMAR_SECRET: "sixteen characters", PALOMAR_SECRET_FILE: "/nowhere" },
    "PALOMAR_SECRET: set as well as PALOMAR_SECRET_FILE",
  ],
  [{ PALOMAR_SECRET_PREVIOUS: "sixteen characters,short" }, "PALOMAR_SECRET_PREVIOUS: must be secrets of at least 16"],
  [{ PALOMAR_LISTEN_DATABASE_URL: "mysql://x" }, "PALOMAR_LISTEN_DATABASE_URL: must be a postgres:// URL"],
])("%j: %s", (env, problem) => {
  expect(loadConfig(env)).toMatchObject({ ok: false, error: [expect.stringContaining(problem)] });
});

it("all that is wrong is said at once, with what does not go together", () => {
  const wrong = { DATABASE_URL: "mysql://x", PALOMAR_MX_LISTEN: "x", PALOMAR_TLS_CERT: "cert.pem" };
  expect(loadConfig(wrong)).toMatchObject({
    ok: false,
    error: [
      "PALOMAR_MX_LISTEN: must be host:port, several parted by commas, or off",
      "DATABASE_URL: must be a postgres:// URL",
      "PALOMAR_SECRET: required when DATABASE_URL is set (or PALOMAR_KEYS)",
      "PALOMAR_TLS_KEY: certificate and key go together",
    ],
  });
});

it.each([
  ["postgres://palo@/db?host=/run/postgresql", "postgres://palo@localhost/db?host=/run/postgresql"],
  ["postgres://palo:a%40b@:5433/db?host=/run", "postgres://palo:a%40b@localhost:5433/db?host=/run"],
  ["postgres:///db?host=/run", "postgres:///db?host=/run"],
  [`${URL}?sslmode=require&a=b`, `${URL}?sslmode=verify-full&a=b`],
  [`${URL}?sslmode=require&uselibpqcompat=true`, `${URL}?sslmode=require&uselibpqcompat=true`],
  [`${URL}?sslmode=no-verify`, `${URL}?sslmode=no-verify`],
  [`${URL}?sslmode=verify`, undefined],
  [`${URL}?sslrootcert=/nowhere/ca.pem`, undefined],
])("%s as a database", (given, taken) => {
  const loaded = loadConfig({ DATABASE_URL: given, PALOMAR_SECRET: "sixteen characters" });
  if (taken !== undefined) expect(loaded).toMatchObject({ ok: true, value: { databaseUrl: taken } });
  else
    expect(loaded).toMatchObject({
      error: [expect.stringMatching(/^DATABASE_URL: (sslmode must be|sslrootcert: ENOENT)/)],
    });
});

it("secrets before the one in force are a list", () => {
  expect(loadConfig({ PALOMAR_SECRET_PREVIOUS: "the first of two secrets, the second of two secrets" })).toMatchObject({
    value: { previousSecrets: ["the first of two secrets", "the second of two secrets"], listenDatabaseUrl: null },
  });
});

it("[::] beside an IPv4 address leaves IPv4 to that one, and alone takes both", () => {
  const loaded = loadConfig({
    PALOMAR_MX_LISTEN: "0.0.0.0:25,[::]:25",
    PALOMAR_SUBMISSION_LISTEN: "[::]:587",
    PALOMAR_SUBMISSIONS_LISTEN: "192.0.2.1:465,[2001:db8::1]:465",
  });
  expect(loaded.ok && loaded.value.listen).toMatchObject({
    mx: [
      { host: "0.0.0.0", port: 25 },
      { host: "::", port: 25, ipv6Only: true },
    ],
    submission: [{ host: "::", port: 587 }],
  });
});

it("knows its own variables, files included", () => {
  expect(unknownVariables({ PALOMAR_SECRET_FILE: "", PALOMAR_NODE_FILE: "", PALOMAR_NODE: "", PATH: "" })).toEqual([
    "PALOMAR_NODE_FILE",
  ]);
});
