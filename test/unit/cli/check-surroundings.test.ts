import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { requireDataFolder } from "../../../services/cli/data-folder.ts";
import { withDatabase } from "../../../services/cli/database.ts";
import { checkPaths, checkSurroundings } from "../../../services/cli/stack.ts";
import { loadConfig } from "../../../services/platform/config/config.ts";
import { SERVICE_NAMES, type ServiceName } from "../../../services/platform/service.ts";
import { writeMmdb } from "../../support/mmdb.ts";
import { createCertificate } from "../dns-server/test-certificate.ts";

const NO_TRACKING = { PALOMAR_TRACKING_LISTEN: "off" };
const NO_SANDBOX = { PALOMAR_SANDBOX_LISTEN: "off" };

test.each<[Record<string, string>, readonly ServiceName[], string[]]>([
  [{}, SERVICE_NAMES, []],
  [
    { ...NO_TRACKING, ...NO_SANDBOX },
    SERVICE_NAMES,
    [
      "PALOMAR_TRACKING_LISTEN: off, so PALOMAR_TRACKING_URL has to say where links of messages lead",
      "PALOMAR_SANDBOX_LISTEN: off, while PALOMAR_DELIVERY is sandbox",
    ],
  ],
  [{ ...NO_TRACKING, PALOMAR_TRACKING_URL: "https://track.example.org" }, SERVICE_NAMES, []],
  [{ ...NO_SANDBOX, PALOMAR_DELIVERY: "mx" }, ["delivery"], []],
  [{ ...NO_TRACKING, ...NO_SANDBOX }, ["dns-server", "dns-api"], []],
])("%j for %j", async (environment, services, problems) => {
  const dataDir = mkdtempSync(join(tmpdir(), "palomar-surroundings-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  const config = loadConfig({ PALOMAR_DATA_DIR: dataDir, ...environment });
  if (!config.ok) throw new Error(config.error.join());
  expect(await checkSurroundings(config.value, services)).toEqual(problems);
});

test("a data folder that is a file, or below one, is named with its variable", async () => {
  const parent = mkdtempSync(join(tmpdir(), "palomar-surroundings-"));
  onTestFinished(() => rmSync(parent, { recursive: true }));
  const file = join(parent, "file");
  writeFileSync(file, "");
  for (const dataDir of [file, join(file, "data"), "/dev/null"]) {
    const config = loadConfig({ PALOMAR_DATA_DIR: dataDir });
    if (!config.ok) throw new Error(config.error.join());
    const problem = /^PALOMAR_DATA_DIR: .*(no folder|not a directory)/;
    expect(await checkSurroundings(config.value, SERVICE_NAMES)).toEqual([expect.stringMatching(problem)]);
    expect(() => requireDataFolder(config.value)).toThrow(problem);
    await expect(withDatabase({ config: config.value, note: () => {} }, async () => {})).rejects.toThrow(problem);
  }
});

test("a certificate and a key that do not go together are named with their variables", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "palomar-surroundings-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  const [one, other] = [await createCertificate(), await createCertificate()];
  const at = (name: string, text: string) => {
    writeFileSync(join(dataDir, name), text);
    return join(dataDir, name);
  };
  const [cert, key, otherKey, none] = [at("c", one.cert), at("k", one.key), at("o", other.key), at("n", "none")];
  const cases = [
    [cert, key, []],
    [cert, otherKey, [`PALOMAR_TLS_KEY: ${otherKey} is not the key of PALOMAR_TLS_CERT, ${cert}`]],
    [none, key, [`PALOMAR_TLS_CERT: ${none} holds no PEM certificate`]],
    [cert, none, [`PALOMAR_TLS_KEY: ${none} holds no PEM private key without a passphrase`]],
  ] as const;
  for (const [certPath, keyPath, problems] of cases) {
    const config = loadConfig({ PALOMAR_DATA_DIR: dataDir, PALOMAR_TLS_CERT: certPath, PALOMAR_TLS_KEY: keyPath });
    if (!config.ok) throw new Error(config.error.join());
    expect(await checkSurroundings(config.value, ["submission"])).toEqual(problems);
  }
});

test("a file that is no place database is named with its variable, beside what else is wrong", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "palomar-surroundings-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true }));
  const at = (name: string, content: string | Buffer) => {
    writeFileSync(join(dataDir, name), content);
    return join(dataDir, name);
  };
  const good = at("good", writeMmdb({ "192.0.2.0/24": { country: { iso_code: "AR" } } }));
  const problemsOf = async (placeDatabase: string) => {
    const { certPath, keyPath } = { certPath: at("cert", "none"), keyPath: at("key", "none") };
    return checkPaths({ certPath, keyPath, placeDatabase, dataDir });
  };
  const cert = `PALOMAR_TLS_CERT: ${join(dataDir, "cert")} holds no PEM certificate`;
  expect(await problemsOf(good)).toEqual([cert]);
  for (const path of [at("text", "root:x:0:0\n".repeat(50)), at("empty", ""), dataDir]) {
    expect(await problemsOf(path)).toEqual([cert, `PALOMAR_PLACE_DATABASE: ${path} holds no place database (MMDB)`]);
  }
  const missing = join(dataDir, "missing");
  expect(await problemsOf(missing)).toEqual([expect.stringMatching(/^PALOMAR_PLACE_DATABASE: ENOENT.*missing/), cert]);
});
