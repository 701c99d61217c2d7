import { openCertificate } from "../platform/certificate.ts";
import type { HostPort } from "../platform/config-values.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import { makeResolver } from "../platform/resolver.ts";
import type { RunningService, ServiceContext } from "../platform/service.ts";
import { startUpkeep } from "./catalog-upkeep.ts";
import { useHugePages } from "./huge-pages.ts";
import { listenDns, listenTcpOnAll } from "./listen-dns.ts";
import { DEFAULT_TCP_LIMITS, type TcpListener } from "./listen-tcp.ts";
import { exportStatistics } from "./metrics.ts";
import { Notifier } from "./notify/notifier.ts";
import { loadNotifyPolicy } from "./notify/policy.ts";
import { openUdp, udpWorkerCount } from "./open-udp.ts";
import { PictureReader } from "./picture/reader.ts";
import { PictureWriter } from "./picture/writer.ts";
import { Pipeline } from "./pipeline.ts";
import { pipelineSettings } from "./settings.ts";
import { Statistics } from "./statistics.ts";
import { AccessFeed } from "./transfer/access-feed.ts";
import { AuthorisedResponder } from "./transfer/authorised-responder.ts";
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
  const { config, observe, clock, db } = context;
  const writer = new PictureWriter();
  await useHugePages(writer.memory);
  const settings = pipelineSettings(config, context.secret);
  // Row 0 is this thread's, which answers TCP; the UDP workers have one each.
  const statistics = new Statistics(1 + udpWorkerCount(config));
  const pipeline = new Pipeline(new PictureReader(writer.memory), settings, statistics.row(0));
  const nowSeconds = () => Math.floor(clock.nowMs() / 1000);
  const accessFeed = new AccessFeed(db, context.secret, observe);
  lifecycle.onStop("transfer access", () => accessFeed.stop());
  await accessFeed.start();
  const access = () => accessFeed.table;
  const authorised = new AuthorisedResponder({ pipeline, writer, db, access, nowSeconds, observe });
  const tcp = {
    pipeline,
    authorised,
    nowSeconds,
    limits: { ...DEFAULT_TCP_LIMITS, limitLoopback: config.limitLoopback },
  };

  const dns = await listenDns(config.listen.dns, {
    tcp,
    openUdp: (addresses) =>
      openUdp(addresses, {
        config,
        observe,
        portable: { pipeline, authorised, nowSeconds },
        batch: { picture: writer.memory.buffer, settings, authorised, statistics, onFailure: endProcess },
      }),
  });
  lifecycle.onStop("DNS", () => dns.stop());
  const dnsTls = config.listen.dnsTls.length > 0 ? await listenTls() : [];

  const notifier = new Notifier({
    policy: loadNotifyPolicy(),
    access,
    listen: dns.addresses,
    notifyNs: config.dns.notifyNs,
    db,
    resolver: await makeResolver(config.resolver),
    nowSeconds,
    observe,
  });
  lifecycle.onStop("notifications", () => notifier.stop());
  const upkeep = startUpkeep({ db, clock, observe });
  lifecycle.onStop("catalogs and feeds", () => upkeep.stop());
  const feed = new ZoneFeed({
    writer,
    openConnection: context.openListenConnection,
    onPublished: (zones) => notifier.zonesPublished(zones),
    observe,
  });
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

  async function listenTls(): Promise<TcpListener[]> {
    const certificate = await openCertificate(config, observe);
    lifecycle.onStop("certificate", () => certificate.close());
    const listeners = await listenTcpOnAll(config.listen.dnsTls, { ...tcp, tls: certificate.current() });
    for (const listener of listeners) {
      lifecycle.onStop("DNS over TLS", () => listener.stop());
      certificate.onChange((pair) => listener.renewCertificate(pair));
    }
    return listeners;
  }
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
