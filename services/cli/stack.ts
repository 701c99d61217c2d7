import { existsSync } from "node:fs";
import { access, constants, mkdir, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { purposesOf } from "../core/key-purposes.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { judgeCertificate } from "../platform/certificate.ts";
import type { Config, NamedPaths } from "../platform/config/config.ts";
import { findKeys } from "../platform/config/secret.ts";
import { inTime } from "../platform/deadline.ts";
import { giveBackMemorySoon } from "../platform/give-back-memory.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import { judgePlaceDatabase } from "../platform/lookups/places.ts";
import type { Logger } from "../platform/observability/logger.ts";
import { makeObserve } from "../platform/observability/observe.ts";
import { type Db, isDatabaseAway, isForbidden, openDb, SILENT_DATABASE_MS } from "../platform/postgres/db.ts";
import { openEmbeddedPostgres } from "../platform/postgres/embedded-postgres.ts";
import { isBehind, migrate } from "../platform/postgres/migrations.ts";
import { requireReadCommitted, requireSessions } from "../platform/postgres/suitable-database.ts";
import { acquireProcessLock } from "../platform/process-lock.ts";
import { SERVICE_NAMES, type ServiceName, WITHOUT_DATABASE } from "../platform/service.ts";
import { applyRoles, roleOf } from "../store/database-roles.ts";
import { completeKeyRing } from "../store/deployment-keys.ts";
import { explainUnopened } from "./address-book.ts";
import { AddressesFile } from "./addresses-file.ts";
import { composeBanner } from "./banner.ts";
import { CommandRefused } from "./command-errors.ts";
import { type Credentials, makeDemoOnce, noteDemoShown } from "./demo.ts";
import { exportDeployment } from "./deployment-metrics.ts";
import { listenForMonitoring } from "./health.ts";
import { startNodeReports } from "./node-reports.ts";
import { policyName, requireRights } from "./service-rights.ts";
import { type Foundation, Supervisor } from "./supervisor.ts";

/** What the services stand on, and what the supervisor needs of it itself. */
interface StackFoundation extends Foundation {
  readonly databaseUrl: string;
  readonly db: Db;
  /** As long as they were not printed. */
  readonly credentials?: Credentials | undefined;
}

/** All services, or some, with the database that they stand on. */
export class Stack {
  readonly #config: Config;
  readonly #services: readonly ServiceName[];
  readonly #logger: Logger;
  readonly #lifecycle: Lifecycle;
  #supervisor: Supervisor | undefined;
  #started: Promise<string | undefined> | undefined;
  /** What the services stand on is there, or is not to come. */
  #isFounded = false;
  #stopping = false;

  constructor(config: Config, wanted: readonly ServiceName[], logger: Logger) {
    this.#config = config;
    this.#services = withSandbox(config, wanted);
    this.#logger = logger;
    this.#lifecycle = new Lifecycle(logger);
  }

  /**
   * Brings up the database, migrations, first-run accounts, and the services, which load their modules meanwhile.
   * Whatever was begun is undone when a later step fails, and when `stop` is called meanwhile.
   * @returns what is printed once everything is ready; undefined when it was stopped before
   */
  async start(): Promise<string | undefined> {
    this.#started = this.#start();
    try {
      return await this.#started;
    } catch (error) {
      await this.#lifecycle.stop();
      if (this.#stopping) return undefined;
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#supervisor?.expectEnds();
    // They wait for what is not there yet, and whatever makes it may take its time to end.
    if (!this.#isFounded) await this.#supervisor?.stop();
    await this.#lifecycle.stop(20_000);
    // A step that was under way has come to its end by now, or comes to it soon, and is undone as well.
    await this.#started?.catch(() => {});
    await this.#lifecycle.stop(20_000);
  }

  /** Ends every service at once, leaving the rest to the next start. */
  kill(): void {
    this.#stopping = true;
    this.#supervisor?.kill();
  }

  async #start(): Promise<string | undefined> {
    const config = this.#config;
    await lockDataFolder(config, this.#services, this.#lifecycle);
    if (this.#stopping) return undefined;
    // So that the services stop before what they stand on, however far that has come.
    const foundation = this.#layFoundation().finally(() => {
      this.#isFounded = true;
      this.#lifecycle.onStop("services", () => supervisor.stop());
    });
    let foundationFailed = false;
    foundation.catch(() => {
      foundationFailed = true;
    });
    const supervisor = new Supervisor({ config, foundation, services: this.#services, logger: this.#logger });
    this.#supervisor = supervisor;
    const started = supervisor.start();
    // Said at once: nobody looks at it before the database is up to date, which may take minutes.
    started.catch((err) => {
      if (foundationFailed || this.#stopping) return;
      this.#logger.error({ reason: (err as Error).message }, "a service does not start");
    });
    const { databaseUrl, db, credentials } = await foundation;
    if (this.#stopping) return undefined;
    await started;
    const countingDb = openDb(config.listenDatabaseUrl ?? databaseUrl, { connections: 1, name: "monitoring" });
    this.#lifecycle.onStop("monitoring connection", () => countingDb.destroy());
    this.#lifecycle.onStop("metrics of the deployment", exportDeployment({ config, supervisor, db, countingDb }));
    const isWhole = SERVICE_NAMES.every((name) => this.#services.includes(name) || name === "sandbox");
    const node = isWhole ? config.node : nameNode(config, this.#services);
    const reports = startNodeReports(node, { db, supervisor, logger: this.#logger });
    this.#lifecycle.onStop("reports of this node", () => reports.stop());
    const observe = makeObserve(this.#logger);
    const monitoring = await listenForMonitoring(config.listen.metrics, { supervisor, db, observe }).catch((error) => {
      const unopened = explainUnopened(error, config.listen);
      throw unopened === undefined ? error : new CommandRefused(unopened);
    });
    if (monitoring) this.#lifecycle.onStop("monitoring", () => monitoring.close());

    const addresses = { ...supervisor.addresses, ...(monitoring ? { metrics: monitoring.url } : {}) };
    const file = new AddressesFile(config.dataDir);
    await file.write(addresses, isWhole);
    this.#lifecycle.onStop("addresses.json", () => file.remove());
    if (this.#stopping) return undefined;
    const banner = await composeBanner({ config, addresses, credentials, db });
    if (credentials) await noteDemoShown(db);
    giveBackMemorySoon();
    return banner;
  }

  async #layFoundation(): Promise<StackFoundation> {
    const config = this.#config;
    const databaseUrl = await openDatabase(config, this.#lifecycle, this.#logger);
    const db = openDb(config.listenDatabaseUrl ?? databaseUrl, { connections: 2, name: "supervisor" });
    this.#lifecycle.onStop("database connections", () => db.destroy());
    const keyRing = await this.#prepareDatabase(db);
    if (config.databaseUrl !== null) return { databaseUrl, db, keyRing, databaseUrlOf: () => databaseUrl };
    const credentials = await makeDemoOnce(db, keyRing, config.dataDir);
    // The embedded server is ours: there each service has its own role without anybody's doing.
    await applyRoles(db);
    return { databaseUrl, db, keyRing, credentials, databaseUrlOf: (name) => inRole(databaseUrl, name) };
  }

  /**
   * Brings the database up to date.
   * @returns the keys, of which each service is given its own
   */
  async #prepareDatabase(db: Db): Promise<KeyRing> {
    const keyRing = findKeys(this.#config);
    const { databaseUrl, listenDatabaseUrl } = this.#config;
    // Name servers are to answer whatever else is down: from their snapshot, until the database is there.
    const canWait = this.#services.every((name) => WITHOUT_DATABASE.includes(name));
    try {
      if (canWait) await requireAnswer(db);
      if (databaseUrl !== null) await requireSessions(databaseUrl, listenDatabaseUrl);
      if (listenDatabaseUrl !== null) await requireReadCommitted(db);
      await bringUpToDate(db);
      // The embedded database's owner may do everything.
      if (databaseUrl !== null) for (const service of this.#services) await requireRights(db, service);
      return await completeKeyRing(db, keyRing);
    } catch (error) {
      if (!canWait || !isDatabaseAway(error)) throw error;
      this.#logger.warn({ err: error }, "the database is away");
      return keyRing;
    }
  }
}

/**
 * Tells a database that hangs from one that has much to do.
 * @throws as for one that is away, where nothing comes in time
 */
async function requireAnswer(db: Db): Promise<void> {
  await inTime(db.raw("select 1"), SILENT_DATABASE_MS, () => {
    throw Object.assign(new Error("the database does not answer"), { code: "ETIMEDOUT" });
  });
}

/** @throws CommandRefused when something is to be done and the role may not do it */
async function bringUpToDate(db: Db): Promise<void> {
  // A service's own role may read what there is, and no more.
  if (!(await isBehind(db))) return;
  try {
    await migrate(db);
  } catch (error) {
    if (!isForbidden(error)) throw error;
    throw new CommandRefused("the database is not up to date: run `palomar migrate` as the owner of its tables");
  }
}

/**
 * Looks, before anything is started, at the files and folders that the configuration names, and whether the services
 * that are to run have the listeners that they need.
 * @returns a line for each problem, naming its variable
 */
export async function checkSurroundings(config: Config, services: readonly ServiceName[]): Promise<string[]> {
  const { dataDir, tls, placeDatabase } = config;
  const { certPath, keyPath } = tls ?? { certPath: null, keyPath: null };
  const found = await checkPaths({ certPath, keyPath, placeDatabase, dataDir });
  return [...found, ...missingListeners(config, services), ...missingKeys(config, services)];
}

/** Of {@link checkSurroundings} what can be told while other variables are wrong. */
export async function checkPaths({ certPath, keyPath, placeDatabase, dataDir }: NamedPaths): Promise<string[]> {
  const whyUnread = async (variable: string, path: string | null) =>
    path === null ? undefined : explain(variable, await attempt(access(path, constants.R_OK)));
  const unreadable = await Promise.all([
    whyUnread("PALOMAR_TLS_CERT", certPath),
    whyUnread("PALOMAR_TLS_KEY", keyPath),
    whyUnread("PALOMAR_PLACE_DATABASE", placeDatabase),
  ]);
  const folder = await attempt(makeFolder(dataDir).then(() => access(dataDir, constants.W_OK)));
  const [noCert, noKey, noPlaces] = unreadable;
  const isPairThere = certPath !== null && keyPath !== null && noCert === undefined && noKey === undefined;
  const pair = isPairThere ? judgeCertificate({ certPath, keyPath }) : undefined;
  const places = placeDatabase !== null && noPlaces === undefined ? judgePlaceDatabase(placeDatabase) : undefined;
  return [...unreadable, pair, places, explain("PALOMAR_DATA_DIR", folder)].filter((problem) => problem !== undefined);
}

/** Keys that a service uses, and the key file does not hold: most likely it is another service's. */
function missingKeys({ keys }: Config, services: readonly ServiceName[]): string[] {
  if (keys === null) return [];
  return services.flatMap((service) => {
    const missing = purposesOf(service).filter((purpose) => !keys.holds(purpose));
    return missing.length > 0
      ? [`PALOMAR_KEYS: ${service} needs keys that are not among them: ${missing.join(", ")}`]
      : [];
  });
}

/** Delivery writes links that lead to tracking, and fills the sandbox's inbox. */
function missingListeners({ listen, trackingUrl, delivery }: Config, services: readonly ServiceName[]): string[] {
  if (!services.includes("delivery")) return [];
  const problems: string[] = [];
  if (listen.tracking.length === 0 && trackingUrl === null) {
    problems.push("PALOMAR_TRACKING_LISTEN: off, so PALOMAR_TRACKING_URL has to say where links of messages lead");
  }
  if (listen.sandbox.length === 0 && delivery.kind === "sandbox") {
    problems.push("PALOMAR_SANDBOX_LISTEN: off, while PALOMAR_DELIVERY is sandbox");
  }
  return problems;
}

/** Level by level: a recursive mkdir never ends where the file system invents folders, as in /proc. */
async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) {
    if (!(await stat(folder)).isDirectory()) throw new Error(`${folder} is no folder`);
    return;
  }
  if (dirname(folder) !== folder) await makeFolder(dirname(folder));
  await mkdir(folder, { mode: 0o700 });
}

async function attempt(action: Promise<unknown>): Promise<Error | undefined> {
  return action.then(
    () => undefined,
    (error: Error) => error,
  );
}

function explain(variable: string, error: Error | undefined): string | undefined {
  return error && `${variable}: ${error.message}`;
}

/** Stacks of single services may share a machine, and its name: then each reports under a name of its own. */
function nameNode({ node }: Config, services: readonly ServiceName[]): string {
  return node === hostname() ? `${node}/${services.filter((name) => name !== "sandbox").join("+")}` : node;
}

/** The sandbox's inbox goes where delivery goes, and nowhere else. */
function withSandbox(config: Config, wanted: readonly ServiceName[]): readonly ServiceName[] {
  const named = wanted.filter((name) => name !== "sandbox");
  return config.delivery.kind === "sandbox" && named.includes("delivery") ? [...named, "sandbox"] : named;
}

/** One process per service and data folder: a second stack would fight the first over ports and files. */
async function lockDataFolder(config: Config, services: readonly ServiceName[], lifecycle: Lifecycle): Promise<void> {
  for (const name of services) {
    const lock = await acquireProcessLock(join(config.dataDir, `${name}.lock`));
    if (!lock.ok) {
      throw new CommandRefused(
        `the data folder ${config.dataDir} is in use by another stack (process ${lock.error.pid} runs ${name})`,
      );
    }
    lifecycle.onStop(`lock of ${name}`, () => lock.value.release());
  }
}

/** The owner's URL, of whose rights its connections keep those of a service's role. */
function inRole(url: string, name: ServiceName): string {
  const own = new URL(url);
  own.searchParams.set("options", `-c role=${roleOf(policyName(name))}`);
  return own.href;
}

async function openDatabase(config: Config, lifecycle: Lifecycle, logger: Logger): Promise<string> {
  if (config.databaseUrl !== null) return config.databaseUrl;
  const server = await openEmbeddedPostgres({ dataDir: config.dataDir, logger });
  lifecycle.onStop("embedded PostgreSQL", () => server.release());
  return server.url;
}
