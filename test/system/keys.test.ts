import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { formatKeyFile } from "../../services/core/key-file.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { SERVICE_NAMES } from "../../services/platform/service.ts";
import { palomarJson, runPalomar, startServices } from "../support/deployment.ts";
import { makeDataDir, removeDataDir } from "../support/stack.ts";

const SECRET = "a secret that only tests know";
const PREVIOUS = "the secret before that one";
const SERVICES = SERVICE_NAMES.filter((name) => name !== "sandbox");
const dataDir = makeDataDir();
const withSecret = { PALOMAR_DATA_DIR: dataDir, PALOMAR_SECRET: SECRET };
afterAll(() => removeDataDir(dataDir));

/** Nobody listens there: what is refused for its keys is refused before. */
const NOWHERE = "postgres://nobody@127.0.0.1:9/none";

it("`secret keys` prints the keys of a service, `secret split` writes those of all, for their user alone", async () => {
  const whole = KeyRing.ofSecret(SECRET, [PREVIOUS]);
  const env = { ...withSecret, PALOMAR_SECRET_PREVIOUS: PREVIOUS };
  expect(await runPalomar(["secret", "keys", "bounce"], env)).toMatchObject({
    status: 0,
    stdout: formatKeyFile(whole, "bounce"),
  });
  const folder = join(dataDir, "split");
  await palomarJson(["secret", "split", folder], env);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(readdirSync(folder).sort()).toEqual(SERVICES.map((name) => `keys_${name.replaceAll("-", "_")}`).sort());
  for (const name of SERVICES) {
    const file = join(folder, `keys_${name.replaceAll("-", "_")}`);
    expect(readFileSync(file, "utf8")).toBe(formatKeyFile(whole, name));
    expect(statSync(file).mode & 0o777).toBe(0o600);
  }
  // Another secret's take their place, whatever mode the file had.
  const one = join(folder, "keys_bounce");
  chmodSync(one, 0o644);
  await palomarJson(["secret", "keys", "bounce", "--out", one], withSecret);
  expect(readFileSync(one, "utf8")).toBe(formatKeyFile(KeyRing.ofSecret(SECRET), "bounce"));
  expect(statSync(one).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder)).toHaveLength(SERVICES.length);
});

it("they are refused where the secret is not, or the file cannot be written", async () => {
  const file = join(dataDir, "only-bounce");
  await palomarJson(["secret", "keys", "bounce", "--out", file], withSecret);
  const env = { PALOMAR_DATA_DIR: dataDir, DATABASE_URL: NOWHERE, PALOMAR_KEYS_FILE: file };
  for (const words of [["keys", "bounce"], ["split", join(dataDir, "none")], ["reseal"]]) {
    expect(await runPalomar(["secret", ...words], env)).toMatchObject({
      status: 1,
      stderr: "palomar: PALOMAR_KEYS are not enough: this needs PALOMAR_SECRET\n",
    });
  }
  expect(existsSync(join(dataDir, "none"))).toBe(false);
  const folder = join(dataDir, "split");
  const { status, stderr } = await runPalomar(["secret", "keys", "bounce", "--out", folder], withSecret);
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(`${folder} cannot be written`) });
  expect(readdirSync(dataDir).filter((name) => name.startsWith("split"))).toEqual(["split"]);
});

it("a service that is started with another's key file says what it lacks, and ends with 2", async () => {
  const file = join(dataDir, "keys-of-tracking");
  await palomarJson(["secret", "keys", "tracking", "--out", file], withSecret);
  const env = { PALOMAR_DATA_DIR: dataDir, DATABASE_URL: NOWHERE, PALOMAR_KEYS_FILE: file };
  expect(await runPalomar(["start", "bounce", "tracking"], env)).toEqual({
    ...{ status: 2, stdout: "" },
    stderr: "palomar: PALOMAR_KEYS: bounce needs keys that are not among them: return-path, mailbox-password\n",
  });
});

it.each([
  [{ PALOMAR_KEYS: "nonsense" }, "PALOMAR_KEYS: line 1 is not a purpose and keys of 64 hexadecimal digits"],
  [{ PALOMAR_KEYS: "# none", PALOMAR_SECRET: SECRET }, "PALOMAR_KEYS: set as well as PALOMAR_SECRET"],
  [{ PALOMAR_KEYS: "# none", PALOMAR_SECRET_PREVIOUS: SECRET }, "PALOMAR_KEYS: set as well as PALOMAR_SECRET_PREVIOUS"],
  [{ PALOMAR_KEYS: "# none", DATABASE_URL: "" }, "PALOMAR_KEYS: needs DATABASE_URL"],
  [{}, "PALOMAR_SECRET: required when DATABASE_URL is set"],
])("%j is a wrong configuration", async (given, problem) => {
  const env = { PALOMAR_DATA_DIR: dataDir, DATABASE_URL: NOWHERE, ...given };
  expect(await runPalomar(["start", "bounce"], env as Record<string, string>)).toMatchObject({
    status: 2,
    stderr: expect.stringContaining(`palomar: ${problem}`),
  });
});

it("files that others can read are named at the start", async () => {
  const file = join(dataDir, "open-keys");
  writeFileSync(file, formatKeyFile(KeyRing.ofSecret(SECRET), "bounce"));
  const started = async (mode: number) => {
    chmodSync(file, mode);
    const env = { PALOMAR_DATA_DIR: dataDir, DATABASE_URL: NOWHERE, PALOMAR_KEYS_FILE: file };
    const { status, stderr } = await runPalomar(["start", "delivery"], env);
    expect(status).toBe(2); // which needs other keys
    return stderr;
  };
  expect(await started(0o644)).toContain(`PALOMAR_KEYS_FILE: every user of this machine may read ${file}: chmod 600`);
  expect(await started(0o640)).toContain(`PALOMAR_KEYS_FILE: the group may read ${file}: chmod 600`);
  expect(await started(0o600)).not.toContain("may read");
});

it.skipIf(process.platform !== "linux")(
  "on one machine, no service's process has the secret or another's keys in its environment",
  async () => {
    const folder = join(dataDir, "stack");
    mkdirSync(folder);
    const env = { PALOMAR_DATA_DIR: folder, PALOMAR_SECRET: SECRET, PALOMAR_SECRET_PREVIOUS: PREVIOUS };
    const stack = await startServices(["tracking", "dns-server"], env);
    try {
      const children = readFileSync(`/proc/${stack.process.pid}/task/${stack.process.pid}/children`, "utf8").trim();
      const environments = children.split(" ").map((pid) => {
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return { command, environment: readFileSync(`/proc/${pid}/environ`, "utf8") };
      });
      const services = environments.filter(({ command }) => command.includes("service-process"));
      expect(services).toHaveLength(2);
      const keys = KeyRing.ofSecret(SECRET).keyFor("return-path").export().toString("hex");
      for (const { command, environment } of services) {
        expect(`${command}${environment}`).not.toContain(SECRET);
        expect(environment).not.toContain(PREVIOUS);
        expect(environment).not.toContain(keys);
        expect(environment).toContain("PALOMAR_KEYS=\0");
        expect(environment).not.toMatch(/(^|\0)DATABASE_URL=[^\0]/);
      }
    } finally {
      await stack.stop();
    }
  },
);
