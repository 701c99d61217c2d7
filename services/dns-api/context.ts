import type { KeyRing } from "../core/key-ring.ts";
import type { Clock } from "../platform/clock.ts";
import { FairTurns } from "../platform/fair-turns.ts";
import type { AnyEndpoint } from "../platform/http/endpoint.ts";
import { type LookUpDs, makeDsLookup } from "../platform/lookups/ds-lookup.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { ThreadContext } from "../platform/service.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import { CallerQuotas } from "./caller-quotas.ts";
import type { LargeWork } from "./large-work.ts";
import { ZoneAnnouncer } from "./zone-announcer.ts";

/** What the operations work with. */
export interface DnsApiContext {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly announcer: ZoneAnnouncer;
  readonly lookUpDs: LookUpDs;
  readonly quotas: CallerQuotas;
  readonly largeWork: LargeWork;
  /** By zone: who waits for a change of the same zone holds no connection to the database meanwhile. */
  readonly zoneTurns: FairTurns;
}

/** What the operations of one thread work with. @param largeWork where work whose memory matters waits for its place */
export async function openContext(
  { config, keyRing, db, clock, observe }: ThreadContext,
  largeWork: LargeWork,
): Promise<DnsApiContext> {
  return {
    ...{ db, keyRing, clock, largeWork },
    announcer: new ZoneAnnouncer(db, observe),
    lookUpDs: await makeDsLookup(config.resolver),
    quotas: new CallerQuotas({ db, clock, limitLoopback: config.limitLoopback }),
    zoneTurns: new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 }),
  };
}

export type DnsEndpoint = AnyEndpoint<DnsCaller>;

/** Every file of `routes/` exports one of these. */
export type MakeEndpoints = (context: DnsApiContext) => readonly DnsEndpoint[];
