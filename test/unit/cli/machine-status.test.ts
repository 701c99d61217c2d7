import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { inspectMachine } from "../../../services/cli/machine-status.ts";
import { type Config, loadConfig } from "../../../services/platform/config/config.ts";
import { makeServerCertificate } from "../../support/certificates.ts";

const folder = mkdtempSync(join(tmpdir(), "palomar-machine-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function configWith(environment: Readonly<Record<string, string>>): Config {
  const loaded = loadConfig(environment);
  if (!loaded.ok) throw new Error(loaded.error.join("; "));
  return loaded.value;
}

it("knows how much of the data folder's disk is left; a folder that is not there has none", async () => {
  const here = await inspectMachine(configWith({ PALOMAR_DATA_DIR: folder }), new Date());
  expect(here).toEqual({ diskFreePercent: expect.any(Number), certificate: null });
  expect(here.diskFreePercent).toBeLessThanOrEqual(100);
  const nowhere = configWith({ PALOMAR_DATA_DIR: join(folder, "not there") });
  expect((await inspectMachine(nowhere, new Date())).diskFreePercent).toBeNull();
});

it("knows when the certificate ends, or why it cannot be used", async () => {
  const { cert, key } = await makeServerCertificate("mail.example.org", { daysLeft: 9 });
  const files = { PALOMAR_TLS_CERT: join(folder, "cert.pem"), PALOMAR_TLS_KEY: join(folder, "key.pem") };
  const config = configWith({ PALOMAR_DATA_DIR: folder, ...files });
  expect((await inspectMachine(config, new Date())).certificate).toEqual({
    problem: expect.stringContaining("ENOENT"),
  });
  writeFileSync(files.PALOMAR_TLS_CERT, cert);
  writeFileSync(files.PALOMAR_TLS_KEY, key);
  const inHalfADay = new Date(Date.now() + 43_200_000);
  expect((await inspectMachine(config, inHalfADay)).certificate).toEqual({ endsInDays: 8 });
  const inTenDays = new Date(Date.now() + 10 * 86_400_000);
  expect((await inspectMachine(config, inTenDays)).certificate).toEqual({ endsInDays: -2 });
});
