/**
 * `npm run bench:mail [recipients]`: from one API call to the last message that a sink accepted, and submission with
 * AUTH. Every message has 10 KB, is personalised, DKIM-signed (RSA-2048) and stored with its events in PostgreSQL with
 * fsync on; each service runs in a process of its own, as in production. The sink is Postfix's `smtp-sink`.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import { start as startDelivery } from "../../services/delivery/main.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config.ts";
import { type Db, openDb, openListenConnection } from "../../services/platform/db.ts";
import { openEmbeddedPostgres } from "../../services/platform/embedded-postgres.ts";
import { makeLogger } from "../../services/platform/logger.ts";
import { migrate } from "../../services/platform/migrations.ts";
import type { StartService } from "../../services/platform/service.ts";
import { addCampaign } from "../../services/store/campaigns.ts";
import { addInstance, findInstanceByName } from "../../services/store/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";

const SERVICES: Readonly<Record<string, StartService>> = {
  "mail-api": startMailApi,
  delivery: startDelivery,
  submission: startSubmission,
};
const RECIPIENTS = Number(process.argv[2] ?? 20_000) || 20_000;
const PER_CALL = 10_000;
const SUBMISSION_MESSAGES = Math.round(RECIPIENTS / 4);
const CONNECTIONS = 20;
const KEY = "key-of-the-benchmark";
const SECRET = "the secret of the benchmark";
const DOMAIN = "sender.example.org";

if (process.argv[2] === "serve") await serve(process.argv[3] as string);
else await measure();

/** One service alone in a process, configured by the environment. */
async function serve(name: string): Promise<void> {
  const config = loadConfig(process.env);
  if (!config.ok) throw new Error(config.error.join("\n"));
  const url = config.value.databaseUrl as string;
  const db = openDb(url, { connections: config.value.databaseConnections, name });
  const service = await SERVICES[name]!({
    config: config.value,
    secret: SECRET,
    db,
    clock: systemClock,
    logger: makeLogger(name, "warn"),
    observe: ({ level, ...event }) => {
      if (level === "error") process.stderr.write(`${JSON.stringify(event)} ${event.err}\n`);
    },
    openListenConnection: () => openListenConnection(url, name),
    addressOf: async () => "http://track.example.org",
  });
  process.send?.(service.addresses);
  await once(process, "disconnect");
  await service.stop();
  await db.destroy();
  const { user, system } = process.cpuUsage();
  print(`${name}: ${((user + system) / 1e6).toFixed(1)} s of processor time`);
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-bench-"));
  const postgres = await openEmbeddedPostgres({ dataDir: folder, logger: makeLogger("bench", "error") });
  const db = openDb(postgres.url, { connections: 4, name: "bench set-up" });
  const sink = await startSink();
  const processes: ChildProcess[] = [];
  const run = async (name: string) => {
    const child = fork(fileURLToPath(import.meta.url), ["serve", name], {
      env: {
        ...process.env,
        DATABASE_URL: postgres.url,
        PALOMAR_SECRET: SECRET,
        PALOMAR_DATA_DIR: folder,
        PALOMAR_DELIVERY: `smtp://127.0.0.1:${sink.port}`,
        PALOMAR_SENDER_DOMAIN_CHECK: "false",
        PALOMAR_MAIL_API_LISTEN: "127.0.0.1:0",
        PALOMAR_SUBMISSION_LISTEN: "127.0.0.1:0",
        PALOMAR_SUBMISSIONS_LISTEN: "off",
      },
    });
    processes.push(child);
    return (await once(child, "message"))[0];
  };
  try {
    await migrate(db);
    const campaign = await prepare(db);
    const { mail_api } = await run("mail-api");
    await run("delivery");
    await measureBatch(db, mail_api, campaign.numid);
    const { submission } = await run("submission");
    await measureSubmission(submission, campaign);
  } finally {
    for (const child of processes) {
      child.disconnect();
      await once(child, "exit");
    }
    sink.stop();
    await db.destroy();
    await postgres.release();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function prepare(db: Db): Promise<{ numid: number; apikey: string }> {
  await addInstance(db, SECRET, { name: "bench", host: "bench.test", key: KEY, archive: false, domains: [DOMAIN] });
  const { id } = (await findInstanceByName(db, "bench"))!;
  const { numid, apikey } = await addCampaign(db, SECRET, {
    instanceId: id,
    type: "api",
    name: "bench",
    sender: `info@${DOMAIN}`,
    senderName: "Bench",
    subject: "For XYZNOMBREXYZ",
    subjectUri: "",
    replyTo: "",
    url: "",
    charset: "utf8",
    unsubscribe: "si",
  });
  return { numid, apikey: apikey! };
}

async function measureBatch(db: Db, api: string, campaign: number): Promise<void> {
  const html = `<html><body><p>Dear XYZNOMBREXYZ</p>${"<p>Lorem ipsum dolor sit amet, <a href='http://example.org/x'>consectetur</a>.</p>\n".repeat(125)}</body></html>`;
  const startedAt = performance.now();
  for (let first = 0; first < RECIPIENTS; first += PER_CALL) {
    const contactos = Array.from({ length: Math.min(PER_CALL, RECIPIENTS - first) }, (_, i) => ({
      email: `r${first + i}@d${i % 20}.example.net`,
      nombre: `Name ${i}`,
    }));
    const callAt = performance.now();
    const response = await fetch(`${api}/v1/envio/send_many_inline`, {
      method: "POST",
      headers: { Authorization: KEY, "Content-Type": "application/json" },
      body: JSON.stringify({ campana_id: campaign, email: true, contactos, html }),
    });
    const { sent } = (await response.json()) as { sent: number };
    print(`send_many_inline: ${sent} contacts accepted in ${Math.round(performance.now() - callAt)} ms`);
  }
  const left = async () => Number((await db("deliveries").where({ state: "queued" }).count())[0]?.count);
  for (let queued = await left(); queued > 0; queued = await left()) await sleep(queued > 2_000 ? 500 : 50);
  report("API call to the last message accepted by the sink", RECIPIENTS, startedAt);
}

async function measureSubmission(address: string, campaign: { numid: number; apikey: string }): Promise<void> {
  const [host, port] = address.split(":");
  const body = `${"Lorem ipsum dolor sit amet, consectetur adipiscing.\r\n".repeat(190)}`;
  let next = 0;
  const startedAt = performance.now();
  const client = async () => {
    const connection = new SMTPConnection({ host, port: Number(port), tls: { rejectUnauthorized: false } });
    connection.on("error", (error) => print(`submission: ${error.message}`));
    await new Promise<void>((resolve) => connection.connect(() => resolve()));
    const credentials = { user: `bench-${campaign.numid}`, pass: campaign.apikey };
    await new Promise<void>((resolve, reject) =>
      connection.login({ credentials }, (error) => (error ? reject(error) : resolve())),
    );
    while (next < SUBMISSION_MESSAGES) {
      const to = `s${next++}@d${next % 20}.example.net`;
      const message = `From: info@${DOMAIN}\r\nTo: ${to}\r\nSubject: bench\r\nMessage-ID: <${next}@${DOMAIN}>\r\n\r\n${body}`;
      await new Promise<void>((resolve, reject) =>
        connection.send({ from: `info@${DOMAIN}`, to }, message, (error) => (error ? reject(error) : resolve())),
      );
    }
    connection.quit();
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  report("submission with AUTH, accepted and committed", SUBMISSION_MESSAGES, startedAt);
}

async function startSink(): Promise<{ port: number; stop(): void }> {
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
  return { port, stop: () => child.kill() };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function report(what: string, count: number, startedAt: number): void {
  const seconds = (performance.now() - startedAt) / 1000;
  print(`${what}: ${count} messages in ${seconds.toFixed(1)} s, ${Math.round(count / seconds)} a second`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
