import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ServiceName } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { runPalomar, startServices } from "../support/deployment.ts";
import { askDns, rcodeOf } from "../support/dns-client.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { openTcpGate, type TcpGate } from "../support/tcp-gate.ts";

let database: TestDatabase;
let gate: TcpGate;
let url: string;
const dataDirs: string[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  const given = new URL(database.url);
  gate = await openTcpGate({ host: given.hostname, port: Number(given.port) });
  url = Object.assign(given, { port: String(gate.port) }).href;
});
afterAll(async () => {
  await gate.shut();
  await database.drop();
  for (const dataDir of dataDirs) removeDataDir(dataDir);
});

function environment() {
  const dataDir = makeDataDir();
  dataDirs.push(dataDir);
  return { PALOMAR_DATA_DIR: dataDir, DATABASE_URL: url, PALOMAR_SECRET: "a secret that only tests know" };
}

it.each<[readonly ServiceName[], number, string]>([
  [["dns-server"], 200, "degraded"],
  [["dns-server", "dns-api"], 503, "not ready"],
])("while the database is away, /readyz of %j is %d, %s", async (services, status, word) => {
  const running = await startServices(services, environment());
  const ask = async () => {
    const answer = await fetch(`${running.addresses.metrics}/readyz`);
    return { status: answer.status, body: (await answer.json()) as { status: string; problems: string[] } };
  };
  try {
    await eventually(ask, (answer) => answer.status === 200 && answer.body.status === "ok");
    await gate.shut();
    await expect
      .poll(ask)
      .toMatchObject({ status, body: { status: word, problems: ["the database does not answer"] } });
    await gate.open();
    await eventually(ask, (answer) => answer.status === 200 && answer.body.status === "ok");
  } finally {
    await running.stop();
  }
});

it("name servers start within seconds where the database takes connections and says nothing", async () => {
  const env = environment();
  const start = async () => {
    const startedMs = performance.now();
    const running = await startServices(["dns-server"], env);
    return { running, tookMs: performance.now() - startedMs };
  };
  const before = await start();
  await before.running.stop();
  await gate.shut();
  await gate.hang();
  try {
    const { running, tookMs } = await start();
    // SERVFAIL would say that no zones are known yet.
    expect(rcodeOf(await askDns(running.addresses.dns!, "www.example.org", "A"))).toBe("REFUSED");
    await running.kill();
    // The driver gives up a connection after 10 s.
    expect(tookMs - before.tookMs).toBeLessThan(9_000);
  } finally {
    await gate.shut();
    await gate.open();
  }
});

it("without monitoring `status` says that a stack runs, and nothing once it does not", async () => {
  const env = { ...environment(), PALOMAR_METRICS_LISTEN: "off", PALOMAR_DNS_RESELLERS: "nobody" };
  const running = await startServices(["dns-server"], env);
  const asked = await runPalomar(["status"], env).finally(() => running.kill());
  expect(asked.stdout).toContain("\nstack    runs; its state is unknown (PALOMAR_METRICS_LISTEN is off)\n");
  expect(asked.stdout).toContain("WRONG    PALOMAR_DNS_RESELLERS: there is no reseller nobody\n");
  // What was killed has left its addresses.
  const later = await runPalomar(["status"], env);
  expect(later.stdout).toContain("\nstack    not ready here\n");
});

it("a service that is frozen is not ready: in /readyz, the metrics and `status`, until it goes on", async () => {
  const env = environment();
  const running = await startServices(["dns-server", "tracking"], env);
  const readiness = async () =>
    (await (await fetch(`${running.addresses.metrics}/readyz`)).json()) as { status: string; problems: string[] };
  const metrics = async () => (await fetch(`${running.addresses.metrics}/metrics`)).text();
  const frozen = Number(
    execFileSync("pgrep", ["-P", String(running.process.pid), "-f", "dns-server"], { encoding: "utf8" }),
  );
  try {
    process.kill(frozen, "SIGSTOP");
    await expect.poll(readiness).toEqual({ status: "not ready", problems: ["dns-server does not answer"] });
    expect(await metrics()).toContain('palomar_service_ready{service="dns-server"} 0\n');
    expect(await metrics()).toContain('palomar_service_ready{service="tracking"} 1\n');
    const { stdout } = await runPalomar(["status"], env);
    expect(stdout).toContain("WRONG    dns-server does not answer\n");
    process.kill(frozen, "SIGCONT");
    await eventually(readiness, ({ status }) => status === "ok");
    expect(await metrics()).toContain('palomar_service_ready{service="dns-server"} 1\n');
    expect(await metrics()).toContain('palomar_service_hangs_total{service="dns-server"} 0\n');
  } finally {
    process.kill(frozen, "SIGCONT");
    await running.stop();
  }
});

it("a database that is read-only, and a mailbox that cannot be read, are in the metrics as in `status`", async () => {
  const { db } = database;
  const name = new URL(database.url).pathname.slice(1);
  // Sessions have it from their start.
  const setReadOnly = async (value: "on" | "off") => {
    await db.raw(`begin read write; alter database ${name} set default_transaction_read_only = ${value}; commit`);
    await db.raw(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = ? and pid <> pg_backend_pid()",
      [name],
    );
  };
  const env = environment();
  const running = await startServices(["bounce"], env);
  const ask = async (path: string) => (await fetch(`${running.addresses.metrics}${path}`)).text();
  try {
    await db("mailboxes").insert({
      ...{ name: "reports", host: "mail.example.org", port: 993, security: "tls", username: "reports" },
      ...{ password_sealed: "sealed", folder: "INBOX", feedback: "fbl@example.org" },
      ...{ next_poll_at: new Date(Date.now() + 86_400_000), problem: "no route" },
    });
    const lines = async () => (await ask("/metrics")).split("\n");
    const shows = (...wanted: readonly unknown[]) => expect.poll(lines).toEqual(expect.arrayContaining([...wanted]));
    await shows('palomar_problems{kind="mailbox"} 1', 'palomar_problems{kind="quarantine"} 0');
    await shows("palomar_database_writable 1", expect.stringMatching(/^palomar_disk_free_ratio 0\.\d+$/));
    expect((await runPalomar(["status"], env)).stdout).toContain("WRONG    mailbox reports cannot be read: no route\n");
    await setReadOnly("on");
    const problem = "the database is read-only (a standby?)";
    await eventually(
      () => ask("/readyz"),
      (answer) => answer.includes(problem),
    );
    await shows("palomar_database_up 1", "palomar_database_writable 0");
  } finally {
    await setReadOnly("off");
    await db("mailboxes").delete();
    await running.stop();
  }
});
