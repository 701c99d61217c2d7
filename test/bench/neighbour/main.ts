/**
 * `npm run check:neighbour -- [--minutes n] [--only company,instance,strangers]`: one company and one instance with
 * keys of their own, and strangers at every listener, do their worst for five minutes, while a neighbour changes a
 * zone, sends mail and is asked for. The exit status is 1 when a promise of docs/security.md does not hold: the
 * neighbour's change is on the wire within 1 s (p99), its sends take at most twice what they take in quiet, DNS answers
 * come within 10 ms (p99.9), and every service stays within the memory of its container, and the disk within its caps.
 */
import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { callApi } from "../../support/api-client.ts";
import { addCampaign, dnsApiOf, mailApiOf, palomarJson, zoneBody } from "../../support/deployment.ts";
import { residentMemory, serviceProcesses } from "../../support/resident-memory.ts";
import { makeDataDir, removeDataDir, startStack } from "../../support/stack.ts";
import { percentile } from "../percentile.ts";
import { ControlGroups, readContainers, withChildren } from "./containers.ts";
import { changeZone, sendMail, startMailHost } from "./measures.ts";
import type { Target } from "./target.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    /** Which attackers come: `company`, `instance`, `strangers`; all of them unless said. */
    only: { type: "string", default: "company,instance,strangers" },
  },
});
const ATTACK_SECONDS = Number(values.minutes) * 60;
if (!(ATTACK_SECONDS > 0)) {
  process.stderr.write("neighbour: --minutes takes a number above 0\n");
  process.exit(2);
}
const QUIET_SECONDS = 30;
const ZONE = "quiet.test";
/** What a promise is. */
const MOST_WIRE_P99_MS = 1_000;
const MOST_SEND_RATIO = 2;
/** A send takes some tens of milliseconds in quiet: below this, twice is within what a busy machine scatters. */
const SEND_FLOOR_MS = 250;
const MOST_ANSWER_P999_MS = 10;
const MOST_DISK_GROWTH = 6 * 2 ** 30;

const dataDir = makeDataDir();
const host = await startMailHost();
const stack = await startStack(dataDir, {
  PALOMAR_DELIVERY: `smtp://${host.address}`,
  PALOMAR_LIMIT_LOOPBACK: "true",
  PALOMAR_SENDER_DOMAIN_CHECK: "false",
});
const containers = readContainers();
const groups = new ControlGroups();
/** Those who attack are other people's machines; whoever measures is no part of what is measured. */
const LEAST_SHARES = 2;
const MOST_SHARES = 100_000;

try {
  share([process.pid], "measuring", MOST_SHARES);
  shareAsContainers();
  const neighbour = await makeNeighbour();
  const target = await makeTarget();
  const quiet = await measure(neighbour, QUIET_SECONDS);
  const diskBefore = diskUse();
  const attack = startAttack(target);
  const peak = watchMemory();
  const loud = await measure(neighbour, ATTACK_SECONDS);
  const attempts = await attack;
  const memory = peak.stop();
  const diskGrowth = diskUse() - diskBefore;
  const verdicts = judge({ quiet, loud, memory, diskGrowth });
  process.stdout.write(`${JSON.stringify({ attempts, quiet, loud, memory, diskGrowth }, null, 1)}\n`);
  for (const { promise, seen, holds } of verdicts) {
    process.stdout.write(`${holds ? "holds" : "BROKEN"}  ${promise}: ${seen}\n`);
  }
  const broken = verdicts.filter(({ holds }) => !holds).length;
  process.stdout.write(`neighbour: ${verdicts.length - broken} passed, ${broken} failed\n`);
  if (broken > 0) process.exitCode = 1;
} finally {
  await stack.stop();
  await host.close();
  removeDataDir(dataDir);
  groups.remove();
}

interface Measured {
  readonly changeAnswerP99Ms: number;
  readonly wireP99Ms: number;
  readonly sendAnswerP50Ms: number;
  readonly sendAnswerP95Ms: number;
  readonly sendP50Ms: number;
  readonly sendP95Ms: number;
  readonly answerP999Ms: number;
  readonly unanswered: number;
  readonly refused: readonly string[];
  readonly changes: number;
  readonly sends: number;
}

async function makeNeighbour() {
  const { reseller, instance } = stack.credentials;
  const accounts = { reseller: { reseller_id: reseller.id, key: reseller.key }, instance };
  const dnsApi = dnsApiOf(stack.addresses.dns_api, accounts);
  const mailApi = mailApiOf(stack.addresses.mail_api, accounts);
  const made = await dnsApi("POST", `/master_zone/${ZONE}`, { ...zoneBody(ZONE), crm_id: "demo" });
  if (made.status !== 200) throw new Error(JSON.stringify(made.body));
  await dnsApi("POST", `/rr/${ZONE}`, { name: "www", type: "A", value: "192.0.2.1" });
  return { dnsApi, mailApi, campaign: await addCampaign(mailApi, `news@${instance.domain}`) };
}

/** Another company of the same reseller, another instance. */
async function makeTarget(): Promise<Target> {
  const { reseller } = stack.credentials;
  const environment = { PALOMAR_DATA_DIR: dataDir };
  const key = "hostile-neighbour-key-2f6b8c";
  const company = await callApi(
    "POST",
    `${stack.addresses.dns_api}/api/v1/company`,
    { Authorization: reseller.key, Reseller: reseller.id },
    { crm_id: "hostile", name: "Hostile", apikey: key },
  );
  if (company.status !== 200) throw new Error(JSON.stringify(company.body));
  const instance = await palomarJson(
    ["instance", "add", "hostile", "--host", "hostile.mail.test", "--domain", "hostile.test", "--archive"],
    environment,
  );
  const mailApi = mailApiOf(stack.addresses.mail_api, { reseller: { reseller_id: "", key: "" }, instance });
  const campaign = await addCampaign(mailApi, "news@hostile.test");
  const { body } = await mailApi("GET", `/campania_apikey?numid=${campaign}`);
  return {
    dnsApi: stack.addresses.dns_api,
    mailApi: stack.addresses.mail_api,
    console: stack.addresses.console,
    tracking: stack.addresses.tracking,
    dns: stack.addresses.dns,
    submission: stack.addresses.submission,
    mx: stack.addresses.mx,
    feedbackAddress: "fbl@bounces.localhost",
    company: { resellerId: reseller.id, crmId: "hostile", key },
    instance: { name: "hostile", key: instance.key, domain: "hostile.test", campaign, campaignKey: body.camp_apikey },
  };
}

async function measure(
  { dnsApi, mailApi, campaign }: Awaited<ReturnType<typeof makeNeighbour>>,
  seconds: number,
): Promise<Measured> {
  const end = Date.now() + seconds * 1000;
  const isOver = () => Date.now() > end;
  const [answers, changes, sends] = await Promise.all([
    askEvenly(seconds),
    changeZone(dnsApi, ZONE, stack.addresses.dns, isOver),
    sendMail(mailApi, campaign, host, isOver),
  ]);
  return {
    ...answers,
    changeAnswerP99Ms: at(changes.answerMs, 99),
    wireP99Ms: at(changes.ms, 99),
    sendAnswerP50Ms: at(sends.answerMs, 50),
    sendAnswerP95Ms: at(sends.answerMs, 95),
    sendP50Ms: at(sends.ms, 50),
    sendP95Ms: at(sends.ms, 95),
    refused: [...changes.refused, ...sends.refused],
    changes: changes.ms.length,
    sends: sends.ms.length,
  };
}

function at(ms: readonly number[], percent: number): number {
  return Math.round(percentile(ms, percent) * 10) / 10;
}

/** A query a millisecond, by a process of its own. */
async function askEvenly(seconds: number): Promise<{ readonly answerP999Ms: number; readonly unanswered: number }> {
  const [, port] = stack.addresses.dns.split(":");
  const prober = fileURLToPath(new URL("../dns-prober.js", import.meta.url));
  return JSON.parse(await runApart("prober", MOST_SHARES, [prober, String(seconds), `www.${ZONE}`, port!]))[0];
}

async function startAttack(target: Target): Promise<unknown> {
  const program = fileURLToPath(new URL("./attack.js", import.meta.url));
  return JSON.parse(
    await runApart("attack", LEAST_SHARES, [program, JSON.stringify(target), String(ATTACK_SECONDS), values.only]),
  );
}

/**
 * Runs a program beside the stack, with a share of the processors of its own.
 * @returns what it printed
 */
async function runApart(name: string, cpuShares: number, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  share([child.pid!], name, cpuShares);
  let printed = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  await new Promise((resolve) => child.once("close", resolve));
  return printed;
}

/** The database and each service have what their containers have. */
function shareAsContainers(): void {
  const database = Number(readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[0]);
  share(withChildren(database), "database", containers.database!.cpuShares);
  for (const [name, id] of Object.entries(serviceProcesses(stack.process.pid!))) {
    share(withChildren(id), name, containers[name]?.cpuShares ?? LEAST_SHARES);
  }
}

function share(processIds: readonly number[], name: string, cpuShares: number): void {
  try {
    groups.put(processIds, name, cpuShares);
  } catch (error) {
    process.stderr.write(`neighbour: ${name} shares the processors like everybody else: ${(error as Error).message}\n`);
  }
}

/** The most that each service had, seen twice a second. */
function watchMemory() {
  const most: Record<string, number> = {};
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      for (const [name, octets] of Object.entries(residentMemory(stack.process.pid!))) {
        most[name] = Math.max(most[name] ?? 0, octets);
      }
      await sleep(500);
    }
  })();
  return {
    stop: () => {
      isOver = true;
      void watching;
      return most;
    },
  };
}

function diskUse(): number {
  return Number(execFileSync("du", ["--summarize", "--bytes", dataDir], { encoding: "utf8" }).split("\t")[0]);
}

interface Verdict {
  readonly promise: string;
  readonly seen: string;
  readonly holds: boolean;
}

function judge({
  quiet,
  loud,
  memory,
  diskGrowth,
}: {
  readonly quiet: Measured;
  readonly loud: Measured;
  readonly memory: Readonly<Record<string, number>>;
  readonly diskGrowth: number;
}): Verdict[] {
  const mostSendMs = Math.max(quiet.sendP95Ms * MOST_SEND_RATIO, SEND_FLOOR_MS);
  const withinMemory = Object.entries(memory)
    .filter(([name]) => containers[name] !== undefined)
    .map(([name, octets]) => ({
      promise: `${name} within the memory of its container`,
      seen: `${megabytes(octets)} of ${megabytes(containers[name]!.memoryOctets)} MB`,
      holds: octets <= containers[name]!.memoryOctets,
    }));
  return [
    {
      promise: "the neighbour's change is on the wire within 1 s (p99)",
      seen: `${loud.wireP99Ms} ms, in quiet ${quiet.wireP99Ms} ms`,
      holds: loud.wireP99Ms <= MOST_WIRE_P99_MS,
    },
    {
      promise: "its sends take at most twice the quiet time (p95)",
      seen: `${loud.sendP95Ms} ms, in quiet ${quiet.sendP95Ms} ms`,
      holds: loud.sendP95Ms <= mostSendMs,
    },
    {
      promise: "DNS answers within 10 ms (p99.9)",
      seen: `${loud.answerP999Ms} ms, in quiet ${quiet.answerP999Ms} ms, unanswered ${loud.unanswered}`,
      holds: loud.answerP999Ms <= MOST_ANSWER_P999_MS,
    },
    {
      promise: "nothing of the neighbour's is refused",
      seen: `${loud.refused.length} ${loud.refused[0] ?? ""}`,
      holds: loud.refused.length === 0,
    },
    {
      promise: "the disk grows within the caps",
      seen: `${megabytes(diskGrowth)} of ${megabytes(MOST_DISK_GROWTH)} MB`,
      holds: diskGrowth <= MOST_DISK_GROWTH,
    },
    ...withinMemory,
  ];
}

function megabytes(octets: number): number {
  return Math.round(octets / 1e6);
}
