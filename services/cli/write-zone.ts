import { parseDomainName } from "../core/dns/name.ts";
import { parseRdata, rdataReason } from "../core/dns/rdata/rdata.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import type { RecordDraft } from "../core/dns/zone-edit.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { changeRecords } from "../operations/dns/zone-records.ts";
import type { WriteZone, ZoneRecord } from "../operations/mail/domain-hosting.ts";
import { systemClock } from "../platform/clock.ts";
import { notifyZones } from "../store/dns/zone-notices.ts";
import type { CommandDatabase } from "./database.ts";
import { COMMAND_ACTOR } from "./runtime.ts";

/** Changes zones as the operator, who runs the command. */
export function makeWriteZone({ db, keyRing }: Pick<CommandDatabase, "db" | "keyRing">): WriteZone {
  return async (zone, { creations: wanted, deletionIds, serial }) => {
    if (zone.signed && !keyRing.holds("dnssec-key")) {
      return refuse(unacceptable("signed-without-keys", { domain: zone.name }));
    }
    const creations: RecordDraft[] = [];
    for (const record of wanted) {
      const draft = draftOf(record);
      if (!draft.ok) return draft;
      creations.push(draft.value);
    }
    const signer = { keyRing, clock: systemClock };
    const target = { scope: {}, apex: zone.apex, domain: zone.name, actor: COMMAND_ACTOR, signer };
    const edits = { creations, modifications: [], deletionIds, atSerial: serial };
    const changed = await changeRecords(db, target, edits, new Date(systemClock.nowMs()));
    if (!changed.ok) return changed;
    await notifyZones(db, [zone.id]);
    return ok(undefined);
  };
}

function draftOf({ name, type, value, preference }: ZoneRecord): Result<RecordDraft, Refusal> {
  const owner = parseDomainName(`${name}.`);
  if (!owner.ok) return refuse(unacceptable("for-name", { name, reason: owner.error.message }));
  const text = type === "MX" ? `${preference} ${value}.` : type === "CNAME" ? `${value}.` : value;
  const rdata = parseRdata(TYPE[type], text, owner.value, "value");
  if (!rdata.ok) return refuse(unacceptable("for-name", { name, reason: rdataReason(rdata.error) }));
  return ok({ owner: owner.value, type: TYPE[type], ttl: undefined, rdata: rdata.value });
}
