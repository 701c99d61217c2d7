import type { ZodRawShape, ZodType } from "zod";
import type { KeyRing } from "../core/key-ring.ts";
import type { Refusal } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import { TogetherChanges } from "../operations/dns/together-changes.ts";
import type { Clock } from "../platform/clock.ts";
import { FairTurns } from "../platform/fair-turns.ts";
import type { AnyEndpoint, Endpoint, Place } from "../platform/http/endpoint.ts";
import { type LookUpDs, makeDsLookup } from "../platform/lookups/ds-lookup.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { ThreadContext } from "../platform/service.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { Needs } from "./caller.ts";
import { CallerQuotas } from "./caller-quotas.ts";
import { type LargeWork, weightOfJson } from "./large-work.ts";
import { TokenCallers } from "./token-callers.ts";
import { ZoneAnnouncer } from "./zone-announcer.ts";

/** What the operations work with. */
export interface DnsApiContext {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
  readonly announcer: ZoneAnnouncer;
  readonly lookUpDs: LookUpDs;
  readonly quotas: CallerQuotas;
  readonly tokens: TokenCallers;
  readonly largeWork: LargeWork;
  /** Blocks that are not public and that aliases and pools may publish all the same. */
  readonly followAllow: readonly string[];
  /** By zone and caller's scope: who waits for a change of the same zone holds no connection to the database meanwhile. */
  readonly zoneTurns: FairTurns;
  /** Small changes of many callers, made by a few statements. */
  readonly together: TogetherChanges;
}

/** What the operations of one thread work with. @param largeWork where work whose memory matters waits for its place */
export async function openContext(
  { config, keyRing, db, clock, observe }: ThreadContext,
  largeWork: LargeWork,
): Promise<DnsApiContext> {
  return {
    ...{ db, keyRing, clock, largeWork, followAllow: config.followAllow },
    announcer: new ZoneAnnouncer(db, observe),
    lookUpDs: await makeDsLookup(config.resolver),
    tokens: new TokenCallers({ db, keyRing, clock, observe }),
    quotas: new CallerQuotas({ db, clock, limitLoopback: config.limitLoopback }),
    together: new TogetherChanges(db),
    zoneTurns: new FairTurns({ atOnce: Number.POSITIVE_INFINITY, perClient: 1 }),
  };
}

/** An operation of this API, and what it needs of a token. */
export type DnsEndpoint = AnyEndpoint<DnsCaller> & { readonly needs: Needs };

/** Declares an operation, inferring its types from its schemas. */
export function dnsEndpoint<Params extends ZodRawShape, Fields extends ZodType, Reply extends ZodType>(
  needs: Needs,
  declaration: Endpoint<DnsCaller, Params, Fields, Reply>,
): DnsEndpoint {
  return { ...declaration, needs };
}

/** Has a JSON body of many changes wait for its place, by the memory that it takes. */
export const admitJson =
  ({ largeWork, quotas }: DnsApiContext) =>
  async (caller: DnsCaller, octets: number): Promise<Result<Place, Refusal>> =>
    largeWork.enter(await quotas.workerOf(caller), weightOfJson(octets));

/** Every file of `routes/` exports one of these. */
export type MakeEndpoints = (context: DnsApiContext) => readonly DnsEndpoint[];
