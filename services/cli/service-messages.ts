import type { MetricFamilies } from "../platform/observability/metrics.ts";
import type { Addresses, AddressName } from "../platform/service.ts";
import type { ServiceSecrets } from "./service-config.ts";

/** What the supervisor says to a service's process. */
export type ToService =
  /**
   * What a service waits for: its keys, and what it connects with. Sent when the database is up to date, or when it is
   * away and the service can start without it.
   */
  | ({ readonly kind: "secrets" } & ServiceSecrets)
  /** Where everybody listens so far, and which listeners are still to come. */
  | { readonly kind: "addresses"; readonly addresses: Addresses; readonly expected: readonly AddressName[] }
  | { readonly kind: "collect-metrics" }
  /** Whether it still does anything: answered at once. */
  | { readonly kind: "ask" }
  | { readonly kind: "stop" };

/** What a service's process says to the supervisor. */
export type FromService =
  | { readonly kind: "ready"; readonly addresses: Addresses }
  /** It cannot start, or cannot go on; the process ends by itself after this. */
  | { readonly kind: "failed"; readonly text: string }
  /** To "ask". */
  | { readonly kind: "answer" }
  | { readonly kind: "metrics"; readonly families: MetricFamilies };
