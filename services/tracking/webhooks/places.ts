import { Counts } from "../../core/counts.ts";
import { recentMap } from "../../core/recent-map.ts";

/** Which webhook. */
interface WebhookName {
  readonly instanceId: number;
  readonly name: string;
}

/** What may be served now. */
interface FreePlaces {
  /** Instances that have as many places as they may. */
  readonly fullInstances: readonly number[];
  /** Whether it may be one that failed the last time, or was slow. */
  readonly troubled: boolean;
  /** Those that were slow. */
  readonly slow: readonly WebhookName[];
}

/** Webhooks served at a time. */
const MOST = 32;
/** Webhooks served at a time that failed or were slow the last time: a server that hangs takes its whole time-out. */
const MOST_TROUBLED = 16;
/** Webhooks of one instance served at a time. */
const MOST_OF_INSTANCE = 4;
/** An answer that took longer is a slow one. */
const SLOW_MS = 2_000;
/** Slow webhooks that are remembered. */
const MOST_REMEMBERED = 10_000;

/** Shares the places of a worker among webhooks, so that nobody's servers hold up what others are told. */
export class WebhookPlaces {
  #taken = 0;
  #troubled = 0;
  readonly #ofInstance = new Counts<number>();
  readonly #slow = recentMap<string, WebhookName>(MOST_REMEMBERED);

  /** @returns undefined where there are none */
  free(): FreePlaces | undefined {
    if (this.#taken >= MOST) return undefined;
    const full = [...this.#ofInstance].filter(([, places]) => places >= MOST_OF_INSTANCE);
    const troubled = this.#troubled < MOST_TROUBLED;
    return { fullInstances: full.map(([id]) => id), troubled, slow: troubled ? [] : [...this.#slow.values()] };
  }

  /** @returns what gives the place back; it is told how long the server took to answer, undefined where it was not asked */
  take({ instanceId, name, failures }: WebhookName & { readonly failures: number }): (tookMs?: number) => void {
    const key = `${instanceId} ${name}`;
    const troubled = failures > 0 || this.#slow.has(key) ? 1 : 0;
    this.#count(instanceId, 1, troubled);
    return (tookMs) => {
      this.#count(instanceId, -1, -troubled);
      if (tookMs === undefined) return;
      if (tookMs > SLOW_MS) this.#slow.set(key, { instanceId, name });
      else this.#slow.delete(key);
    };
  }

  #count(instanceId: number, places: number, troubled: number): void {
    this.#taken += places;
    this.#troubled += troubled;
    this.#ofInstance.add(instanceId, places);
  }
}
