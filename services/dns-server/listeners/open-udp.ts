import { availableParallelism } from "node:os";
import type { Config } from "../../platform/config/config.ts";
import type { HostPort } from "../../platform/config/config-values.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import { MAX_READERS } from "../zone-database/layout.ts";
import { listenUdp, type UdpListener, type UdpListenerOptions } from "./listen-udp.ts";
import { listenUdpBatch, type UdpWorkersOptions } from "./listen-udp-batch.ts";

/** Where the layouts of linux-sockets.ts hold: little-endian, 64 bits. */
const BATCH_ARCHITECTURES: ReadonlySet<string> = new Set(["x64", "arm64"]);

/** Threads that the batching listener will have; the main thread is a reader of the zone database as well. */
export function udpWorkerCount(config: Config): number {
  return Math.min(config.dns.workers === 0 ? availableParallelism() : config.dns.workers, MAX_READERS - 1);
}

/** Opens UDP by the batching workers where the platform has what they need, else by the portable listener, and says so. */
export async function openUdp(
  addresses: readonly HostPort[],
  options: {
    readonly config: Config;
    readonly observe: Observe;
    readonly portable: UdpListenerOptions;
    readonly batch: Omit<UdpWorkersOptions, "workers" | "answerCacheMebioctets">;
  },
): Promise<UdpListener> {
  const { config, observe } = options;
  const obstacle = config.dns.udp === "portable" ? "PALOMAR_DNS_UDP=portable" : await obstacleToBatching(addresses);
  if (obstacle === undefined) {
    const { answerCacheMebioctets } = config.dns;
    return listenUdpBatch(addresses, { ...options.batch, workers: udpWorkerCount(config), answerCacheMebioctets });
  }
  observe({ kind: "dns-udp-portable", level: "info", reason: obstacle });
  const listeners = await listenOnEach(addresses, options.portable);
  return { stop: () => stopEach(listeners) };
}

async function obstacleToBatching(addresses: readonly HostPort[]): Promise<string | undefined> {
  if (process.platform !== "linux") return "not Linux";
  if (!BATCH_ARCHITECTURES.has(process.arch)) return `architecture ${process.arch}`;
  if (addresses.some(({ host }) => /[^\d.:a-f]/i.test(host))) return "an address is a host name";
  try {
    await import("koffi");
    return undefined;
  } catch (error) {
    return `koffi cannot be loaded: ${(error as Error).message}`;
  }
}

async function listenOnEach(addresses: readonly HostPort[], options: UdpListenerOptions): Promise<UdpListener[]> {
  const listeners: UdpListener[] = [];
  try {
    for (const address of addresses) listeners.push(await listenUdp(address, options));
    return listeners;
  } catch (error) {
    await stopEach(listeners);
    throw error;
  }
}

async function stopEach(listeners: readonly UdpListener[]): Promise<void> {
  await Promise.all(listeners.map((listener) => listener.stop()));
}
