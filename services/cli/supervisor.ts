import { type ChildProcess, fork } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { formatKeyFile } from "../core/key-file.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { type Config, environmentWith, type VariableName } from "../platform/config/config.ts";
import type { Logger } from "../platform/observability/logger.ts";
import type { MetricFamilies } from "../platform/observability/metrics.ts";
import { programFile, programRunner } from "../platform/package-folder.ts";
import type { Addresses, AddressName, ServiceName } from "../platform/service.ts";
import { LISTENERS } from "./address-book.ts";
import { CommandRefused } from "./command-errors.ts";
import { KeptCounts } from "./kept-counts.ts";
import { NODE_OPTIONS_OF, nodeEnvironmentOf } from "./node-options.ts";
import type { FromService, ToService } from "./service-messages.ts";

export interface SupervisorOptions {
  readonly config: Config;
  /** Services load what they consist of until it is there. */
  readonly foundation: Promise<Foundation>;
  readonly services: readonly ServiceName[];
  readonly logger: Pick<Logger, "error" | "warn">;
  /** Those of {@link PULSE}, unless others are given. */
  readonly pulse?: Pulse;
}

/** How services that are ready are asked whether they still do anything. */
export interface Pulse {
  readonly everyMs: number;
  /** After so many questions in a row without an answer a service is not ready. */
  readonly silentAfter: number;
  /** After so many it is ended by force, and started again. */
  readonly endAfter: number;
}

/**
 * What waits for this long, everybody waits for: long work is done in turns of some milliseconds or in threads, so a busy service
 * answers as well, only later. Questions are counted and not seconds: a supervisor that was held up itself has asked none meanwhile.
 */
const PULSE: Pulse = { everyMs: 1_000, silentAfter: 10, endAfter: 60 };

/**
 * What services wait for: their keys, and what they connect with. It is there when the database is up to date, or when it
 * is away and they can start without it.
 */
export interface Foundation {
  /** What a service connects with. */
  readonly databaseUrlOf: (name: ServiceName) => string;
  readonly keyRing: KeyRing;
}

/** A service's process, and what it last said. */
interface Supervised {
  readonly name: ServiceName;
  /** The last one; undefined while there was none yet. */
  child: ChildProcess | undefined;
  /** It said that it is, and has not ended since. */
  ready: boolean;
  /** Questions since it said anything. */
  unanswered: number;
  /** Whether any of them was ready. */
  hasBeenReady: boolean;
  /** When the last one was told its secrets, or was to be made; as of performance.now(). */
  startedAt: number;
  /** Ends in a row without having run for long. */
  failures: number;
  /** Ends that were not asked for, ever. */
  restarts: number;
  /** What all of its processes have counted. */
  readonly counts: KeptCounts;
  /** Of `restarts` those by force, as it no longer answered. */
  hangs: number;
}

/** How a process ended, or that there could be none. */
interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** In words, where there are any. */
  readonly failure: string;
}

const RESTART_FIRST_MS = 100;
const RESTART_MOST_MS = 5_000;
/** So often a service that is killed before it was ready the first time is started again: what ends by itself says why. */
const FIRST_RESTARTS = 3;
/** A process that ran this long before it ended is started again at once. */
const STEADY_AFTER_MS = 10_000;
const STOP_DEADLINE_MS = 10_000;
const METRICS_DEADLINE_MS = 2_000;

/**
 * Told by message instead: the embedded server's URL is not known when the process is made, and an environment, where keys
 * would be, is open to every process of the same user.
 */
const WITHOUT_SECRETS = {
  DATABASE_URL: "",
  PALOMAR_SECRET: "",
  PALOMAR_SECRET_PREVIOUS: "",
  PALOMAR_KEYS: "",
} as const;

const LISTENERS_OF: { readonly [name in ServiceName]: readonly AddressName[] } = {
  "mail-api": ["mail_api"],
  "dns-api": ["dns_api", "dns_api_tls"],
  "dns-server": ["dns", "dns_tls", "dns_https"],
  submission: ["submission", "submissions"],
  delivery: [],
  bounce: ["mx"],
  tracking: ["tracking", "tracking_tls"],
  console: ["console"],
  sandbox: ["sandbox"],
};

/**
 * Runs every service in a process of its own, tells them where the others listen, and starts again what ends.
 * When the supervisor itself is killed, its services notice and end.
 */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #services = new Map<ServiceName, Supervised>();
  readonly #pulse: Pulse;
  #asking: NodeJS.Timeout | undefined;
  #addresses: Addresses = {};
  #stopping = false;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#pulse = options.pulse ?? PULSE;
  }

  get addresses(): Addresses {
    return this.#addresses;
  }

  /** Every service of this stack, and whether it is ready: it said so, and still answers. */
  get states(): { readonly name: ServiceName; readonly ready: boolean }[] {
    return this.#all.map((service) => ({ name: service.name, ready: service.ready && !this.#isSilent(service) }));
  }

  /** Why services are not ready, a line for each. */
  get problems(): string[] {
    return this.#all
      .filter((service) => !service.ready || this.#isSilent(service))
      .map(({ name, ready }) => (ready ? `${name} does not answer` : `${name} is not ready`));
  }

  /** How often each service ended by itself, or was ended as it hung, and was started again. */
  get restarts(): { readonly name: ServiceName; readonly restarts: number; readonly hangs: number }[] {
    return this.#all.map(({ name, restarts, hangs }) => ({ name, restarts, hangs }));
  }

  /** Starts all services. Rejects, with all of them ended, when one of them cannot start, or has nothing to stand on. */
  async start(): Promise<void> {
    const { foundation, services } = this.#options;
    this.#asking = setInterval(() => this.#askAll(), this.#pulse.everyMs).unref();
    // They wait for it and have nothing to undo.
    foundation.catch(() => this.kill());
    try {
      await Promise.all([foundation, ...services.map((name) => this.#startFirst(name))]);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.expectEnds();
    const children = this.#children();
    for (const child of children) send(child, { kind: "stop" });
    const deadline = sleep(STOP_DEADLINE_MS, undefined, { ref: false });
    await Promise.race([Promise.all(children.map(ended)), deadline]);
    this.kill();
    await Promise.all(children.map(ended));
  }

  /** Ends every process at once. */
  kill(): void {
    this.expectEnds();
    for (const child of this.#children()) child.kill("SIGKILL");
  }

  /**
   * The metrics of every service: of one that does not answer in time, and of what has ended, what they had counted. Nobody
   * waits for one that is known not to answer.
   */
  async collectMetrics(): Promise<MetricFamilies[]> {
    const answers = this.#all.map(async (service) => {
      const { child, counts } = service;
      return counts.withKept(child && !this.#isSilent(service) ? await askMetrics(child) : undefined);
    });
    return (await Promise.all(answers)).flat();
  }

  get #all(): Supervised[] {
    return [...this.#services.values()];
  }

  #isSilent({ unanswered }: Supervised): boolean {
    return unanswered >= this.#pulse.silentAfter;
  }

  /** From now on services may end, as by a signal to the whole process group: none is started again. */
  expectEnds(): void {
    this.#stopping = true;
    clearInterval(this.#asking);
  }

  /** Asks every service that said that it is ready whether it still answers, and ends one that has not for long. */
  #askAll(): void {
    const { logger } = this.#options;
    for (const service of this.#all) {
      const { name, child } = service;
      if (!service.ready || child === undefined) continue;
      if (service.unanswered === this.#pulse.silentAfter) logger.error({ name }, "a service does not answer");
      if (service.unanswered >= this.#pulse.endAfter) {
        service.hangs += child.kill("SIGKILL") ? 1 : 0;
        service.ready = false;
        continue;
      }
      service.unanswered += 1;
      send(child, { kind: "ask" });
    }
  }

  #heard(service: Supervised): void {
    if (this.#isSilent(service)) this.#options.logger.warn({ name: service.name }, "a service answers again");
    service.unanswered = 0;
  }

  #children(): ChildProcess[] {
    return this.#all.flatMap(({ child }) => child ?? []);
  }

  /** Runs a service until the stop. @returns when it is ready; rejects when it does not start, or is stopped before */
  #startFirst(name: ServiceName): Promise<void> {
    return new Promise((resolve, reject) => {
      const states = { ready: false, hasBeenReady: false, unanswered: 0 };
      const ends = { failures: 0, restarts: 0, hangs: 0 };
      const counts = new KeptCounts();
      const service: Supervised = { name, child: undefined, ...states, startedAt: 0, ...ends, counts };
      this.#services.set(name, service);
      this.#supervise(service, resolve).catch(reject);
    });
  }

  /** Starts again what ends. Never fulfilled: rejects when the service does not start, and when all are stopped. */
  async #supervise(service: Supervised, onReady: () => void): Promise<never> {
    const { name } = service;
    while (!this.#stopping) {
      service.startedAt = performance.now();
      const { code, signal, failure } = await this.#run(service, onReady);
      service.ready = false;
      service.unanswered = 0;
      service.counts.endProcess();
      if (this.#stopping) break;
      if (!service.hasBeenReady && (signal === null || service.restarts === FIRST_RESTARTS)) {
        throw new CommandRefused(`${name}: ${failure || `ended with ${signal ?? `status ${code}`}`}`);
      }
      service.failures = performance.now() - service.startedAt > STEADY_AFTER_MS ? 0 : service.failures + 1;
      this.#options.logger.error({ name, code, signal, failure }, "a service ended and is started again");
      await sleep(Math.min(RESTART_FIRST_MS * 2 ** service.failures, RESTART_MOST_MS));
      service.restarts += 1;
    }
    throw new Error("stopped");
  }

  /** Runs a service's process once. @returns when it has ended */
  #run(service: Supervised, onReady: () => void): Promise<End> {
    return new Promise((resolve) => {
      let failure = "";
      let child: ChildProcess;
      try {
        child = this.#fork(service.name);
      } catch (error) {
        // Such as ENOMEM.
        return resolve({ code: null, signal: null, failure: (error as Error).message });
      }
      service.child = child;
      child.on("error", (error) => {
        failure ||= error.message;
        // Such as EAGAIN: what never began does not exit.
        if (child.pid === undefined) resolve({ code: null, signal: null, failure });
      });
      child.once("exit", (code, signal) => resolve({ code, signal, failure }));
      child.on("message", (message: FromService) => {
        this.#heard(service);
        if (message.kind === "failed") failure = message.text;
        if (message.kind !== "ready") return;
        service.ready = true;
        service.hasBeenReady = true;
        this.#addresses = { ...this.#addresses, ...message.addresses };
        for (const other of this.#children()) send(other, this.#addressMessage());
        onReady();
      });
      void this.#tell(child, service);
    });
  }

  /** Tells a new process what it needs to begin. */
  async #tell(child: ChildProcess, service: Supervised): Promise<void> {
    const { name } = service;
    const foundation = await this.#options.foundation.catch(() => undefined);
    if (foundation === undefined) return;
    const keys = formatKeyFile(foundation.keyRing, name, { withDigestKeys: true });
    service.startedAt = performance.now();
    send(child, { kind: "secrets", keys, databaseUrl: foundation.databaseUrlOf(name) });
    send(child, this.#addressMessage());
  }

  #fork(name: ServiceName): ChildProcess {
    return fork(programRunner, [programFile("cli/service-process"), name], {
      env: { ...nodeEnvironmentOf(name), ...environmentWith({ ...WITHOUT_SECRETS, ...this.#chosenPorts(name) }) },
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      execArgv: [...process.execArgv, ...(NODE_OPTIONS_OF[name] ?? [])],
    });
  }

  /** Ports that the system chose stay the service's own when it is started again. */
  #chosenPorts(name: ServiceName): { [variable in VariableName]?: string } {
    const chosen: { [variable in VariableName]?: string } = {};
    for (const listener of LISTENERS_OF[name]) {
      const { setting, variable } = LISTENERS[listener];
      const configured = this.#options.config.listen[setting];
      const address = this.#addresses[listener];
      if (address !== undefined && configured.some(({ port }) => port === 0)) {
        chosen[variable] = address.replaceAll("http://", "");
      }
    }
    return chosen;
  }

  #addressMessage(): ToService {
    const { services, config } = this.#options;
    const expected = services
      .flatMap((name) => LISTENERS_OF[name])
      .filter((listener) => config.listen[LISTENERS[listener].setting].length > 0);
    return { kind: "addresses", addresses: this.#addresses, expected };
  }
}

function send(child: ChildProcess, message: ToService): void {
  // A process that is just ending no longer listens; its end is seen elsewhere.
  if (child.connected) child.send(message, () => {});
}

function ended(child: ChildProcess): Promise<unknown> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once("exit", resolve));
}

function askMetrics(child: ChildProcess): Promise<MetricFamilies | undefined> {
  return new Promise((resolve) => {
    const finish = (families?: MetricFamilies) => {
      clearTimeout(deadline);
      child.off("message", listen);
      resolve(families);
    };
    const listen = (message: FromService) => {
      if (message.kind === "metrics") finish(message.families);
    };
    const deadline = setTimeout(() => finish(), METRICS_DEADLINE_MS).unref();
    child.on("message", listen);
    send(child, { kind: "collect-metrics" });
  });
}
