import { withDeadline } from "../platform/deadline.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import {
  findTrackedLink,
  type LinkSize,
  listConversionInstances,
  listLatestLinkSizes,
  listLinkSizes,
  readTrackedLinks,
  type TrackedLink,
} from "../store/mail/tracking/tracking.ts";

/** Where a link of a message leads. */
interface LinkTarget {
  readonly instanceId: number;
  /** Personal tags included. */
  readonly target: string;
}

interface KnownMessage {
  readonly links: Map<string, LinkTarget>;
  octets: number;
}

const REFRESH_MS = 1_000;
const LOAD_DEADLINE_MS = 3_000;
const LINKS_AT_START = 20_000;
const LINKS_PER_READ = 5_000;
/** Of targets in one statement, but for one that is longer. */
const OCTETS_PER_READ = 4 * 2 ** 20;
/** Links that commit late have lower numbers than those that were seen before them. */
const OVERLAP = 1_000;
const MOST_OCTETS = 128 * 2 ** 20;
/** What maps and objects take, about: most messages have few and short links. */
const OCTETS_OF_A_MESSAGE = 500;
const OCTETS_OF_A_LINK = 250;

/**
 * The links of recent messages, in memory: learnt within a second of becoming known, so that they lead on while the
 * database is away. Those of older messages are read on demand.
 */
export class LinkDirectory {
  readonly #db: Db;
  readonly #observe: Observe;
  /** The message used longest ago comes first. */
  readonly #messages = new Map<number, KnownMessage>();
  /** By message and link. */
  readonly #loading = new Map<string, Promise<void>>();
  /** Serials that need not be read again, from `OVERLAP` before the last one on. */
  readonly #read = new Set<number>();
  #octets = 0;
  #cursor: number | undefined;
  #conversionInstances: ReadonlySet<number> = new Set();
  #refreshing: RepeatedWork | undefined;

  constructor(db: Db, observe: Observe) {
    this.#db = db;
    this.#observe = observe;
  }

  start(): void {
    this.#refreshing = new RepeatedWork({
      take: async () => {
        await this.#refresh();
        return REFRESH_MS;
      },
      failed: (err) => {
        this.#observe({ kind: "tracked-links-not-refreshed", err });
        return REFRESH_MS;
      },
    });
  }

  async stop(): Promise<void> {
    await this.#refreshing?.stop();
  }

  /** @returns undefined for a link that there is not @throws when only the database could tell and does not answer */
  async find(messageId: number, link: string): Promise<LinkTarget | undefined> {
    const known = this.#use(messageId)?.links.get(link);
    if (known !== undefined) return known;
    const loading = this.#loading.get(`${messageId} ${link}`) ?? this.#load(messageId, link);
    await withDeadline(loading, LOAD_DEADLINE_MS);
    return this.#use(messageId)?.links.get(link);
  }

  /** Whether clicked links of an instance carry a conversion token on. */
  hasConversions(instanceId: number): boolean {
    return this.#conversionInstances.has(instanceId);
  }

  #use(messageId: number): KnownMessage | undefined {
    const known = this.#messages.get(messageId);
    if (known === undefined) return undefined;
    this.#messages.delete(messageId);
    this.#messages.set(messageId, known);
    return known;
  }

  #load(messageId: number, link: string): Promise<void> {
    const key = `${messageId} ${link}`;
    const loading = findTrackedLink(this.#db, messageId, link)
      .then((found) => found && this.#learn([found]))
      .finally(() => this.#loading.delete(key));
    this.#loading.set(key, loading);
    return loading;
  }

  async #refresh(): Promise<void> {
    this.#conversionInstances = await listConversionInstances(this.#db);
    if (this.#cursor === undefined) {
      const latest = await listLatestLinkSizes(this.#db, LINKS_AT_START);
      await this.#readAll(firstWithin(latest, MOST_OCTETS).toReversed());
      // There is no room for the others: they are read on demand.
      for (const { serial } of latest) this.#read.add(serial);
      this.#advance(latest[0]?.serial ?? 0);
      return;
    }
    let after = this.#cursor - OVERLAP;
    for (;;) {
      const links = await listLinkSizes(this.#db, after, LINKS_PER_READ);
      await this.#readAll(links.filter(({ serial }) => !this.#read.has(serial)));
      after = links.at(-1)?.serial ?? after;
      this.#advance(after);
      if (links.length < LINKS_PER_READ) return;
    }
  }

  async #readAll(links: readonly LinkSize[]): Promise<void> {
    for (let rest = links; rest.length > 0; ) {
      const portion = firstWithin(rest, OCTETS_PER_READ);
      const serials = portion.map(({ serial }) => serial);
      this.#learn(await readTrackedLinks(this.#db, serials));
      for (const serial of serials) this.#read.add(serial);
      rest = rest.slice(portion.length);
    }
  }

  #advance(serial: number): void {
    this.#cursor = Math.max(this.#cursor ?? 0, serial);
    for (const read of this.#read) if (read <= this.#cursor - OVERLAP) this.#read.delete(read);
  }

  #learn(links: readonly TrackedLink[]): void {
    for (const { messageId, instanceId, link, target } of links) {
      const message = this.#messages.get(messageId) ?? this.#addMessage(messageId);
      if (message.links.has(link)) continue;
      message.links.set(link, { instanceId, target });
      const octets = OCTETS_OF_A_LINK + target.length;
      message.octets += octets;
      this.#octets += octets;
    }
    for (const [messageId, { octets }] of this.#messages) {
      if (this.#octets <= MOST_OCTETS || this.#messages.size === 1) return;
      this.#messages.delete(messageId);
      this.#octets -= octets;
    }
  }

  #addMessage(messageId: number): KnownMessage {
    const message: KnownMessage = { links: new Map(), octets: OCTETS_OF_A_MESSAGE };
    this.#messages.set(messageId, message);
    this.#octets += message.octets;
    return message;
  }
}

/** As many of the first links as take so many octets in memory; one at least. */
function firstWithin(links: readonly LinkSize[], mostOctets: number): readonly LinkSize[] {
  let octets = 0;
  const end = links.findIndex((link) => {
    octets += OCTETS_OF_A_LINK + link.octets;
    return octets > mostOctets;
  });
  return end < 0 ? links : links.slice(0, Math.max(1, end));
}
