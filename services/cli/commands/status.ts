import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { counted } from "../../core/counted.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { hasCluster } from "../../platform/postgres/embedded-postgres-cluster.ts";
import { findLockHolder } from "../../platform/process-lock.ts";
import { firstAddress, SERVICE_NAMES } from "../../platform/service.ts";
import { listNodes, type SeenNode } from "../../store/dns/nodes.ts";
import { listUnknownResellers } from "../../store/dns/resellers.ts";
import { listLeftOut } from "../../store/dns/zones-left-out.ts";
import { listUnopened } from "../../store/sealed-columns.ts";
import { type QueueStatus, readReplication, readStatus } from "../../store/status.ts";
import { readAddresses, requireDataFolder } from "../data-folder.ts";
import { findDatabaseProblem } from "../database-answers.ts";
import { DATABASE_SILENT, explainError } from "../explain-error.ts";
import {
  describeSeconds,
  judgeSettings,
  judgeStatus,
  type KnownStatus,
  loadLimits,
  MOST_LEFT_OUT,
} from "../judge-status.ts";
import { inspectMachine } from "../machine-status.ts";
import { describeMissingMachines } from "../missing-machines.ts";
import type { CommandRuntime } from "../runtime.ts";

const STACK_PATIENCE_MS = 3_000;
/** Longer than a connection may take, which has a time-out of its own. */
const DATABASE_PATIENCE_MS = 60_000;
/** An embedded database that has to be started, or recovers from a crash, for this command alone. */
const EMBEDDED_PATIENCE_MS = 120_000;

/** What the stack of this data folder says of itself. */
interface StackStatus {
  readonly running: boolean;
  /** null: it runs, and serves nothing that could be asked. */
  readonly ready: boolean | null;
  readonly problems: readonly string[];
}

export function registerStatusCommand(program: Command, runtime: CommandRuntime): void {
  program
    .command("status")
    .description("what an operator must know, on one screen; exit status 1 when something is wrong")
    .action(async () => {
      requireDataFolder(runtime.config);
      const limits = loadLimits();
      const stack = await askStack(runtime.config.dataDir);
      const known = await askDatabase(runtime, stack);
      const machine = await inspectMachine(runtime.config, new Date());
      const problems = [
        ...(known.ok
          ? new Set([...ownProblems(stack, known.value), ...known.value.limits])
          : [known.error, ...stack.problems.filter((problem) => problem !== DATABASE_SILENT)]),
        ...judgeStatus({ ...(known.ok && known.value), machine }, limits),
        ...judgeSettings(runtime.config, known.ok ? known.value.unknownResellers : []),
      ];
      const shown = known.ok ? showKnown(known.value) : {};
      runtime.print({ problems, stack, ...shown, machine }, compose(stack, known, problems));
      // A database that says nothing keeps its connection, and with it this process.
      if (problems.length > 0) runtime.exitWith(1, !known.ok);
    });
}

/** Who asks from a machine that runs no stack asks for the others. */
function ownProblems(stack: StackStatus, { nodes }: AnsweredStatus): readonly string[] {
  return stack.running || nodes.length === 0 ? stack.problems : [];
}

async function askStack(dataDir: string): Promise<StackStatus> {
  // Null where monitoring is off; undefined where no stack has written its addresses.
  const written = readAddresses({ dataDir })?.metrics;
  if (written === null && (await hasRunningService(dataDir))) return { running: true, ready: null, problems: [] };
  if (!written) return { running: false, ready: false, problems: ["no stack runs on this data folder"] };
  const metrics = firstAddress(written);
  try {
    const answer = await fetch(`${metrics}/readyz`, { signal: AbortSignal.timeout(STACK_PATIENCE_MS) });
    const { problems } = (await answer.json()) as { problems: string[] };
    return { running: true, ready: answer.ok, problems };
  } catch (error) {
    const { message } = error as Error;
    return { running: true, ready: false, problems: [`the stack does not answer at ${metrics}: ${message}`] };
  }
}

async function hasRunningService(dataDir: string): Promise<boolean> {
  const holders = SERVICE_NAMES.map((name) => findLockHolder(join(dataDir, `${name}.lock`)));
  return (await Promise.all(holders)).some((holder) => holder !== undefined);
}

/** What a database says that answers, and what it does not do. */
interface AnsweredStatus extends Omit<KnownStatus, "machine"> {
  readonly limits: readonly string[];
  /** Of PALOMAR_DNS_RESELLERS. */
  readonly unknownResellers: readonly string[];
}

/** What the database knows, or why it does not say; in time either way. */
async function askDatabase(runtime: CommandRuntime, stack: StackStatus): Promise<Result<AnsweredStatus, string>> {
  const { databaseUrl, dataDir, databaseStandbys, dns } = runtime.config;
  // Whoever asks how things are does not make any.
  if (databaseUrl === null && !(await hasCluster(dataDir))) {
    return refuse(`there is no database in the data folder ${dataDir} (PALOMAR_DATA_DIR)`);
  }
  const late = sleep(databasePatienceMs(runtime, stack), undefined, { ref: false });
  const asked = runtime.withDatabase(async ({ db, keyRing, config }) => {
    const missing = await describeMissingMachines(db, config);
    return {
      ...(await readStatus(db)),
      nodes: await listNodes(db),
      leftOut: await listLeftOut(db, MOST_LEFT_OUT),
      replication: await readReplication(db),
      expectedStandbys: databaseStandbys,
      unknownResellers: await listUnknownResellers(db, dns.resellers ?? []),
      limits: [missing, await findDatabaseProblem(db), describeUnopened(await listUnopened(db, keyRing))].filter(
        (problem) => problem !== undefined,
      ),
    };
  });
  try {
    const known = await Promise.race([asked, late]);
    return known ? ok(known) : refuse(`${DATABASE_SILENT} in time`);
  } catch (error) {
    const reason = await explainError(error);
    if (reason === undefined) throw error;
    return refuse(reason);
  }
}

function describeUnopened(columns: readonly string[]): string | undefined {
  if (columns.length === 0) return undefined;
  const how = 'of a lost secret? See "Another secret" in docs/operations.md';
  return `what is sealed cannot be opened (${columns.join(", ")}): ${how}`;
}

function databasePatienceMs({ config }: CommandRuntime, { running, problems }: StackStatus): number {
  if (config.databaseUrl === null && !running) return EMBEDDED_PATIENCE_MS;
  // The stack has waited for it already.
  return problems.includes(DATABASE_SILENT) ? STACK_PATIENCE_MS : DATABASE_PATIENCE_MS;
}

function showKnown({ nodes, replication, ...answered }: AnsweredStatus) {
  const { limits: _, unknownResellers: __, expectedStandbys: ___, ...known } = answered;
  return {
    nodes: nodes.map(({ lagMs, silentSeconds, ...node }) => ({
      ...node,
      lag_ms: lagMs,
      silent_seconds: silentSeconds,
    })),
    ...known,
    replication: replication.standbys,
  };
}

function compose(stack: StackStatus, known: Result<AnsweredStatus, string>, problems: readonly string[]): string {
  return [
    ...problems.map((problem) => `WRONG    ${problem}`),
    `stack    ${describeStack(stack)}`,
    ...(known.ok ? describeDeployment(known.value) : []),
  ].join("\n");
}

function describeStack({ ready }: StackStatus): string {
  if (ready === null) return "runs; its state is unknown (PALOMAR_METRICS_LISTEN is off)";
  return ready ? "ready" : "not ready here";
}

function describeDeployment({ zones, signing, queue, outcomes, ...known }: AnsweredStatus): string[] {
  const { inbound, nodes, replication } = known;
  const partitions = Object.entries(queue.partitions).map(([state, count]) => `${count} ${state}`);
  return [
    ...nodes.map((node, index) => `${index === 0 ? "nodes   " : "        "} ${describeNode(node)}`),
    `zones    ${zones.published} published, ${zones.suspended} suspended, ${signing.zones} signed`,
    `queue    ${counted(queue.recipients, "recipient")}, the oldest for ${describeSeconds(queue.oldestSeconds)}`,
    `         partitions: ${partitions.join(", ")}; ${counted(queue.backoffs, "destination")} left alone for now`,
    `         in ${outcomes.minutes} min: ${counted(outcomes.settled, "recipient")} settled, ${outcomes.putOff} put off`,
    `         ${describePaces(queue)}`,
    `inbound  ${inbound.waiting} waiting, ${inbound.quarantined} in quarantine`,
    ...replication.standbys.map(({ standby, seconds }) => `standby  ${standby}, ${describeSeconds(seconds)} behind`),
  ];
}

function describeNode({ node, version, services, lagMs, silentSeconds }: SeenNode): string {
  const names = services.map(({ name, ready }) => (ready ? name : `${name} (not ready)`)).join(" ");
  const lag = lagMs === null ? "" : `, zones ${lagMs} ms behind`;
  return `${node} ${version}, seen ${describeSeconds(silentSeconds)} ago${lag}: ${names}`;
}

function describePaces({ pacesLimited, pacesWaiting, longestPaceWaits: [longest] }: QueueStatus): string {
  const wait = longest
    ? ` (longest: ${longest.source} for ${longest.provider}, ${describeSeconds(longest.seconds)})`
    : "";
  return `paces: ${pacesLimited} limited, ${pacesWaiting} wait for their provider${wait}`;
}
