import { type QuotaHolder, type QuotaLimits, quotaExceededForNow } from "../core/dns/quotas.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Clock } from "../platform/clock.ts";
import { isLoopback } from "../platform/lookups/address-blocks.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import { type QuotaOwner, readLimits } from "../store/dns/quota-settings.ts";
import type { Worker, WorkHolder } from "./large-work.ts";

/** How long limits that were read hold: so long a new one takes until it is in force. */
const LIMITS_MS = 2_000;

const MINUTE_MS = 60_000;

/** In how many seconds to come back for who has too many zone files in work. */
const WORK_RETRY_SECONDS = 5;

/** Of so many callers it is known what they do; then all that is over is forgotten. */
const MOST_KNOWN = 10_000;

interface Known {
  readonly limits: Promise<QuotaLimits>;
  readonly until: number;
}

/** Changes of one caller within the minute that began then. */
interface Minute {
  readonly end: number;
  changes: number;
}

/** What callers of this process may do in a minute and at a time: their quotas that are no state of the database. */
export class CallerQuotas {
  readonly #db: Db;
  readonly #clock: Clock;
  readonly #limitLoopback: boolean;
  readonly #known = new Map<string, Known>();
  readonly #minutes = new Map<string, Minute>();

  constructor({
    db,
    clock,
    limitLoopback,
  }: { readonly db: Db; readonly clock: Clock; readonly limitLoopback: boolean }) {
    this.#db = db;
    this.#clock = clock;
    this.#limitLoopback = limitLoopback;
  }

  /** Counts a change, for the company and for its reseller. @returns a refusal when one of them has had enough */
  async countChange(caller: DnsCaller, clientAddress: string): Promise<Refusal | undefined> {
    if (!this.#limitLoopback && isLoopback(clientAddress)) return undefined;
    const holders = holdersOf(caller);
    const allowed = await Promise.all(holders.map(async (one) => (await this.#limitsOf(one)).changes_per_minute));
    const now = this.#clock.nowMs();
    const minutes = holders.map((holder) => this.#minuteOf(holder.key, now));
    // A refused change is counted neither for the company nor for the reseller: who is over the one limit uses up nothing of the other.
    const full = minutes.findIndex(({ changes }, index) => changes >= (allowed[index] ?? Number.POSITIVE_INFINITY));
    if (full < 0) {
      for (const minute of minutes) minute.changes += 1;
      return undefined;
    }
    const retryAfterSeconds = Math.max(1, Math.ceil((minutes[full]!.end - now) / 1000));
    return quotaExceededForNow(holders[full]!.holder, "changes_per_minute", {
      allowed: allowed[full]!,
      retryAfterSeconds,
    });
  }

  /** Who it is that works on a zone file. */
  async workerOf(caller: DnsCaller): Promise<Worker> {
    const [own, reseller] = await Promise.all(holdersOf(caller).map((holder) => this.#workHolderOf(holder)));
    return { own: own!, reseller: reseller ?? own! };
  }

  async #workHolderOf(of: Holder): Promise<WorkHolder> {
    const allowed = (await this.#limitsOf(of)).zone_files_in_work ?? Number.POSITIVE_INFINITY;
    const retryAfterSeconds = WORK_RETRY_SECONDS;
    return {
      key: of.key,
      mostLarge: allowed,
      tooMuch: () => quotaExceededForNow(of.holder, "zone_files_in_work", { allowed, retryAfterSeconds }),
    };
  }

  #limitsOf({ key, owner }: Holder): Promise<QuotaLimits> {
    const now = this.#clock.nowMs();
    const known = this.#known.get(key);
    if (known && now < known.until) return known.limits;
    forgetOver(this.#known, ({ until }) => until <= now);
    const limits = readLimits(this.#db, owner);
    this.#known.set(key, { limits, until: now + LIMITS_MS });
    // What failed is asked for again.
    limits.catch(() => this.#known.delete(key));
    return limits;
  }

  #minuteOf(key: string, now: number): Minute {
    const current = this.#minutes.get(key);
    if (current && now < current.end) return current;
    forgetOver(this.#minutes, ({ end }) => end <= now);
    const minute = { end: now + MINUTE_MS, changes: 0 };
    this.#minutes.set(key, minute);
    return minute;
  }
}

interface Holder {
  readonly key: string;
  readonly owner: QuotaOwner;
  readonly holder: QuotaHolder;
}

/** Whose quotas a caller uses, its own first. */
function holdersOf(caller: DnsCaller): readonly Holder[] {
  const { resellerId } = caller;
  const reseller = { key: `reseller ${resellerId}`, owner: { resellerId }, holder: { reseller: resellerId } };
  if (caller.mode === "reseller") return [reseller];
  const { companyId, crmId } = caller;
  return [{ key: `company ${companyId}`, owner: { resellerId, companyId }, holder: { company: crmId } }, reseller];
}

function forgetOver<T>(known: Map<string, T>, isOver: (entry: T) => boolean): void {
  if (known.size < MOST_KNOWN) return;
  for (const [key, entry] of known) if (isOver(entry)) known.delete(key);
}
