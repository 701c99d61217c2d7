/**
 * `npm run bench:mail -- [recipients] [--only batch|instances|submission|limits|queue|postfix|calls] [--messages n] [--queued n]`:
 * from one API call to the last message that a sink accepted, and submission with AUTH; what sending limits cost it (bar: 3 %);
 * then what a message costs with 1,000 and with 1,000,000 recipients queued. Every message has 10 KB, is DKIM-signed
 * (RSA-2048), personalised where it is a template, and stored with its events in PostgreSQL with fsync on; each service
 * runs in a process of its own, as in production. The sink is Postfix's `smtp-sink`. Postfix with OpenDKIM relays as
 * many messages of that size from the same client in the same run, where both are installed: figures are this machine's,
 * the ratios are what counts. All programs carry some thousand messages before what counts, as code of Node is compiled while it runs; the
 * first call of a new process is told by itself. The last line is JSON, for a history. `--only calls`: a million
 * recipients (or as many as are given) in calls of 50,000, to new contacts and to known ones, and nothing is delivered.
 * `--rounds n`: how often messages without limits and with them are compared.
 */

import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import { NODE_OPTIONS_OF, nodeEnvironmentOf } from "../../services/cli/node-options.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { start as startDelivery } from "../../services/delivery/main.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import { programFile, programRunner } from "../../services/platform/package-folder.ts";
import { type Db, openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/postgres/embedded-postgres.ts";
import { migrate } from "../../services/platform/postgres/migrations.ts";
import type { ServiceName, StartService } from "../../services/platform/service.ts";
import { addCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import { addInstance, findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { freePort } from "../support/peers-processes.ts";
import { cpuSeconds, cpuSecondsWithChildren } from "./cpu-time.ts";
import type { SubmissionServer } from "./mail-client.ts";
import { measureInstances } from "./mail-instances.ts";
import { type LimitsCost, measureLimits } from "./mail-limits.ts";
import {
  BATCH_HTML,
  type BatchResult,
  describeWay,
  measureBatch,
  measureCalls,
  measureSubmission,
  type Sender,
  type SubmissionResult,
  type SubmissionWay,
  submit,
  untilDelivered,
} from "./mail-load.ts";
import { measurePostfix, whyNoPostfix } from "./mail-postfix.ts";
import { type ProcessorTime, reportProcessorTime } from "./mail-processor-time.ts";
import { measureQueue, type QueueCost, type QueueLoad } from "./mail-queue.ts";
import { bestDelivered } from "./page/results.ts";

const SERVICES: Readonly<Record<string, StartService>> = {
  "mail-api": startMailApi,
  delivery: startDelivery,
  submission: startSubmission,
};
const { positionals, values: options } = parseArgs({
  allowPositionals: true,
  options: {
    /** Parts to run, all unless given. */
    only: { type: "string", multiple: true },
    /** Submitted ones. */
    messages: { type: "string" },
    /** Of messages with sending limits and without. */
    rounds: { type: "string" },
    queued: { type: "string", default: "1000000" },
    /** Instances of the part with many. */
    instances: { type: "string", default: "1000" },
    /** Recipients of each of these. */
    each: { type: "string", default: "5" },
    /** Of an empty database that is migrated, in place of one of its own; its processor time is not counted. */
    database: { type: "string" },
  },
});
const RECIPIENTS = Number(positionals[0] ?? 20_000) || 20_000;
const SUBMISSION_MESSAGES = Number(options.messages ?? Math.round(RECIPIENTS / 2));
/** Of a round that sending limits are measured by. */
const LIMITS_MESSAGES = Math.round(SUBMISSION_MESSAGES / 4);
const QUEUED = Number(options.queued);
/** How programs submit that do so at the same time. */
const WAYS = [false, true].flatMap((tls) => [20, 100].map((connections) => ({ connections, tls })));
const SECRET = "the secret of the benchmark";
const KEY_RING = KeyRing.ofSecret(SECRET);
const DOMAIN = "sender.example.org";

if (positionals[0] === "serve") await serve(positionals[1] as string);
else await measure();

/** One service alone in a process, configured by the environment. */
async function serve(name: string): Promise<void> {
  const config = loadConfig(process.env);
  if (!config.ok) throw new Error(config.error.join("\n"));
  const url = config.value.databaseUrl as string;
  const connections = config.value.databaseConnections;
  const db = openDb(url, { connections, name, byIndex: name === "delivery" });
  const secrets = { keys: KEY_RING.format(KEY_RING.purposes), databaseUrl: url };
  const service = await SERVICES[name]!({
    config: config.value,
    keyRing: KEY_RING,
    db,
    clock: systemClock,
    logger: makeLogger(name, "warn"),
    observe: ({ level, ...event }) => {
      if (level === "error") process.stderr.write(`${JSON.stringify(event)} ${"err" in event ? event.err : ""}\n`);
    },
    openLargeRequests: () =>
      new Worker(programRunner, {
        argv: [programFile("cli/service-thread")],
        workerData: { name, secrets },
        env: { ...process.env, PALOMAR_SECRET: "" },
      }),
    openListenConnection: () => openListenConnection(url, name),
    addressOf: async () => "http://track.example.org",
  });
  process.send?.(service.addresses);
  await once(process, "disconnect");
  await service.stop();
  await db.destroy();
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
  const postgres =
    options.database === undefined
      ? await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("bench", "error") })
      : { url: options.database, release: async () => {} };
  const db = openDb(postgres.url, { connections: 4, name: "bench set-up" });
  const sink = await startSink();
  const obstacle = whyNoPostfix();
  const postfix =
    obstacle === undefined && isWanted("postfix")
      ? await measurePostfix({
          messages: SUBMISSION_MESSAGES,
          ways: WAYS,
          sinkPort: sink.port,
          domain: DOMAIN,
        })
      : [];
  if (obstacle !== undefined) print(`no comparison: ${obstacle}`);
  const processes = new Map<string, ChildProcess>();
  const postmaster = options.database === undefined ? postmasterOf(folder) : undefined;
  const measured = new Map<string, ProcessorTime>([
    ["PostgreSQL", () => (postmaster === undefined ? 0 : cpuSecondsWithChildren(postmaster))],
    ["sink", () => cpuSeconds(sink.pid)],
    ["client", () => cpuSeconds(process.pid)],
  ]);
  const run = async (name: ServiceName) => {
    const child = fork(fileURLToPath(import.meta.url), ["serve", name], {
      execArgv: [...(NODE_OPTIONS_OF[name] ?? [])],
      env: {
        ...nodeEnvironmentOf(name),
        ...process.env,
        DATABASE_URL: postgres.url,
        PALOMAR_SECRET: SECRET,
        PALOMAR_DATA_DIR: folder,
        PALOMAR_DELIVERY: `smtp://127.0.0.1:${sink.port}`,
        PALOMAR_SENDER_DOMAIN_CHECK: "false",
        PALOMAR_MAIL_API_LISTEN: "127.0.0.1:0",
        PALOMAR_SUBMISSION_LISTEN: "127.0.0.1:0",
        PALOMAR_SUBMISSIONS_LISTEN: "off",
        PALOMAR_SUBMISSION_PLAINTEXT_AUTH: "loopback",
      },
    });
    processes.set(name, child);
    measured.set(name, () => cpuSeconds(child.pid!));
    return (await once(child, "message"))[0];
  };
  const stop = async (name: string) => {
    const child = processes.get(name)!;
    processes.delete(name);
    child.disconnect();
    await once(child, "exit");
  };
  const when = async <T>(part: string, messages: number, measurePart: () => Promise<T>): Promise<T | undefined> =>
    isWanted(part) ? reportProcessorTime(part, { measured, messages }, measurePart) : undefined;

  const compareBatch = async (api: string, sender: Sender): Promise<PalomarResult["batch"]> => {
    if (!isWanted("batch")) return undefined;
    const first = await measureBatch(db, api, sender, { from: 0, recipients: RECIPIENTS });
    const later = { from: RECIPIENTS, recipients: RECIPIENTS };
    const batch = await when("batch", RECIPIENTS, () => measureBatch(db, api, sender, later));
    return batch && { ...batch, firstCallMs: first.callMs };
  };

  const compareSubmission = async (submission: string, sender: Sender): Promise<readonly SubmissionResult[]> => {
    if (!isWanted("submission")) return [];
    const server = serverOf(submission, sender);
    const measureWay = (way: SubmissionWay, messages: number) =>
      measureSubmission(server, { ...way, messages, domain: sender.domain }, () => untilDelivered(db));
    await measureWay(WAYS[0]!, RECIPIENTS);
    const results: SubmissionResult[] = [];
    for (const way of WAYS) {
      const measureThis = () => measureWay(way, SUBMISSION_MESSAGES);
      results.push((await when("submission", SUBMISSION_MESSAGES, measureThis))!);
    }
    return results;
  };

  /** A worker of its own for each length of the queue. */
  const compareQueues = async () => {
    const costs: QueueCost[] = [];
    for (const queued of [1_000, QUEUED]) {
      await run("delivery");
      const worker = {
        pid: processes.get("delivery")!.pid!,
        seconds: measured.get("delivery")!,
        postgresSeconds: measured.get("PostgreSQL")!,
      };
      costs.push(await measureQueue(db, worker, { load: await queueLoad(db), queued }));
      await stop("delivery");
    }
    return costs;
  };

  const compareLimits = async (submitFor: (sender: Sender) => Promise<unknown>, free: Sender) => {
    const senders = {
      without: free,
      control: await prepare(db, "control", "control.example.org"),
      with: await prepare(db, "limited", "limited.example.org"),
    };
    const { id } = (await findInstanceByName(db, "limited"))!;
    const parts = new Map(["submission", "PostgreSQL"].map((name) => [name, measured.get(name)!]));
    const rounds = options.rounds === undefined ? {} : { rounds: Number(options.rounds) };
    return measureLimits(db, id, { measured: parts, messages: LIMITS_MESSAGES, ...rounds }, (kind) =>
      submitFor(senders[kind]),
    );
  };

  try {
    await migrate(db);
    const sender = await prepare(db, "bench", DOMAIN);
    const { mail_api } = await run("mail-api");
    // Its mail would be in the way of the other parts.
    if (options.only?.includes("calls")) {
      const recipients = Number(positionals[0] ?? 1_000_000);
      for (const contacts of ["new", "known"]) {
        await when("calls", recipients, () => measureCalls(mail_api, sender, recipients));
        print(`… to ${contacts} contacts`);
      }
      return;
    }
    await run("delivery");
    const batch = await compareBatch(mail_api, sender);
    const many = { instances: Number(options.instances), recipients: Number(options.each), html: BATCH_HTML };
    const manyPerSecond = await when("instances", many.instances * many.recipients, () => measureInstances(db, many));
    const { submission: listener } = await run("submission");
    const submission = await compareSubmission(listener, sender);
    for (const name of ["mail-api", "delivery"]) await stop(name);
    const submitFor = (from: Sender) =>
      submit(serverOf(listener, from), { ...WAYS[0]!, messages: LIMITS_MESSAGES, domain: from.domain });
    const limits = isWanted("limits") ? await compareLimits(submitFor, sender) : undefined;
    await stop("submission");
    const queue = isWanted("queue") ? await compareQueues() : undefined;
    printComparison({ batch, manyPerSecond, submission, limits, queue }, postfix);
  } finally {
    for (const name of [...processes.keys()]) await stop(name);
    sink.stop();
    await db.destroy();
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

function isWanted(part: string): boolean {
  return options.only === undefined || options.only.includes(part);
}

function serverOf(listener: string, { instance, campaign }: Sender): SubmissionServer {
  const [host, port] = listener.split(":") as [string, string];
  return { host, port: Number(port), credentials: { user: `${instance}-${campaign.numid}`, pass: campaign.apikey } };
}

async function prepare(db: Db, name: string, domain: string): Promise<Sender> {
  const key = `key-of-${name}`;
  await addInstance(db, KEY_RING, { name, host: `${name}.test`, key, archive: false, domains: [domain] });
  const { id } = (await findInstanceByName(db, name))!;
  const { numid, apikey } = await addCampaign(db, KEY_RING, {
    instanceId: id,
    type: "api",
    name: "bench",
    sender: `info@${domain}`,
    senderName: "Bench",
    subject: "For XYZNOMBREXYZ",
    subjectUri: "",
    replyTo: "",
    url: "",
    charset: "utf8",
    unsubscribe: true,
  });
  return { instance: name, campaign: { numid, apikey: apikey! }, key, domain };
}

async function queueLoad(db: Db): Promise<QueueLoad> {
  const { id: instanceId } = (await findInstanceByName(db, "bench"))!;
  const { numid: campaignNumid } = await db("campaigns").first("numid");
  const from = { name: "Bench", address: `info@${DOMAIN}` };
  const template = { from, subject: "For XYZNOMBREXYZ", html: BATCH_HTML, unsubscribe: true };
  return { instanceId, campaignNumid, senderDomain: DOMAIN, template };
}

interface PalomarResult {
  /** With the slowest call of a process that has just started. */
  readonly batch: (BatchResult & { readonly firstCallMs: number }) | undefined;
  /** Messages of a thousand instances. */
  readonly manyPerSecond: number | undefined;
  readonly submission: readonly SubmissionResult[];
  readonly limits: readonly LimitsCost[] | undefined;
  readonly queue: readonly QueueCost[] | undefined;
}

function printComparison(palomar: PalomarResult, postfix: readonly SubmissionResult[]): void {
  const line = (what: string, ours: number | undefined, theirs: number | undefined) => {
    const ratio = ours && theirs && ours / theirs;
    print(`| ${what} | ${ours?.toFixed(0) ?? ""} | ${theirs?.toFixed(0) ?? ""} | ${ratio?.toFixed(2) ?? ""} |`);
  };
  print("| messages a second | Palomar | Postfix with OpenDKIM | ratio |\n|---|---|---|---|");
  line("batch to the sink; best relayed", palomar.batch?.deliveredPerSecond, bestDelivered(postfix));
  for (const [index, way] of WAYS.entries()) {
    const [ours, theirs] = [palomar.submission[index], postfix[index]];
    line(`submission by ${describeWay(way)}; accepted`, ours?.acceptedPerSecond, theirs?.acceptedPerSecond);
    line(`submission by ${describeWay(way)}; delivered`, ours?.deliveredPerSecond, theirs?.deliveredPerSecond);
  }
  for (const { process, withoutMs, addedMs, chanceMs } of palomar.limits ?? []) {
    const share = (ms: number) => `${ms.toFixed(3)} ms (${((100 * ms) / withoutMs).toFixed(1)} %)`;
    print(
      `sending limits, a submitted message: ${process} ${withoutMs.toFixed(3)} ms without, with ${share(addedMs)} more; ` +
        `an instance without, beside another: ${share(chanceMs)}`,
    );
  }
  if (palomar.queue) {
    print("| recipients queued | worker, ms a message | PostgreSQL, ms a message | worker, MiB |\n|---|---|---|---|");
    for (const { queued, workerMs, postgresMs, workerMiB } of palomar.queue)
      print(`| ${queued} | ${workerMs.toFixed(2)} | ${postgresMs.toFixed(2)} | ${workerMiB.toFixed(0)} |`);
  }
  print(JSON.stringify({ bench: "mail", recipients: RECIPIENTS, palomar, postfix }));
}

async function startSink(): Promise<{ port: number; pid: number; stop(): void }> {
  const port = await freePort();
  const child = spawn(
    "smtp-sink",
    [...(process.getuid?.() === 0 ? ["-u", "nobody"] : []), `127.0.0.1:${port}`, "1000"],
    {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    },
  );
  await Promise.race([
    sleep(500),
    once(child, "error").then(([error]) => Promise.reject(new Error(`smtp-sink (Debian: postfix): ${error.message}`))),
  ]);
  return { port, pid: child.pid!, stop: () => child.kill() };
}

/** The first line of PostgreSQL's own note. */
function postmasterOf(folder: string): number {
  const [note] = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith("postmaster.pid"),
  );
  return Number.parseInt(readFileSync(join(folder, note!), "utf8"), 10);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
