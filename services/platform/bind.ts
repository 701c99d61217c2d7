import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { HostPort } from "./config/config-values.ts";

/** A port that a predecessor is just giving up is waited for; one that stays taken is an error that names it. */
export async function bindWithPatience(server: Bindable, address: HostPort, patienceMs = 3_000): Promise<void> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    try {
      return await bind(server, address);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE" || Date.now() > deadline) {
        throw new CannotListen(address, error as Error);
      }
    }
    await sleep(100);
  }
}

/** An address of the configuration that cannot be had. */
export class CannotListen extends Error {
  readonly address: HostPort;

  constructor(address: HostPort, cause: Error) {
    super(`cannot listen on ${formatBound({ address: address.host, port: address.port })}: ${cause.message}`, {
      cause,
    });
    this.address = address;
  }
}

/** A port of loopback that nobody listens on: whoever it is for takes it soon. */
export async function freePort(): Promise<number> {
  const probe = createServer();
  await bind(probe, { host: "127.0.0.1", port: 0 });
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** An address as `host:port`, IPv6 in brackets. */
export function formatBound({ address, port }: { address: string; port: number }): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** What `listen` and its events of node's servers have in common. */
interface Bindable {
  listen(options: HostPort): unknown;
  once(event: "error" | "listening", listener: (error: Error) => void): unknown;
  off(event: "error" | "listening", listener: (error: Error) => void): unknown;
}

function bind(server: Bindable, address: HostPort): Promise<void> {
  return new Promise((resolve, reject) => {
    const listening = () => {
      server.off("error", failed);
      resolve();
    };
    const failed = (error: Error) => {
      server.off("listening", listening);
      reject(error);
    };
    server.once("error", failed);
    server.once("listening", listening);
    server.listen(address);
  });
}
