import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openCertificate } from "../platform/certificate.ts";
import type { HostPort } from "../platform/config/config-values.ts";
import { type Lifecycle, serviceWithin } from "../platform/lifecycle.ts";
import { makeResolver } from "../platform/lookups/resolver.ts";
import { SILENT_DATABASE_MS } from "../platform/postgres/db.ts";
import type { Addresses, ServiceContext } from "../platform/service.ts";
import type { ZoneState } from "../store/dns/zone-states.ts";
import { startUpkeep } from "./feed/catalog-upkeep.ts";
import { giveBackLoad } from "./feed/give-back-load.ts";
import { ZoneDatabaseSnapshot } from "./feed/snapshot.ts";
import { apexText } from "./feed/stored-names.ts";
import { ZoneFeed } from "./feed/zone-feed.ts";
import { ZonePublisher } from "./feed/zone-publisher.ts";
import { listenDns, listenOnAll } from "./listeners/listen-dns.ts";
import { listenHttps } from "./listeners/listen-https.ts";
import { DEFAULT_TCP_LIMITS, listenTcp, type TcpListenerOptions } from "./listeners/listen-tcp.ts";
import { openUdp, udpWorkerCount } from "./listeners/open-udp.ts";
import { Notifier } from "./notify/notifier.ts";
import { loadNotifyPolicy } from "./notify/policy.ts";
import { Pipeline, type PipelineSettings } from "./pipeline.ts";
import { exportLag } from "./reports/lag-metric.ts";
import { startLeftOutReports } from "./reports/left-out-reports.ts";
import { exportStatistics, type ZoneCompleteness } from "./reports/metrics.ts";
import { Statistics } from "./reports/statistics.ts";
import { startTrafficReports } from "./reports/traffic-reports.ts";
import { startUnknownResellerReports } from "./reports/unknown-resellers.ts";
import { pipelineSettings } from "./settings.ts";
import { AccessFeed } from "./transfer/access-feed.ts";
import { AuthorisedResponder } from "./transfer/authorised-responder.ts";
import { UpdateQueue } from "./update/update-queue.ts";
import { useHugePages } from "./zone-database/huge-pages.ts";
import { ZoneDatabaseMemory } from "./zone-database/memory.ts";
import { ZoneDatabaseReader } from "./zone-database/reader.ts";
import { ZoneDatabaseWriter } from "./zone-database/writer.ts";

/** To load so many leaves megabytes behind. */
const MANY_ZONES = 1_000;

/** Starts the authoritative server: the listeners first, which say SERVFAIL until the zones are loaded. */
export const start = serviceWithin(begin);

async function begin(lifecycle: Lifecycle, context: ServiceContext): Promise<Addresses> {
  const zones = await openZones(lifecycle, context);
  const answering = prepareAnswers(lifecycle, context, zones);
  const dns = await listenPlainly(lifecycle, context, zones, answering);
  const { dnsTls, dnsHttps } = await listenSecurely(lifecycle, context, answering);
  await follow(lifecycle, context, { zones, statistics: answering.statistics, listen: dns });
  return {
    ...inAddresses("dns", dns),
    ...inAddresses("dns_tls", dnsTls),
    ...inAddresses("dns_https", dnsHttps),
  };
}

/** The zones, who may transfer them, and what keeps both as the database has them. */
interface Zones {
  readonly writer: ZoneDatabaseWriter;
  readonly publisher: ZonePublisher;
  readonly accessFeed: AccessFeed;
  readonly feed: ZoneFeed;
}

async function openZones(lifecycle: Lifecycle, context: ServiceContext): Promise<Zones> {
  const { config, observe, clock, db } = context;
  const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(config.dns.memoryOctets));
  await useHugePages(writer.memory);
  const accessFeed = new AccessFeed(db, context.keyRing, observe);
  lifecycle.onStop("transfer access", () => accessFeed.stop());
  const nowMs = () => clock.nowMs();
  const publisher = new ZonePublisher(writer, observe, nowMs, config.dns.resellers);
  const feed = new ZoneFeed({ writer, publisher, openConnection: context.openListenConnection, nowMs, observe });
  return { writer, publisher, accessFeed, feed };
}

/** What every listener answers with. */
interface Answering {
  readonly settings: PipelineSettings;
  readonly statistics: Statistics;
  readonly tcp: TcpListenerOptions;
}

function prepareAnswers(
  lifecycle: Lifecycle,
  context: ServiceContext,
  { writer, publisher, accessFeed, feed }: Zones,
): Answering {
  const { config, observe, clock, db } = context;
  const settings = pipelineSettings(config, context.keyRing);
  // Row 0 is this thread's, which answers TCP; the UDP workers have one each.
  const statistics = new Statistics(1 + udpWorkerCount(config));
  const pipeline = new Pipeline(new ZoneDatabaseReader(writer.memory), settings, statistics.row(0));
  const nowSeconds = () => Math.floor(clock.nowMs() / 1000);
  const isDatabaseAway = () => !feed.isFollowing;
  const updates = new UpdateQueue({ db, observe, isDatabaseAway, openConnection: context.openListenConnection });
  lifecycle.onStop("updates", () => updates.stop());
  const authorised = new AuthorisedResponder({
    ...{ pipeline, writer, db, updates, nowSeconds, observe, isDatabaseAway },
    limitLoopback: config.limitLoopback,
    isLeftOut: (zoneId) => publisher.standings.isLeftOut(zoneId),
    isInScope: (resellerId) => publisher.isInScope(resellerId),
    access: () => accessFeed.table,
  });
  const limits = { ...DEFAULT_TCP_LIMITS, limitLoopback: config.limitLoopback };
  return { settings, statistics, tcp: { pipeline, authorised, nowSeconds, limits } };
}

/** DNS over UDP and TCP. @returns where it is answered */
async function listenPlainly(
  lifecycle: Lifecycle,
  { config, observe }: ServiceContext,
  { writer }: Zones,
  { settings, statistics, tcp }: Answering,
): Promise<readonly HostPort[]> {
  const { pipeline, authorised, nowSeconds } = tcp;
  const dns = await listenDns(config.listen.dns, {
    tcp,
    openUdp: (addresses) =>
      openUdp(addresses, {
        config,
        observe,
        portable: { pipeline, authorised, nowSeconds },
        batch: { zoneDatabase: writer.memory.buffers, settings, authorised, statistics, onFailure: endProcess },
      }),
  });
  lifecycle.onStop("DNS", () => dns.stop());
  return dns.addresses;
}

/** DNS over TLS and over HTTPS, where they are wanted; both have the same certificate. */
async function listenSecurely(
  lifecycle: Lifecycle,
  { config, observe }: ServiceContext,
  { tcp }: Answering,
): Promise<{ dnsTls: readonly HostPort[]; dnsHttps: readonly HostPort[] }> {
  const { dnsTls, dnsHttps } = config.listen;
  if (dnsTls.length + dnsHttps.length === 0) return { dnsTls, dnsHttps };
  const certificate = await openCertificate(config, observe);
  lifecycle.onStop("certificate", () => certificate.close());
  const listen = async (name: string, addresses: readonly HostPort[], open: typeof listenHttps) => {
    const listeners = await listenOnAll(addresses, (address) => open(address, { ...tcp, tls: certificate.current() }));
    for (const listener of listeners) {
      lifecycle.onStop(name, () => listener.stop());
      certificate.onChange((pair) => listener.renewCertificate(pair));
    }
    return addresses.map(({ host }, index) => ({ host, port: listeners[index]!.port }));
  };
  return {
    dnsTls: await listen("DNS over TLS", dnsTls, listenTcp),
    dnsHttps: await listen("DNS over HTTPS", dnsHttps, listenHttps),
  };
}

/** Everything that goes on beside the answers: the database is followed, and others are told what is new. */
async function follow(
  lifecycle: Lifecycle,
  context: ServiceContext,
  { zones, statistics, listen }: { zones: Zones; statistics: Statistics; listen: readonly HostPort[] },
): Promise<void> {
  const { config, observe, clock, db } = context;
  const { writer, publisher, accessFeed, feed } = zones;
  const notifier = new Notifier({
    policy: loadNotifyPolicy(),
    access: () => accessFeed.table,
    listen,
    notifyNs: config.dns.notifyNs,
    db,
    resolver: await makeResolver(config.resolver),
    nowSeconds: () => Math.floor(clock.nowMs() / 1000),
    observe,
  });
  lifecycle.onStop("notifications", () => notifier.stop());
  const upkeep = startUpkeep({ db, clock, observe });
  lifecycle.onStop("catalogs and feeds", () => upkeep.stop());
  lifecycle.onStop("zone feed", () => feed.stop());
  startReports(lifecycle, context, zones, statistics);
  const snapshot = new ZoneDatabaseSnapshot({
    file: join(config.dataDir, "zones.snapshot"),
    ...{ writer, publisher, access: accessFeed, observe },
    unconfirmedMs: () => (feed.confirmedAtMs === undefined ? undefined : performance.now() - feed.confirmedAtMs),
    nowMs: () => clock.nowMs(),
  });
  const patience = sleep(SILENT_DATABASE_MS, undefined, { ref: false });
  // Whoever was given an ACL before a zone changed is told of the change. A slow database may have said what the zones
  // are before it says at all whom to tell of them.
  const tellOf = async (published: readonly ZoneState[]) => {
    await accessFeed.refresh();
    await accessFeed.known;
    notifier.zonesPublished(published);
  };
  // Who may transfer is known before the first zones are; a silent database does not hold up the snapshot for long.
  await Promise.race([accessFeed.start(), patience]);
  await feed.start({
    loadSnapshot: () => snapshot.load(),
    patience,
    onPublished: (published) => void tellOf(published),
  });
  // What so many zones leave behind as they stream past is more than all else that the process needs.
  if (writer.zoneCount >= MANY_ZONES) await giveBackLoad();
  lifecycle.onStop(
    "lag",
    exportLag(() => feed.confirmedAtMs),
  );
  snapshot.start();
  lifecycle.onStop("snapshot of the zones", () => snapshot.stop());
}

function startReports(
  lifecycle: Lifecycle,
  { config, observe, clock, db }: ServiceContext,
  { writer, publisher, accessFeed, feed }: Zones,
  statistics: Statistics,
): void {
  const unreadable = {
    zones: () => Array.from(publisher.standings.unreadable, apexText),
    access: () => accessFeed.table?.unreadable ?? [],
  };
  const completeness = completenessOf(feed, publisher);
  lifecycle.onStop("metrics", exportStatistics(statistics, writer, completeness, unreadable));
  const leftOut = () => publisher.standings.leftOut;
  const leftOutReports = startLeftOutReports({ db, observe, node: config.node, leftOut });
  lifecycle.onStop("reports of zones left out", () => leftOutReports.stop());
  const { resellers } = config.dns;
  if (resellers !== null) {
    const unknownResellers = startUnknownResellerReports({ db, observe, resellers });
    lifecycle.onStop("reports of unknown resellers", () => unknownResellers.stop());
  }
  const traffic = startTrafficReports({ db, clock, observe, statistics });
  lifecycle.onStop("traffic reports", () => traffic.stop());
}

function completenessOf(feed: ZoneFeed, publisher: ZonePublisher): ZoneCompleteness {
  return {
    isLoaded: () => feed.isLoaded,
    expectedCount: () => publisher.standings.expectedCount,
    leftOut: () =>
      publisher.standings.leftOut.map(({ zone, servedVersion, takenOctets }) => ({
        zone: apexText(zone.apex),
        servesLastVersion: servedVersion !== undefined,
        takenOctets,
      })),
  };
}

/** A UDP worker has ended by itself, which is a bug or a broken system: the supervisor starts the service anew. */
function endProcess(error: Error): void {
  queueMicrotask(() => {
    throw error;
  });
}

function inAddresses(name: "dns" | "dns_tls" | "dns_https", addresses: readonly HostPort[]): Addresses {
  if (addresses.length === 0) return {};
  return { [name]: addresses.map(({ host, port }) => `${host.includes(":") ? `[${host}]` : host}:${port}`).join(",") };
}
