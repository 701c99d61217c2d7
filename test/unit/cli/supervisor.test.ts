import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { CommandRefused } from "../../../services/cli/command-errors.ts";
import { nodeEnvironmentOf } from "../../../services/cli/node-options.ts";
import { type Foundation, Supervisor, type SupervisorOptions } from "../../../services/cli/supervisor.ts";
import { KeyRing } from "../../../services/core/key-ring.ts";
import { loadConfig } from "../../../services/platform/config/config.ts";
import { makeLogger } from "../../../services/platform/observability/logger.ts";
import { eventually } from "../../support/stack.ts";

const node = process.execPath;
let folder: string;
/** What runs in the place of node, and says at once that the service is ready. */
let standIn: string;
/** Where it leaves its process id. */
let pidFile: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-supervisor-"));
  [standIn, pidFile] = [join(folder, "stand-in"), join(folder, "pid")];
  const script = [
    `#!${node}`,
    `require("node:fs").writeFileSync(${JSON.stringify(pidFile)}, String(process.pid));`,
    `process.on("message", ({ kind }) => {`,
    `  if (kind === "stop") process.exit(0);`,
    `  if (kind === "ask") process.send({ kind: "answer" });`,
    `});`,
    `process.on("disconnect", () => process.exit(0));`,
    `process.send({ kind: "ready", addresses: {} });`,
  ];
  writeFileSync(standIn, script.join("\n"), { mode: 0o700 });
});
afterEach(() => {
  process.execPath = node;
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

const FOUNDATION = Promise.resolve<Foundation>({
  databaseUrlOf: () => "postgres://127.0.0.1:9/none",
  keyRing: KeyRing.ofSecret("a secret for tests only"),
});

function makeSupervisor(
  foundation = FOUNDATION,
  given: Partial<Pick<SupervisorOptions, "logger" | "pulse" | "services">> & {
    readonly environment?: NodeJS.ProcessEnv;
  } = {},
): Supervisor {
  const { environment = {}, ...options } = given;
  const config = loadConfig(environment);
  if (!config.ok) throw new Error(config.error.join("\n"));
  return new Supervisor({
    config: config.value,
    foundation,
    services: ["tracking"],
    logger: makeLogger("test", "silent"),
    ...options,
  });
}

/** What the system refuses shows in two ways: an `error` of what never began, as of EAGAIN, or an exception, as of ENOMEM. */
describe.each<readonly [how: string, impossible: () => string, text: RegExp]>([
  ["by an event", () => join(folder, "not-there"), /^tracking: spawn .*not-there ENOENT$/],
  ["by an exception", () => "\0", /^tracking: .*null bytes/],
])("a process that cannot be made, told %s,", (_, impossible, text) => {
  test("ends a start with the reason", async () => {
    process.execPath = impossible();
    const start = makeSupervisor().start();
    await expect(start).rejects.toBeInstanceOf(CommandRefused);
    await expect(start).rejects.toThrow(text);
  });

  test("is tried again when a service has ended", async () => {
    process.execPath = standIn;
    const supervisor = makeSupervisor();
    await supervisor.start();
    try {
      process.execPath = impossible();
      process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
      await eventually(
        async () => supervisor.restarts,
        ([counts]) => counts!.restarts >= 2,
      );
      expect(supervisor.problems).toEqual(["tracking is not ready"]);
      process.execPath = standIn;
      await eventually(
        async () => supervisor.problems,
        (problems) => problems.length === 0,
      );
    } finally {
      await supervisor.stop();
    }
  });
});

test("processes load before the database is there, and end when it does not come up", async () => {
  process.execPath = standIn;
  let refuse = (_: Error) => {};
  const foundation = new Promise<Foundation>((_, reject) => {
    refuse = reject;
  });
  const start = makeSupervisor(foundation).start();
  start.catch(() => {});
  const pid = await eventually(async () => existsSync(pidFile) && Number(readFileSync(pidFile, "utf8")), Boolean);
  refuse(new Error("no database"));
  await expect(start).rejects.toThrow("no database");
  expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH");
});

test.each([
  ["unless it is told", undefined, nodeEnvironmentOf("delivery").UV_THREADPOOL_SIZE],
  ["where an operator says so", "7", "7"],
])("delivery has a pool of its own size, %s", async (_, given, threads) => {
  process.execPath = standIn;
  vi.stubEnv("UV_THREADPOOL_SIZE", given);
  const supervisor = makeSupervisor(FOUNDATION, { services: ["delivery"] });
  await supervisor.start();
  try {
    const environment = readFileSync(`/proc/${readFileSync(pidFile, "utf8")}/environ`, "utf8").split("\0");
    expect(environment).toContain(`UV_THREADPOOL_SIZE=${threads}`);
  } finally {
    await supervisor.stop();
  }
});

test("the pool leaves a processor to the thread that delivers", () => {
  const sizes = [1, 2, 4, 64].map((processors) => nodeEnvironmentOf("delivery", processors).UV_THREADPOOL_SIZE);
  expect(sizes).toEqual(["1", "1", "3", "4"]);
  expect(nodeEnvironmentOf("dns-api", 2)).toEqual({});
});

test("a start that is stopped between two tries ends", async () => {
  writeFileSync(standIn, `#!${node}\nprocess.kill(process.pid, "SIGKILL");`, { mode: 0o700 });
  process.execPath = standIn;
  const ends: unknown[] = [];
  const supervisor = makeSupervisor(FOUNDATION, {
    logger: { error: (end: unknown) => ends.push(end), warn: () => {} },
  });
  const start = supervisor.start();
  start.catch(() => {});
  await eventually(
    async () => ends,
    ({ length }) => length > 0,
  );
  await supervisor.stop();
  const patience = sleep(5_000, undefined, { ref: false });
  await expect(Promise.race([start, patience])).rejects.toThrow("stopped");
});

const pidOf = () => Number(readFileSync(pidFile, "utf8"));
const problemsOf = (supervisor: Supervisor, problems: readonly string[]) =>
  eventually(
    async () => supervisor.problems,
    (found) => found.join() === problems.join(),
  );

test("a service that no longer answers is not ready, until it does again", async () => {
  process.execPath = standIn;
  const supervisor = makeSupervisor(FOUNDATION, { pulse: { everyMs: 50, silentAfter: 10, endAfter: 10_000 } });
  await supervisor.start();
  try {
    process.kill(pidOf(), "SIGSTOP");
    await problemsOf(supervisor, ["tracking does not answer"]);
    expect(supervisor.states).toEqual([{ name: "tracking", ready: false }]);
    const askedMs = performance.now();
    for (let time = 0; time < 20; time += 1) expect((await supervisor.collectMetrics()).flat()).toEqual([]);
    // Who is waited for has two seconds each time.
    expect(performance.now() - askedMs).toBeLessThan(20_000);
    process.kill(pidOf(), "SIGCONT");
    await problemsOf(supervisor, []);
    expect(supervisor.restarts).toEqual([{ name: "tracking", restarts: 0, hangs: 0 }]);
  } finally {
    await supervisor.stop();
  }
});

test("a service that does not answer for long is ended by force and started again", async () => {
  process.execPath = standIn;
  const supervisor = makeSupervisor(FOUNDATION, { pulse: { everyMs: 50, silentAfter: 10, endAfter: 20 } });
  await supervisor.start();
  try {
    const frozen = pidOf();
    process.kill(frozen, "SIGSTOP");
    const counted = await eventually(
      async () => supervisor.restarts,
      ([counts]) => counts!.restarts > 0,
    );
    expect(counted).toEqual([{ name: "tracking", restarts: 1, hangs: 1 }]);
    await problemsOf(supervisor, []);
    expect(pidOf()).not.toBe(frozen);
  } finally {
    await supervisor.stop();
  }
});

test("ports that the system chose stay a service's own when it is started again, of each of its addresses", async () => {
  const askedFile = join(folder, "asked");
  const addresses = { tracking: "http://127.0.0.1:11111,http://[::1]:22222", tracking_tls: "127.0.0.1:33333" };
  const script = [
    `#!${node}`,
    `const { PALOMAR_TRACKING_LISTEN: clear, PALOMAR_TRACKING_TLS_LISTEN: secure } = process.env;`,
    `require("node:fs").writeFileSync(${JSON.stringify(askedFile)}, process.pid + " " + clear + " " + secure);`,
    `process.on("message", ({ kind }) => kind === "stop" && process.exit(0));`,
    `process.on("disconnect", () => process.exit(0));`,
    `process.send({ kind: "ready", addresses: ${JSON.stringify(addresses)} });`,
  ];
  writeFileSync(standIn, script.join("\n"), { mode: 0o700 });
  process.execPath = standIn;
  const environment = {
    PALOMAR_TRACKING_LISTEN: "127.0.0.1:11111,[::1]:0",
    PALOMAR_TRACKING_TLS_LISTEN: "127.0.0.1:33333",
  };
  const supervisor = makeSupervisor(FOUNDATION, { environment });
  await supervisor.start();
  try {
    const [pid, ...before] = readFileSync(askedFile, "utf8").split(" ");
    process.kill(Number(pid), "SIGKILL");
    const after = await eventually(
      async () => readFileSync(askedFile, "utf8").split(" "),
      (asked) => asked.length === 3 && asked[0] !== pid,
    );
    expect(before).toEqual(["undefined", "undefined"]);
    expect(after.slice(1)).toEqual(["127.0.0.1:11111,[::1]:22222", "undefined"]);
  } finally {
    await supervisor.stop();
  }
});
