import type { KeyRing } from "../core/key-ring.ts";
import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import type { LookUpDs } from "../platform/ds-lookup.ts";
import type { AnyEndpoint } from "../platform/http/endpoint.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { CallerQuotas } from "./caller-quotas.ts";
import type { LargeWork } from "./large-work.ts";
import type { ZoneAnnouncer } from "./zone-announcer.ts";

/** What the operations work with. */
export interface DnsApiContext {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly announcer: ZoneAnnouncer;
  readonly lookUpDs: LookUpDs;
  readonly quotas: CallerQuotas;
  readonly largeWork: LargeWork;
}

export type DnsEndpoint = AnyEndpoint<DnsCaller>;

/** Every file of `routes/` exports one of these. */
export type MakeEndpoints = (context: DnsApiContext) => readonly DnsEndpoint[];
