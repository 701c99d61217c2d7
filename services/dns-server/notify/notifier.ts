import { isIP, isIPv6 } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { formatIpv6, parseIpv6 } from "../../core/dns/ip-address.ts";
import { nameFromStoredWire } from "../../core/dns/name.ts";
import type { HostPort } from "../../platform/config/config-values.ts";
import { localhostAddresses } from "../../platform/lookups/host-addresses.ts";
import type { Resolver } from "../../platform/lookups/resolver.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { ZoneState } from "../../store/dns/zone-states.ts";
import type { AccessTable, NotifyTarget } from "../transfer/access-table.ts";
import { addressesToTell } from "./addresses-to-tell.ts";
import { type ChangedZone, NameServerQueue } from "./name-server-queue.ts";
import { NotifySocket } from "./notify-socket.ts";
import type { NotifyPolicy } from "./policy.ts";
import { nameOfNews, ServerQueue, type ZoneNews } from "./server-queue.ts";

const DNS_PORT = 53;

export interface NotifierOptions {
  readonly policy: NotifyPolicy;
  readonly access: () => AccessTable | undefined;
  /** Where this server listens: secondaries know it by these addresses. */
  readonly listen: readonly HostPort[];
  /** Whether the addresses of a zone's NS are told as well. */
  readonly notifyNs: boolean;
  readonly db: Db;
  readonly resolver: Resolver;
  readonly nowSeconds: () => number;
  readonly observe: Observe;
}

interface Server {
  /** As the ACLs have it now: its key may have got another secret. */
  target: NotifyTarget;
  readonly queue: ServerQueue;
}

/** Tells secondaries of new versions of zones: those that the ACLs name, and those in the NS set when so configured. */
export class Notifier {
  readonly #options: NotifierOptions;
  /** Those that there is something to tell. */
  readonly #servers = new Map<string, Server>();
  readonly #sockets = new Map<"udp4" | "udp6", NotifySocket>();
  /** Undefined: those of NS sets are not told. */
  readonly #nameServers: NameServerQueue | undefined;
  #stopped = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
    const { notifyNs, db, observe } = options;
    const addressesOf = (host: string) => this.#addressesOf(host);
    const tell = (host: string, news: ZoneNews) => this.#queueFor({ host, port: DNS_PORT, key: undefined }).add(news);
    this.#nameServers = notifyNs ? new NameServerQueue({ db, addressesOf, tell, observe }) : undefined;
  }

  /** Takes note of zones whose new versions are answered from now on. */
  zonesPublished(zones: readonly ZoneState[]): void {
    const access = this.#options.access();
    if (!access || this.#stopped) return;
    const toLookUp: ChangedZone[] = [];
    for (const zone of zones) {
      const apex = nameFromStoredWire(zone.apex);
      const news = { zone: apex.key, apex: zone.apex, soaTtlSeconds: zone.soaTtlSeconds, soaRdata: zone.soaRdata };
      const resellerIds = access.guardsOf(apex) ?? (zone.resellerId === null ? [] : [zone.resellerId]);
      for (const target of access.notifyTargets({ apex, resellerIds })) this.#queueFor(target).add(news);
      if (!zone.restricted) toLookUp.push({ id: zone.id, news });
    }
    this.#nameServers?.add(toLookUp);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const { queue } of this.#servers.values()) queue.stop();
    await this.#nameServers?.stop();
    await Promise.all([...this.#sockets.values()].map((socket) => socket.close()));
  }

  #queueFor(target: NotifyTarget): ServerQueue {
    const key = `${target.host} ${target.port} ${target.key?.name.key}`;
    const known = this.#servers.get(key);
    if (known) {
      known.target = target;
      return known.queue;
    }
    const queue = new ServerQueue(
      (news, timeoutMs, signal) => this.#tell(server.target, news, { timeoutMs, signal }),
      this.#options.policy,
      {
        givenUp: (news) =>
          this.#options.observe({ kind: "notify-given-up", level: "warn", ...toldTo(server.target, news) }),
        idle: () => this.#servers.delete(key),
      },
    );
    const server: Server = { target, queue };
    this.#servers.set(key, server);
    return queue;
  }

  async #tell(
    target: NotifyTarget,
    news: ZoneNews,
    patience: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { nowSeconds } = this.#options;
    const failed = (err: unknown) =>
      this.#options.observe({ kind: "notify-failed", level: "warn", ...toldTo(target, news), err });
    try {
      const addresses = await this.#addressesOf(target.host);
      if (patience.signal.aborted) return false;
      const told = await Promise.allSettled(
        addresses.map((host) =>
          this.#socketFor(host).notify({ host, port: target.port }, news, target.key, { ...patience, nowSeconds }),
        ),
      );
      // A name with several addresses is one server: all are told, one acknowledgement is enough.
      if (told.some((one) => one.status === "fulfilled" && one.value)) return true;
      const unsent = told.find((one) => one.status === "rejected");
      if (unsent) failed(unsent.reason);
      if (told.some((one) => one.status === "fulfilled")) return false;
    } catch (err) {
      failed(err);
    }
    await sleep(patience.timeoutMs, undefined, { signal: patience.signal }).catch(() => {});
    return false;
  }

  async #addressesOf(host: string): Promise<string[]> {
    if (isIP(host)) return [canonicalAddress(host)];
    const local = localhostAddresses(host);
    if (local.length > 0) return [...local];
    const { resolver } = this.#options;
    const found = await Promise.all([resolver.resolveA(host), resolver.resolveAaaa(host)]);
    const addresses = found.flatMap((lookup) => (lookup.kind === "found" ? lookup.records : []));
    return addressesToTell(addresses);
  }

  #socketFor(host: string): NotifySocket {
    const type = isIPv6(host) ? "udp6" : "udp4";
    let socket = this.#sockets.get(type);
    if (!socket) {
      const own = this.#options.listen.find((address) => isIPv6(address.host) === (type === "udp6"));
      const source = own && isSpecific(own.host) ? own.host : undefined;
      // One that cannot be bound is made anew for the next message.
      socket = new NotifySocket(type, source, () => this.#sockets.delete(type));
      this.#sockets.set(type, socket);
    }
    return socket;
  }
}

/** Whom a notice of what zone is for, as observations name them. */
function toldTo({ host, port }: NotifyTarget, news: ZoneNews): { readonly zone: string; readonly server: string } {
  return { zone: nameOfNews(news), server: `${host}:${port}` };
}

/** The address as the system writes those that answers come from. */
function canonicalAddress(text: string): string {
  const octets = parseIpv6(text);
  return octets ? formatIpv6(octets) : text;
}

/** Whether other hosts can know us by the address: neither the wildcard nor, seen from elsewhere, the loopback. */
function isSpecific(host: string): boolean {
  return isIP(host) !== 0 && host !== "0.0.0.0" && host !== "::" && !host.startsWith("127.") && host !== "::1";
}
