import { CannotListen } from "../../platform/bind.ts";
import type { HostPort } from "../../platform/config/config-values.ts";
import { listenTcp, type TcpListener, type TcpListenerOptions } from "./listen-tcp.ts";
import type { UdpListener } from "./listen-udp.ts";

export interface DnsListenerOptions {
  readonly tcp: TcpListenerOptions;
  /** Opens UDP on all addresses, none of which has port 0. */
  readonly openUdp: (addresses: readonly HostPort[]) => Promise<UdpListener>;
}

export interface DnsListener {
  /** The addresses in force, in the order of those asked for. */
  readonly addresses: readonly HostPort[];
  stop(): Promise<void>;
}

/** How often ports of the system's choosing are given up because UDP cannot have what TCP got. */
const MAX_ATTEMPTS = 20;

/** Listens for DNS over UDP and TCP, both on the same port of each address. Rejects when one cannot be had. */
export async function listenDns(addresses: readonly HostPort[], options: DnsListenerOptions): Promise<DnsListener> {
  for (let attempt = 1; ; attempt += 1) {
    // TCP first: unlike the workers' UDP sockets, which share their port, it notices that another server has it.
    const tcp = await listenOnAll(addresses, (address) => listenTcp(address, options.tcp));
    const inForce = addresses.map(({ host }, index) => ({ host, port: tcp[index]!.port }));
    try {
      const udp = inForce.length > 0 ? await options.openUdp(inForce) : undefined;
      return { addresses: inForce, stop: () => stopAll(udp ? [udp, ...tcp] : tcp) };
    } catch (error) {
      await stopAll(tcp);
      const isTaken = (error as NodeJS.ErrnoException).code === "EADDRINUSE";
      const mayChoose = addresses.some(({ port }) => port === 0);
      if (isTaken && mayChoose && attempt < MAX_ATTEMPTS) continue;
      // Of several it is not known which one.
      const [only, another] = addresses;
      throw isTaken && only && !another ? new CannotListen(only, error as Error) : error;
    }
  }
}

/** Listens on all addresses, or on none: rejects when one cannot be had. */
export async function listenOnAll(
  addresses: readonly HostPort[],
  listen: (address: HostPort) => Promise<TcpListener>,
): Promise<TcpListener[]> {
  const listeners: TcpListener[] = [];
  try {
    for (const address of addresses) {
      const failed = (error: Error) => Promise.reject(new CannotListen(address, error));
      listeners.push(await listen(address).catch(failed));
    }
    return listeners;
  } catch (error) {
    await stopAll(listeners);
    throw error;
  }
}

async function stopAll(listeners: readonly { stop(): Promise<void> }[]): Promise<void> {
  await Promise.all(listeners.map((listener) => listener.stop()));
}
