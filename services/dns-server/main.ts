import { readFile } from "node:fs/promises";
import type { SecureContextOptions } from "node:tls";
import type { Config } from "../platform/config.ts";
import type { HostPort } from "../platform/config-values.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import type { RunningService, ServiceContext } from "../platform/service.ts";
import { listenDns, listenTcpOnAll } from "./listen-dns.ts";
import { DEFAULT_TCP_LIMITS } from "./listen-tcp.ts";
import { exportStatistics } from "./metrics.ts";
import { openUdp, udpWorkerCount } from "./open-udp.ts";
import { PictureReader } from "./picture/reader.ts";
import { PictureWriter } from "./picture/writer.ts";
import { Pipeline } from "./pipeline.ts";
import { pipelineSettings } from "./settings.ts";
import { Statistics } from "./statistics.ts";
import { ZoneFeed } from "./zone-feed.ts";

/** Starts the authoritative server: the listeners first, which say SERVFAIL until the zones are loaded. */
export async function start(context: ServiceContext): Promise<RunningService> {
  const lifecycle = new Lifecycle(context.logger);
  try {
    const addresses = await startWithin(lifecycle, context);
    return { addresses, stop: () => lifecycle.stop() };
  } catch (error) {
    await lifecycle.stop();
    throw error;
  }
}

async function startWithin(lifecycle: Lifecycle, context: ServiceContext): Promise<RunningService["addresses"]> {
  const { config, observe, clock } = context;
  const writer = new PictureWriter();
  const settings = pipelineSettings(config, context.secret);
  // Row 0 is this thread's, which answers TCP; the UDP workers have one each.
  const statistics = new Statistics(1 + udpWorkerCount(config));
  const pipeline = new Pipeline(new PictureReader(writer.memory), settings, statistics.row(0));
  const nowSeconds = () => Math.floor(clock.nowMs() / 1000);
  const tcp = { pipeline, nowSeconds, limits: { ...DEFAULT_TCP_LIMITS, limitLoopback: config.limitLoopback } };

  const dns = await listenDns(config.listen.dns, {
    tcp,
    openUdp: (addresses) =>
      openUdp(addresses, {
        config,
        observe,
        portable: { pipeline, nowSeconds },
        batch: { picture: writer.memory.buffer, settings, statistics, onFailure: endProcess },
      }),
  });
  lifecycle.onStop("DNS", () => dns.stop());
  const dnsTls = await listenTls(config, (tls) => listenTcpOnAll(config.listen.dnsTls, { ...tcp, tls }));
  for (const listener of dnsTls) lifecycle.onStop("DNS over TLS", () => listener.stop());

  const feed = new ZoneFeed({ writer, openConnection: context.openListenConnection, observe });
  lifecycle.onStop("zone feed", () => feed.stop());
  lifecycle.onStop("metrics", exportStatistics(statistics, writer));
  await feed.start();
  return {
    ...inAddresses("dns", dns.addresses),
    ...inAddresses(
      "dns_tls",
      config.listen.dnsTls.map(({ host }, index) => ({ host, port: dnsTls[index]!.port })),
    ),
  };
}

async function listenTls<T>(config: Config, listen: (tls: SecureContextOptions) => Promise<T[]>): Promise<T[]> {
  if (config.listen.dnsTls.length === 0) return [];
  if (config.tls === null) throw new Error("PALOMAR_DNS_TLS_LISTEN: needs PALOMAR_TLS_CERT and PALOMAR_TLS_KEY");
  const [cert, key] = await Promise.all([readFile(config.tls.certPath), readFile(config.tls.keyPath)]);
  return listen({ cert, key });
}

/** A UDP worker has ended by itself, which is a bug or a broken system: the supervisor starts the service anew. */
function endProcess(error: Error): void {
  queueMicrotask(() => {
    throw error;
  });
}

function inAddresses(name: "dns" | "dns_tls", addresses: readonly HostPort[]): RunningService["addresses"] {
  if (addresses.length === 0) return {};
  return { [name]: addresses.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(",") };
}
