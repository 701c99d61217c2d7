import { availableParallelism } from "node:os";
import type { ServiceName } from "../platform/service.ts";

/**
 * The garbage of a thread for large requests is collected by that thread, at its priority: helpers would have the
 * process's, and take the processors from everybody else's small requests.
 */
const COLLECTS_BY_ITSELF = "--single-threaded-gc";

/**
 * How Node is to run a service's process. The DNS server's zones stream past once: a young generation that has grown for
 * them would stay that large.
 */
export const NODE_OPTIONS_OF: { readonly [name in ServiceName]?: readonly string[] } = {
  "mail-api": [COLLECTS_BY_ITSELF],
  "dns-api": [COLLECTS_BY_ITSELF],
  "dns-server": ["--max-semi-space-size=4"],
};

/** Threads that Node's pool has unless it is told. */
const POOL_THREADS = 4;

/**
 * What Node reads from a service's environment, and an operator may set otherwise. Delivery signs in the pool, and does all else in
 * one thread, by which its throughput is bound: the pool leaves a processor to that one, where there are several.
 */
export function nodeEnvironmentOf(name: ServiceName, processors = availableParallelism()): Record<string, string> {
  if (name !== "delivery") return {};
  return { UV_THREADPOOL_SIZE: String(Math.min(POOL_THREADS, Math.max(1, processors - 1))) };
}
