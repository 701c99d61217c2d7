import { Counter, Gauge } from "prom-client";
import type { Config } from "../platform/config/config.ts";
import { inTime } from "../platform/deadline.ts";
import { registry } from "../platform/observability/metrics.ts";
import type { Db } from "../platform/postgres/db.ts";
import { mayRead } from "../store/database-roles.ts";
import { listNodes } from "../store/dns/nodes.ts";
import { listLeftOut } from "../store/dns/zones-left-out.ts";
import {
  countHeldInstances,
  OUTCOME_MINUTES,
  type QueueStatus,
  readHeldStatus,
  readInboundStatus,
  readOutcomeStatus,
  readQueueStatus,
  readReplication,
  readSigningStatus,
  readZoneStatus,
} from "../store/status.ts";
import { findDatabaseProblem, PATIENCE_MS } from "./database-answers.ts";
import { DATABASE_SILENT } from "./explain-error.ts";
import { findProblems, type KnownStatus, loadLimits, MOST_LEFT_OUT } from "./judge-status.ts";
import { inspectMachine } from "./machine-status.ts";
import type { Supervisor } from "./supervisor.ts";

/** Counting a long queue costs the database something, so it is not done for every scrape. */
const KEPT_MS = 15_000;

/** What the state of the queue is read from. */
const QUEUE_AREAS = ["messages", "deliveries", "routes", "warm-ups", "guards"];
/** And what came of mail lately. */
const OUTCOME_AREAS = ["deliveries", "messages", "outcome-counts"];

/** What the metrics of a deployment are made from. */
export interface WatchedDeployment {
  readonly config: Config;
  readonly supervisor: Supervisor;
  readonly db: Db;
  /** The same database over a pool of its own: counting may take its time, and whether it answers is known at once. */
  readonly countingDb: Db;
}

/**
 * Shows what the database has of the deployment's work, whether it answers and takes changes, which services of this node are
 * ready, what its machine has left, and what `palomar status` calls wrong of all that.
 * @returns takes it off again
 */
export function exportDeployment({ config, supervisor, db, countingDb }: WatchedDeployment): () => void {
  const { holders, ...known } = askDeployment(config, countingDb);
  const { zones, signing, queue, replication, machine } = known;
  const gauges = [
    gauge("palomar_service_ready", "Whether a service of this node is ready, and answers", ["service"], async (set) => {
      for (const { name, ready } of supervisor.states) set(ready ? 1 : 0, { service: name });
    }),
    ...countRestarts(supervisor),
    ...databaseGauges(db),
    gauge(
      "palomar_disk_free_ratio",
      "Share that is free of the disk of this node's data folder, or of the embedded database's where that is less",
      [],
      whenKnown(machine, ({ diskFreePercent }, set) => {
        if (diskFreePercent !== null) set(diskFreePercent / 100);
      }),
    ),
    problemGauge(known, config),
    gauge(
      "palomar_zones",
      "Zones in the database, by state (published, suspended)",
      ["state"],
      whenKnown(zones, (read, set) => {
        set(read.published, { state: "published" });
        set(read.suspended, { state: "suspended" });
      }),
    ),
    gauge(
      "palomar_dnssec_overdue_seconds",
      "For how long the signed zone that has waited longest has been due for its upkeep",
      [],
      whenKnown(signing, (read, set) => set(read.overdueSeconds)),
    ),
    gauge(
      "palomar_instances_held",
      "Instances of which nothing leaves, by who holds them (guard, operator)",
      ["by"],
      whenKnown(holders, (read, set) => {
        for (const [by, count] of Object.entries(read)) set(count, { by });
      }),
    ),
    ...queueGauges(queue),
    ...paceGauges(queue),
    gauge(
      "palomar_database_replication_lag_seconds",
      "How far a standby is behind, by its application_name",
      ["standby"],
      whenKnown(replication, ({ standbys }, set) => {
        for (const { standby, seconds } of standbys) set(seconds, { standby });
      }),
    ),
  ];
  return () => {
    for (const name of gauges) registry.removeSingleMetric(name);
  };
}

function databaseGauges(db: Db): string[] {
  // Both are collected together, and to answer the database has to write.
  let asked: Promise<string | undefined> | undefined;
  const ask = () => {
    asked ??= findDatabaseProblem(db).finally(() => {
      asked = undefined;
    });
    return asked;
  };
  return [
    gauge("palomar_database_up", "Whether the database answers this node", [], async (set) =>
      set((await ask()) === DATABASE_SILENT ? 0 : 1),
    ),
    gauge(
      "palomar_database_writable",
      "Whether the database takes changes: it is not read-only, and its disk is not full",
      [],
      async (set) => {
        const problem = await ask();
        if (problem !== DATABASE_SILENT) set(problem === undefined ? 1 : 0);
      },
    ),
  ];
}

/** Asks for each part of what is known where it is due, by what the role may read. */
function askDeployment(config: Config, db: Db) {
  const where = (areas: readonly string[]) => () => mayRead(db, areas);
  return {
    zones: remember(() => readZoneStatus(db), where(["zones"])),
    signing: remember(() => readSigningStatus(db), where(["signing"])),
    queue: remember(() => readQueueStatus(db), where(QUEUE_AREAS)),
    holders: remember(() => countHeldInstances(db), where(["guards"])),
    outcomes: remember(() => readOutcomeStatus(db, OUTCOME_MINUTES), where(OUTCOME_AREAS)),
    inbound: remember(() => readInboundStatus(db), where(["inbound", "mailboxes"])),
    held: remember(() => readHeldStatus(db), where(["instances", "guards"])),
    leftOut: remember(() => listLeftOut(db, MOST_LEFT_OUT), where(["zones", "zones-left-out"])),
    nodes: remember(() => listNodes(db)),
    replication: remember(() => readReplication(db)),
    machine: remember(() => inspectMachine(config, new Date())),
  };
}

/** Each part of what is known, and undefined where it is not. */
type Asked = {
  readonly [part in Exclude<keyof KnownStatus, "expectedStandbys">]: () => Promise<KnownStatus[part] | undefined>;
};

function problemGauge(asked: Asked, { databaseStandbys }: Config): string {
  const limits = loadLimits();
  return gauge(
    "palomar_problems",
    "What is wrong by `palomar status`, as far as this node can tell, by kind",
    ["kind"],
    async (set) => {
      const parts = Object.entries(asked).map(async ([part, ask]) => [part, await ask()] as const);
      const known = { ...Object.fromEntries(await Promise.all(parts)), expectedStandbys: databaseStandbys };
      for (const [kind, lines] of findProblems(known, limits)) set(lines.length, { kind });
    },
  );
}

function queueGauges(queue: () => Promise<QueueStatus | undefined>): string[] {
  return [
    gauge(
      "palomar_queue_recipients",
      "Recipients that still have to be delivered",
      [],
      whenKnown(queue, (read, set) => set(read.recipients)),
    ),
    gauge(
      "palomar_queue_oldest_seconds",
      "Age of the oldest message with recipients left",
      [],
      whenKnown(queue, (read, set) => set(read.oldestSeconds)),
    ),
    gauge(
      "palomar_queue_ready_seconds",
      "For how long the mail that waits longest could have been taken by a worker; what is held on purpose does not wait",
      [],
      whenKnown(queue, (read, set) => set(read.readySeconds)),
    ),
    gauge(
      "palomar_queue_partitions",
      "Unfinished partitions of the queue, by state; what is held on purpose is held, not ready",
      ["state"],
      whenKnown(queue, (read, set) => {
        for (const [state, count] of Object.entries(read.partitions)) set(count, { state });
      }),
    ),
    gauge(
      "palomar_queue_backoffs",
      "Destinations that are left alone for now",
      [],
      whenKnown(queue, (read, set) => set(read.backoffs)),
    ),
  ];
}

function paceGauges(queue: () => Promise<QueueStatus | undefined>): string[] {
  return [
    gauge(
      "palomar_pace_limited",
      "Sources at providers where a limit goes that was learnt or pinned",
      [],
      whenKnown(queue, (read, set) => set(read.pacesLimited)),
    ),
    gauge(
      "palomar_pace_waiting",
      "Sources at providers that nothing is sent to now, as the provider wants less",
      [],
      whenKnown(queue, (read, set) => set(read.pacesWaiting)),
    ),
    gauge(
      "palomar_pace_longest_wait_seconds",
      "For how long nothing more is sent from the source that waits longest for a provider",
      [],
      whenKnown(queue, (read, set) => set(read.longestPaceWaits[0]?.seconds ?? 0)),
    ),
    gauge(
      "palomar_warm_up_paused",
      "Plans of new addresses, one for each provider, that paused by themselves as deferrals or complaints rose",
      [],
      whenKnown(queue, (read, set) => set(read.warmUpsPaused)),
    ),
    gauge(
      "palomar_warm_up_sources",
      "Source addresses that are new and send by a plan",
      [],
      whenKnown(queue, (read, set) => set(read.warmUps)),
    ),
    gauge(
      "palomar_warm_up_messages",
      "Messages of these addresses today, over all providers that they send to (planned, sent)",
      ["state"],
      whenKnown(queue, (read, set) => {
        set(read.warmUpPlanned, { state: "planned" });
        set(read.warmUpSent, { state: "sent" });
      }),
    ),
  ];
}

type SetValue = (value: number, labels?: Readonly<Record<string, string>>) => void;

function gauge(name: string, help: string, labels: readonly string[], show: (set: SetValue) => Promise<void>): string {
  new Gauge({
    name,
    help,
    labelNames: [...labels],
    registers: [registry],
    async collect() {
      // What is no longer so is not shown, and nothing is when nobody knows: a gauge without labels is reset to 0.
      this.reset();
      if (labels.length === 0) this.remove();
      await show((value, given = {}) => this.set(given, value));
    },
  });
  return name;
}

function countRestarts(supervisor: Supervisor): string[] {
  const count = (name: string, help: string, labelNames: readonly string[], which: "restarts" | "hangs") => {
    new Counter({
      ...{ name, help, labelNames: [...labelNames], registers: [registry] },
      collect() {
        this.reset();
        for (const counts of supervisor.restarts) this.inc({ service: counts.name }, counts[which]);
      },
    });
    return name;
  };
  return [
    count(
      "palomar_service_restarts_total",
      "How often a service of this node ended by itself, or by force, and was started again",
      ["service"],
      "restarts",
    ),
    count(
      "palomar_service_hangs_total",
      "How often a service of this node had not answered for a minute, was ended by force and started again",
      ["service"],
      "hangs",
    ),
  ];
}

/** Shows what the database knows, where it tells. */
function whenKnown<T>(ask: () => Promise<T | undefined>, show: (read: T, set: SetValue) => void) {
  return async (set: SetValue) => {
    const read = await ask();
    if (read !== undefined) show(read, set);
  };
}

/**
 * Asks at most every few seconds, and keeps nobody waiting for long; undefined while the database is away, and where this
 * node's role may not know.
 */
function remember<T>(ask: () => Promise<T>, may = async () => true): () => Promise<T | undefined> {
  let last: { readonly atMs: number; readonly answer: Promise<T | undefined> } | undefined;
  return () => {
    if (!last || performance.now() - last.atMs > KEPT_MS) {
      const answer = may().then((allowed) => (allowed ? ask() : undefined));
      last = { atMs: performance.now(), answer: answer.catch(() => undefined) };
    }
    return inTime(last.answer, PATIENCE_MS, () => undefined);
  };
}
