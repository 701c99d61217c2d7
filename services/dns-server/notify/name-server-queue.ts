import { formatIpAddress } from "../../core/dns/ip-address.ts";
import {
  type DomainName,
  domainNameFromWire,
  formatDomainName,
  isSubdomain,
  nameFromStoredWire,
  sameName,
} from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import { readFewRdataAt } from "../../store/dns/records.ts";
import { addressesToTell, MOST_ADDRESSES } from "./addresses-to-tell.ts";
import { nameOfNews, type ZoneNews } from "./server-queue.ts";

/** Of a zone's NS set so many addresses are told: as many servers as an ACL may name. */
const MOST_NAME_SERVERS = 20;
/** Zones whose NS sets are read together; a change waits no longer than a page of those of a start takes. */
const PAGE_ZONES = 100;
/** Zones whose name servers are looked up at a time. */
const LOOKED_UP_AT_ONCE = 100;
/** The wait after the database did not say. */
const RETRY_MS = 1_000;
/** Only news end the rest when nothing waits. */
const IDLE_MS = 60_000;

export interface NameServerQueueOptions {
  readonly db: Db;
  /** The addresses of a host elsewhere, as text. */
  readonly addressesOf: (host: string) => Promise<readonly string[]>;
  /** Has the server at an address told. */
  readonly tell: (host: string, news: ZoneNews) => void;
  readonly observe: Observe;
}

/** A zone of which there are news, as the database knows it. */
export interface ChangedZone {
  readonly id: number;
  readonly news: ZoneNews;
}

/**
 * Finds out whom of the zones' NS sets to tell (RFC 1996 §2, notify set: without the primary itself). After a start these may be
 * millions of zones: NS sets are read a page at a time, and few zones wait for the resolver at once.
 */
export class NameServerQueue {
  readonly #options: NameServerQueueOptions;
  /** Of zones that wait or are looked up, by id. */
  readonly #newest = new Map<number, ZoneNews>();
  /** Zones whose turn is to come, in its order: those that changed, before those of a start. */
  readonly #waiting = new Set<number>();
  readonly #started = new Set<number>();
  readonly #looking: RepeatedWork;
  #lookedUp = 0;
  /** Something has changed since the last page was taken. */
  #hasNews = false;
  /** Ends the wait for a place. */
  #goOn: () => void = () => {};
  #stopped = false;

  constructor(options: NameServerQueueOptions) {
    this.#options = options;
    this.#looking = new RepeatedWork({
      take: () => this.#takeAll(),
      failed: (err) => {
        options.observe({ kind: "name-servers-unreadable", level: "warn", zones: this.#size, err });
        return RETRY_MS;
      },
    });
  }

  /** @param zones so many at once as no change has are those of a start */
  add(zones: readonly ChangedZone[]): void {
    if (this.#stopped) return;
    const waiting = zones.length > PAGE_ZONES ? this.#started : this.#waiting;
    this.#hasNews ||= waiting === this.#waiting;
    for (const { id, news } of zones) {
      this.#newest.set(id, news);
      waiting.add(id);
    }
    this.#goOn();
    this.#looking.wake();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    this.#started.clear();
    this.#goOn();
    await this.#looking.stop();
  }

  async #takeAll(): Promise<number> {
    while (this.#size > 0) {
      const turns = this.#takePage();
      const sets = await this.#readNameServers(turns.map(({ zone }) => zone)).catch((error: unknown) => {
        if (!this.#stopped) putBack(turns);
        throw error;
      });
      for (const [index, { zone }] of turns.entries()) {
        const servers = sets.get(zone.id) ?? [];
        if (servers.every(({ addresses }) => addresses !== undefined)) void this.#lookUp(zone, servers);
        else if (await this.#hasPlace()) this.#lookUpInPlace(zone, servers);
        else {
          if (this.#stopped) return 0;
          putBack(turns.slice(index));
          break;
        }
      }
    }
    return IDLE_MS;
  }

  #takePage(): Turn[] {
    const turns: Turn[] = [];
    this.#hasNews = false;
    for (const from of [this.#waiting, this.#started]) {
      for (const id of from) {
        if (turns.length === PAGE_ZONES) return turns;
        from.delete(id);
        const news = this.#newest.get(id);
        // Of one that waited twice it was told.
        if (news) turns.push({ zone: { id, news }, from });
      }
    }
    return turns;
  }

  /** Waits for a place. @returns false when something has changed first, or all stop: it may need none */
  async #hasPlace(): Promise<boolean> {
    while (this.#lookedUp === LOOKED_UP_AT_ONCE && !this.#stopped) {
      if (this.#hasNews) return false;
      await new Promise<void>((resolve) => {
        this.#goOn = resolve;
      });
    }
    return !this.#stopped;
  }

  #lookUpInPlace(zone: ChangedZone, servers: readonly NameServer[]): void {
    this.#lookedUp += 1;
    void this.#lookUp(zone, servers).finally(() => {
      this.#lookedUp -= 1;
      this.#goOn();
    });
  }

  get #size(): number {
    return this.#waiting.size + this.#started.size;
  }

  /** The servers of each zone: those with names in the zone by the zone's own addresses. What is damaged counts for nothing. */
  async #readNameServers(zones: readonly ChangedZone[]): Promise<Map<number, NameServer[]>> {
    const { db } = this.#options;
    const apexes = zones.map(({ id, news }) => ({ zoneId: id, name: nameFromStoredWire(news.apex) }));
    const sets = new Map<number, NameServer[]>(zones.map(({ id }) => [id, []]));
    const own: { readonly zoneId: number; readonly name: DomainName; readonly addresses: string[] }[] = [];
    for (const { place, rdata } of await readFewRdataAt(db, apexes, [TYPE.NS], MOST_NAME_SERVERS + 1)) {
      const name = domainNameFromWire(rdata);
      const primary = domainNameFromWire(zones[place]!.news.soaRdata);
      if (!name.ok || (primary.ok && sameName(name.value, primary.value))) continue;
      const { zoneId, name: apex } = apexes[place]!;
      const server = { zoneId, name: name.value, addresses: [] };
      const isOwn = isSubdomain(name.value, apex);
      if (isOwn) own.push(server);
      sets.get(zoneId)!.push(isOwn ? server : { name: name.value, addresses: undefined });
    }
    for (const { place, rdata } of await readFewRdataAt(db, own, [TYPE.A, TYPE.AAAA], MOST_ADDRESSES)) {
      const isAddress = rdata.length === 4 || rdata.length === 16;
      if (isAddress) own[place]!.addresses.push(...addressesToTell([formatIpAddress(rdata)]));
    }
    return sets;
  }

  async #lookUp(zone: ChangedZone, servers: readonly NameServer[]): Promise<void> {
    const budget = { left: MOST_NAME_SERVERS };
    await Promise.all(servers.slice(0, MOST_NAME_SERVERS).map((server) => this.#tell(zone, server, budget)));
    if (this.#newest.get(zone.id) === zone.news) this.#newest.delete(zone.id);
  }

  /** Tells a server as soon as it is found, whatever others of its zone take. */
  async #tell({ id, news }: ChangedZone, { name, addresses }: NameServer, budget: { left: number }): Promise<void> {
    const text = formatDomainName(name);
    try {
      const hosts = (addresses ?? (await this.#options.addressesOf(text.slice(0, -1)))).slice(0, budget.left);
      budget.left -= hosts.length;
      // None where newer ones have overtaken these.
      const newest = this.#newest.get(id);
      if (newest && !this.#stopped) for (const host of hosts) this.#options.tell(host, newest);
    } catch (err) {
      this.#options.observe({ kind: "notify-failed", level: "warn", zone: nameOfNews(news), server: text, err });
    }
  }
}

/** A zone whose turn it is, and among whom it waited. */
interface Turn {
  readonly zone: ChangedZone;
  readonly from: Set<number>;
}

function putBack(turns: readonly Turn[]): void {
  for (const { zone, from } of turns) from.add(zone.id);
}

interface NameServer {
  readonly name: DomainName;
  /** As text; undefined of a name outside the zone, whose addresses the resolver knows. */
  readonly addresses: readonly string[] | undefined;
}
