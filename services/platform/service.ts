import type { Worker } from "node:worker_threads";
import type pg from "pg";
import type { KeyRing } from "../core/key-ring.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config/config.ts";
import type { LargeRequestsService } from "./http/large-requests.ts";
import type { Logger } from "./observability/logger.ts";
import type { Observe } from "./observability/observation.ts";
import type { Db } from "./postgres/db.ts";

/** The services that `palomar start` knows, in the order of the documentation; the sandbox's inbox goes with delivery. */
export const SERVICE_NAMES = [
  "mail-api",
  "dns-api",
  "dns-server",
  "submission",
  "delivery",
  "bounce",
  "tracking",
  "console",
  "sandbox",
] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];

/** Services that start and do their work while the database is away: name servers answer from memory. */
export const WITHOUT_DATABASE: readonly ServiceName[] = ["dns-server"];

/** Listeners as `addresses.json` names them, and the sandbox's inbox: URLs of HTTP, host:port of the others, several parted by commas. */
export type AddressName =
  | "mail_api"
  | "dns_api"
  | "dns_api_tls"
  | "console"
  | "tracking"
  | "tracking_tls"
  | "dns"
  | "dns_tls"
  | "dns_https"
  | "submission"
  | "submissions"
  | "mx"
  | "sandbox"
  | "metrics";

export type Addresses = { [name in AddressName]?: string };

/** The first of a listener's addresses. */
export function firstAddress(addresses: string): string {
  return addresses.split(",", 1)[0]!;
}

/** What a service is given; it takes nothing else from its surroundings. */
export interface ServiceContext {
  readonly config: Config;
  /** The keys of its purposes (`core/key-purposes.ts`). */
  readonly keyRing: KeyRing;
  readonly db: Db;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observe: Observe;
  /** A connection for LISTEN, outside the pool. The caller closes it, and opens another when it ends. */
  openListenConnection(): Promise<pg.Client>;
  /**
   * Starts a thread that carries out large requests, with what the service's `large-requests.ts` exports. Where it is
   * absent, the service carries them out in its own.
   */
  openLargeRequests?(): Worker;
  /**
   * Where a sibling listens, once that is known (it may start later, on a port of the system's choosing).
   * A sibling that is not part of this stack is taken at its configured address.
   */
  addressOf(name: AddressName): Promise<string>;
}

export interface RunningService {
  /** The addresses in force, chosen ports included. */
  readonly addresses: Addresses;
  /** Stops taking work, finishes or gives back what it holds, closes; within a few seconds. */
  stop(): Promise<void>;
}

/** Every `services/<name>/main.ts` exports one of these as `start`. */
export type StartService = (context: ServiceContext) => Promise<RunningService>;

/** What a service's thread for large requests is given; its database is a pool of its own. */
export type ThreadContext = Pick<ServiceContext, "config" | "keyRing" | "db" | "clock" | "observe">;

/** `services/<name>/large-requests.ts` of a service that has such a thread exports one of these as `start`. */
// biome-ignore lint/suspicious/noExplicitAny: each service has callers of its own
export type StartLargeRequests = (context: ThreadContext) => Promise<LargeRequestsService<any>>;
