/**
 * `npm run bench:tracking [seconds]`: clicks a second through the tracking service, answered and stored, with the
 * database (fsync on) on the same machine; by `wrk` where it is installed, else by a client of our own. At its end the
 * service is killed under load: every click that was answered must be in the database after the next start.
 */

import { type ChildProcess, execFile, fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { KeyRing } from "../../services/core/key-ring.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { trackHtml } from "../../services/core/mail/tracking-html.ts";
import { makeClickToken } from "../../services/core/mail/tracking-tokens.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { makeObserve } from "../../services/platform/observability/observe.ts";
import { type Db, openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import { addCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { EVENT_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { addInstance, findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { saveTrackedLinks } from "../../services/store/mail/tracking/tracking.ts";
import { start } from "../../services/tracking/main.ts";

const KEY_RING = KeyRing.ofSecret("the secret of the benchmark");
const RECIPIENTS = 20_000;
const CONNECTIONS = 32;
const KILL_AFTER_MS = 1_000;
const CAMPAIGN = {
  type: "api",
  name: "bench",
  sender: "info@bench.test",
  senderName: "",
  subject: "Hi",
  subjectUri: "",
  replyTo: "",
  url: "",
  charset: "utf8",
  unsubscribe: false,
} as const;

/** How fast clicks are answered. */
interface Speed {
  readonly clicksPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

if (process.argv[2] === "serve") await serve(process.argv[3] as string, process.argv[4] as string);
else await measure(Number(process.argv[2] ?? 10));

/** The service in a process of its own, as under the supervisor; ends when its parent does. */
async function serve(databaseUrl: string, dataDir: string): Promise<void> {
  const config = loadConfig({ PALOMAR_TRACKING_LISTEN: "127.0.0.1:0", PALOMAR_DATA_DIR: dataDir });
  if (!config.ok) throw new Error(config.error.join("\n"));
  const db = openDb(databaseUrl, { connections: 10, name: "bench" });
  const logger = makeLogger("tracking", "warn");
  const service = await start({
    config: config.value,
    keyRing: KEY_RING,
    db,
    clock: systemClock,
    logger,
    observe: makeObserve(logger),
    openListenConnection: () => openListenConnection(databaseUrl, "bench"),
    addressOf: () => Promise.reject(new Error("tracking asks for no sibling")),
  });
  process.send?.(service.addresses.tracking);
  await once(process, "disconnect");
  await service.stop();
  await db.destroy();
}

async function measure(seconds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
  const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("bench", "error") });
  const db = openDb(postgres.url, { connections: 4, name: "bench set-up" });
  try {
    await migrate(db);
    const paths = await makeClickPaths(db);
    const first = await startService(postgres.url, folder);
    const cpuAtStartMs = cpuMs(first.process);
    const hasWrk = spawnSync("wrk", ["-v"]).error === undefined;
    const speed = hasWrk
      ? await measureWithWrk(first.url, paths, { seconds, folder })
      : await measureWithClient(first.url, paths, seconds);
    const { clicksPerSecond, p50Ms, p99Ms } = speed;
    print(
      `${clicksPerSecond} clicks a second answered; p50 ${p50Ms} ms, p99 ${p99Ms} ms${hasWrk ? "" : " (no wrk here)"}`,
    );
    const storedMs = await untilSettled(db);
    const clicks = await countClicks(db);
    const cpuMicroseconds = Math.round((cpuMs(first.process) - cpuAtStartMs) * (1_000 / clicks));
    print(`${clicks} clicks in the database, the last one ${storedMs} ms after the load ended`);
    print(`the service took ${cpuMicroseconds} µs of processor time a click`);

    const before = await countClicks(db);
    setTimeout(() => first.process.kill("SIGKILL"), KILL_AFTER_MS);
    const { answered } = await load(first.url, paths, seconds);
    const second = await startService(postgres.url, folder);
    await untilSettled(db);
    const stored = (await countClicks(db)) - before;
    print(`killed under load: ${answered} clicks answered, ${stored} stored`);
    if (stored < answered) throw new Error(`${answered - stored} answered clicks are lost`);
    print(JSON.stringify({ ...speed, cpuMicroseconds, storedMs, killed: { answered, stored } }));
    second.process.disconnect();
    await once(second.process, "exit");
  } finally {
    await db.destroy();
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startService(databaseUrl: string, dataDir: string): Promise<{ process: ChildProcess; url: string }> {
  const child = fork(fileURLToPath(import.meta.url), ["serve", databaseUrl, dataDir]);
  const [url] = (await once(child, "message")) as [string];
  return { process: child, url };
}

/** Processor time of a process so far (Linux); NaN elsewhere. */
function cpuMs({ pid }: ChildProcess): number {
  if (!existsSync(`/proc/${pid}/stat`)) return Number.NaN;
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** A message to many, delivered a minute ago, and the paths of its link. */
async function makeClickPaths(db: Db): Promise<string[]> {
  await addInstance(db, KEY_RING, { name: "bench", host: "bench.test", key: "key", archive: false, domains: [] });
  const instanceId = (await findInstanceByName(db, "bench"))!.id;
  const campaign = await addCampaign(db, KEY_RING, { ...CAMPAIGN, instanceId });
  const html = '<p><a href="https://shop.example.org/offer?a=1&amp;b=2">Offer</a></p>';
  const template = { from: { name: "", address: "info@bench.test" }, subject: "Hi", html, unsubscribe: false };
  await db.transaction((transaction) =>
    acceptSend(transaction, {
      instanceId,
      campaignNumid: campaign.numid,
      creator: "api",
      senderDomain: "bench.test",
      sender: "info@bench.test",
      content: { kind: "template", template, attachments: [] },
      recipients: Array.from({ length: RECIPIENTS }, (_, index) => ({ address: toAddress(`r${index}@example.net`) })),
      copies: [],
      archive: false,
    }),
  );
  await db("deliveries").update({ state: "delivered", finished_at: new Date(Date.now() - 60_000) });
  await db.raw("vacuum analyze");
  const tracked = trackHtml(html);
  const [link] = tracked.links.keys();
  const { id: messageId } = await db("messages").first("id");
  await saveTrackedLinks(db, { id: messageId, instanceId }, tracked);
  const deliveryIds: number[] = await db("deliveries").pluck("id");
  return deliveryIds.map((deliveryId) => `/c/${makeClickToken(KEY_RING, { deliveryId, messageId, link: link! })}`);
}

function toAddress(text: string) {
  const address = validateAddress(text, { allowSmtputf8: false });
  if (!address.ok) throw new Error(text);
  return address.value;
}

async function measureWithWrk(
  url: string,
  paths: readonly string[],
  { seconds, folder }: { readonly seconds: number; readonly folder: string },
): Promise<Speed> {
  const script = join(folder, "clicks.lua");
  writeFileSync(
    script,
    `local paths = {${paths.map((path) => `"${path}"`).join(",")}}\nlocal n = math.random(#paths)
request = function() n = n % #paths + 1; return wrk.format("GET", paths[n]) end
done = function(summary, latency)
  print(string.format("%f %f %f", summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end\n`,
  );
  const options = ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "--latency", "-s", script, url];
  const { stdout } = await promisify(execFile)("wrk", options);
  const [clicksPerSecond, p50Ms, p99Ms] = stdout.trim().split("\n").at(-1)!.split(" ").map(Number) as number[];
  return { clicksPerSecond: Math.round(clicksPerSecond!), p50Ms: p50Ms!, p99Ms: p99Ms! };
}

async function measureWithClient(url: string, paths: readonly string[], seconds: number): Promise<Speed> {
  const { answered, latenciesMs } = await load(url, paths, seconds);
  const sorted = latenciesMs.sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
  return { clicksPerSecond: Math.round(answered / seconds), p50Ms: at(0.5), p99Ms: at(0.99) };
}

/** Clicks on one link after the other over some connections; ends early when the server does. */
async function load(
  url: string,
  paths: readonly string[],
  seconds: number,
): Promise<{ readonly answered: number; readonly latenciesMs: number[] }> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const deadline = performance.now() + seconds * 1000;
  const latenciesMs: number[] = [];
  let next = 0;
  const click = async () => {
    while (performance.now() < deadline) {
      const path = paths[next++ % paths.length] as string;
      const startedAt = performance.now();
      if (!(await isAnswered(url + path, agent))) return;
      latenciesMs.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, click));
  agent.destroy();
  return { answered: latenciesMs.length, latenciesMs };
}

function isAnswered(url: string, agent: Agent): Promise<boolean> {
  return new Promise((resolve) => {
    get(url, { agent }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode === 302));
      response.on("error", () => resolve(false));
    }).on("error", () => resolve(false));
  });
}

async function countClicks(db: Db): Promise<number> {
  const row = await db("events").where({ kind: EVENT_KINDS.clicked }).count("* as count").first();
  return Number(row?.count);
}

/** Waits until no more clicks come in. @returns how long the last ones took, milliseconds */
async function untilSettled(db: Db): Promise<number> {
  const startedAt = performance.now();
  let settledAt = startedAt;
  for (let count = -1, quietLooks = 0; quietLooks < 8; quietLooks++) {
    const now = await countClicks(db);
    if (now !== count) {
      count = now;
      quietLooks = 0;
      settledAt = performance.now();
    }
    await sleep(250);
  }
  return Math.round(settledAt - startedAt);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
