import { type DomainName, parseDomainName } from "../core/dns/name.ts";
import { judgeZone } from "../core/dns/token.ts";
import { invalidField, type Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { ZoneChanged, ZoneTarget } from "../operations/dns/zone-changes.ts";
import type { SigningTarget } from "../operations/dns/zone-signing-state.ts";
import type { DnsCaller } from "../store/dns/dns-callers.ts";
import type { ZoneSize } from "../store/dns/zone-usage.ts";
import { readZoneUsage } from "../store/dns/zone-usage.ts";
import { zoneDoesNotExist } from "../store/dns/zones.ts";
import { actorOf, scopeOf } from "./caller.ts";
import type { DnsApiContext } from "./context.ts";
import { weightOfZone } from "./large-work.ts";

/**
 * The zone that a path names. A text that is no name is refused as a zone that does not exist; one that the caller's token
 * is not for, whether or not it exists.
 */
export function zoneTarget(caller: DnsCaller, domain: string): Result<ZoneTarget, Refusal> {
  const apex = parseDomainName(domain);
  if (!apex.ok) return refuse(zoneDoesNotExist(domain));
  const { token } = caller;
  const barred = token && judgeZone(token, apex.value);
  if (barred) return refuse(barred);
  return ok({ scope: scopeOf(caller), apex: apex.value, domain, actor: actorOf(caller), token });
}

/** A name that is absolute with or without its final dot. */
export function absoluteName(field: string, text: string): Result<DomainName, Refusal> {
  const name = parseDomainName(text);
  return name.ok ? name : refuse(invalidField(field, name.error));
}

/** In whose turn a zone is changed. Before it is known whose it is, nobody is to wait behind strangers who name it. */
export function turnOf({ scope, apex }: Pick<ZoneTarget, "scope" | "apex">): string {
  return `${scope.resellerId ?? ""}/${scope.companyId ?? ""}/${apex.key}`;
}

/** Runs a change of the zone that a path names, and announces it. */
export async function changeAndAnnounce<Changed extends Pick<ZoneChanged, "zone">>(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  change: (target: SigningTarget, now: Date) => Promise<Result<Changed, Refusal>>,
): Promise<Result<Changed, Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const { keyRing, clock, together, largeWork } = context;
  const { scope, apex, actor, token } = target.value;
  const changed = await largeWork.begin(
    () => context.quotas.workerOf(caller),
    (admitMuch) =>
      context.zoneTurns.run(turnOf(target.value), () =>
        change(
          { scope, apex, domain, actor, token, together, admitMuch, signer: { keyRing, clock } },
          new Date(clock.nowMs()),
        ),
      ),
  );
  if (changed.ok) context.announcer.announce([changed.value.zone.id]);
  return changed;
}

/** As {@link changeAndAnnounce}, of what goes over the whole zone. */
export async function changeWholeZone<Changed extends Pick<ZoneChanged, "zone">>(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  change: (target: SigningTarget, now: Date) => Promise<Result<Changed, Refusal>>,
): Promise<Result<Changed, Refusal>> {
  const named = zoneTarget(caller, domain);
  if (!named.ok) return named;
  const usage = await readZoneUsage(context.db, named.value.scope, named.value.apex);
  if (!usage) return refuse(zoneDoesNotExist(domain));
  const { largeWork } = context;
  // A change that came before may have made the zone larger while this one waited for it.
  const admitWhole = (zone: ZoneSize) => largeWork.admit(weightOfZone(zone));
  return largeWork.run(await context.quotas.workerOf(caller), weightOfZone(usage), () =>
    changeAndAnnounce(context, caller, domain, (target, now) => change({ ...target, admitWhole }, now)),
  );
}
