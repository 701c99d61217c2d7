import { statSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { composeBanner } from "../../services/cli/banner.ts";
import { credentialsPath, makeDemoOnce, noteDemoShown } from "../../services/cli/demo.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { type Config, loadConfig } from "../../services/platform/config/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { makeDataDir, removeDataDir } from "../support/stack.ts";

let database: TestDatabase;
const dataDir = makeDataDir();

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(async () => {
  await database.drop();
  removeDataDir(dataDir);
});

const KEY_RING = KeyRing.ofSecret("a secret");

test("the demo credentials are shown once, by the first start that becomes ready", async () => {
  const start = () => makeDemoOnce(database.db, KEY_RING, dataDir);
  const [made, other] = await Promise.all([start(), start()]);
  expect(other).toEqual(made);
  expect(made).toMatchObject({ reseller: { id: "demo" }, operator: { login: "operator" } });
  expect(statSync(credentialsPath(dataDir)).mode & 0o777).toBe(0o600);
  expect(await makeDemoOnce(database.db, KEY_RING, dataDir)).toEqual(made);
  await noteDemoShown(database.db);
  expect(await makeDemoOnce(database.db, KEY_RING, dataDir)).toBeUndefined();
});

test("commands to try are printed where there is something to try", async () => {
  const { value: config } = loadConfig({ PALOMAR_DATA_DIR: dataDir }) as { value: Config };
  const banner = (addresses: Parameters<typeof composeBanner>[0]["addresses"]) =>
    composeBanner({ config, addresses, credentials: undefined, db: database.db });
  expect(await banner({ dns_api: "http://127.0.0.1:8053" })).toContain("Try it:\n  curl");
  expect(await banner({ metrics: "http://127.0.0.1:9464" })).not.toContain("Try it:");
});
