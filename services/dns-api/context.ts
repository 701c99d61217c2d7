import type { Clock } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import type { LookUpDs } from "../platform/ds-lookup.ts";
import type { AnyEndpoint } from "../platform/http/endpoint.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { ZoneAnnouncer } from "./zone-announcer.ts";

/** What the operations work with. */
export interface DnsApiContext {
  readonly db: Db;
  readonly secret: string;
  readonly clock: Clock;
  readonly announcer: ZoneAnnouncer;
  readonly lookUpDs: LookUpDs;
}

export type DnsEndpoint = AnyEndpoint<DnsCaller>;

/** Every file of `routes/` exports one of these. */
export type MakeEndpoints = (context: DnsApiContext) => readonly DnsEndpoint[];
