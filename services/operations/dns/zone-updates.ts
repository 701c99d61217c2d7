import { RCODE } from "../../core/dns/rr-types.ts";
import { nextSerialAnyway } from "../../core/dns/serial.ts";
import { judgeAsked } from "../../core/dns/token.ts";
import { applyUpdate, changesNothing } from "../../core/dns/update/apply-update.ts";
import { namesOf, ownerOf, typeOf, type UpdateRequest } from "../../core/dns/update/update-request.ts";
import { editRecords } from "../../core/dns/zone-edit.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readLargeExcerpt } from "../../store/dns/zone-excerpts.ts";
import { type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { changeZone, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import { checkSoa } from "./zone-soa.ts";

/** What an update came to. */
export interface ZoneUpdated {
  /** NOERROR, or what the prerequisites say. */
  readonly rcode: number;
  /** The zone as it is now, when something changed. */
  readonly zone?: Zone;
}

/**
 * Makes an update of a zone (RFC 2136), as a change like any other. The serial increases by one; in a calendar zone whose
 * hundred of the day is used up it goes on by one all the same, as programs cannot wait for tomorrow. Nobody could read
 * warnings, so none are looked for.
 * @returns refused when the token's policy, the quotas or the checks of the zone do not allow it
 */
export async function updateZone(
  db: Db,
  target: ZoneTarget,
  request: UpdateRequest,
  now: Date,
): Promise<Result<ZoneUpdated, Refusal>> {
  // What stands at a name is told by prerequisites alone as well.
  const needed = request.prerequisites.map((one) => ({ owner: one.owner, type: "type" in one ? one.type : undefined }));
  const asked = [...needed, ...request.steps.map((step) => ({ owner: ownerOf(step), type: typeOf(step) }))];
  const barred = target.token && judgeAsked(target.token, asked);
  if (barred) return refuse(barred);
  const names = namesOf(request);
  let rcode: number = RCODE.NOERROR;
  const changed = await changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const excerpt = await readLargeExcerpt(on, { ...target, names });
    if (!excerpt) return refuse(zoneDoesNotExist(target.domain));
    const { zone, records } = excerpt;
    const effect = applyUpdate(zone, records, request);
    rcode = effect.ok ? RCODE.NOERROR : effect.error;
    if (!effect.ok || changesNothing(effect.value)) return ok({ zone, warnings: [] });
    const { edits, soa: wanted } = effect.value;
    const problem = wanted && checkSoa(wanted.rdata, wanted.ttl);
    if (problem) return refuse(unacceptable(problem));
    const edited = editRecords(zone, records, edits);
    if (!edited.ok) return edited;
    const { rows, difference } = edited.value;
    const soa = wanted?.rdata ?? { ...zone.soa, serial: nextSerialAnyway(zone.soa.serial, zone.serialType, now) };
    const change = { soa, ttl: wanted?.ttl ?? zone.ttl, rows, difference };
    return ok({ zone, change, touchesSoa: wanted !== undefined, warnings: [] });
  });
  if (!changed.ok) return changed;
  return ok({ rcode, ...(changed.value.changed && { zone: changed.value.zone }) });
}
