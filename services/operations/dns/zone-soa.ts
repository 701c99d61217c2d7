import { parseIpv4 } from "../../core/dns/ip-address.ts";
import { type DomainName, formatDomainName, labelsOf, sameName } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { compareSerial, nextSerial, type SerialError } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { isHostName } from "../../core/dns/zone-checks.ts";
import { outdatedWarnings } from "../../core/dns/zone-warnings.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import { doesNotOwn, findZone, type Zone, zoneDoesNotExist } from "../../store/dns/zones.ts";
import { changeZone, type ZoneChanged, type ZonePlan, type ZoneTarget } from "./zone-changes.ts";
import { admitWhole } from "./zone-file-size.ts";
import { warningsOf } from "./zone-records.ts";

/** Largest value of the SOA's times, as of a TTL (RFC 2181 §8). */
export const MOST_SECONDS = 2 ** 31 - 1;

const AT_SIGN = 0x40;

/**
 * Sets the SOA of a zone. A serial that is behind is refused (RFC 1982); with an equal one the serial increases as by
 * any change.
 * @param wanted.crmId the company that must own the zone
 */
export function changeSoa(
  db: Db,
  target: ZoneTarget,
  wanted: { readonly crmId: string; readonly soa: SoaRdata; readonly ttl: number },
  now: Date,
): Promise<Result<ZoneChanged, Refusal>> {
  return changeZone(db, target, async (on): Promise<Result<ZonePlan, Refusal>> => {
    const zone = await findZone(on, target.scope, target.apex);
    if (!zone) return refuse(zoneDoesNotExist(target.domain));
    if (zone.crmId !== wanted.crmId.toLowerCase()) return refuse(doesNotOwn(wanted.crmId, target.domain));
    await admitWhole(on, target);
    const serial = serialAfter(zone, wanted.soa.serial, now);
    if (!serial.ok) return refuse(unacceptable(serial.error));
    const { mname } = wanted.soa;
    const isNew = !sameName(mname, zone.soa.mname);
    const doubts = await warningsOf(on, zone, { changed: [], known: new Map(), ...(isNew ? { mname } : {}) });
    const atApex = await readRecordsAt(on, zone.id, [zone.apex], [TYPE.RRSIG, TYPE.ZONEMD]);
    const warnings = [...doubts, ...outdatedWarnings(zone, serial.value, atApex)];
    const change = { soa: { ...wanted.soa, serial: serial.value }, ttl: wanted.ttl, ...NO_RECORDS };
    return ok({ zone, change, touchesSoa: true, warnings });
  });
}

/**
 * What is wrong with the names of a SOA: `mname` must be a host name (RFC 952, RFC 1123 §2.1) and no address, `rname`
 * a mailbox in DNS form, without `@` (RFC 1035 §8).
 */
export function checkSoaNames({ mname, rname }: Pick<SoaRdata, "mname" | "rname">): Refusal | undefined {
  if (!isHostName(mname)) return invalidField("mname", "no-host-name", { text: formatDomainName(mname) });
  if (parseIpv4(formatDomainName(mname).slice(0, -1))) return invalidField("mname", "name-not-address");
  if (rname.labelCount === 0) return invalidField("rname", "mailbox");
  if (hasAtSign(rname)) return invalidField("rname", "mailbox-without-at");
  return undefined;
}

/** What is wrong with a SOA, or its TTL where that is given: its names, or times that are longer than the API takes. */
export function checkSoa(soa: SoaRdata, ttl = 0): Sentence | undefined {
  const names = checkSoaNames(soa);
  if (names?.kind === "invalid-field") return sentence("of-a-part", { part: names.field, reason: names.reason });
  const { refresh, retry, expire, minimum } = soa;
  const long = Object.entries({ refresh, retry, expire, minimum, ttl }).find(([, seconds]) => seconds > MOST_SECONDS);
  return long && sentence("of-a-part", { part: long[0], reason: sentence("not-above", { most: MOST_SECONDS }) });
}

function hasAtSign(name: DomainName): boolean {
  return labelsOf(name).some((label) => label.includes(AT_SIGN));
}

function serialAfter(zone: Zone, wanted: number, now: Date): Result<number, SerialError> {
  const order = compareSerial(wanted, zone.soa.serial);
  if (order === 1) return ok(wanted);
  if (order === 0) return nextSerial(wanted, zone.serialType, now);
  return refuse(sentence("serial-behind", { wanted, has: zone.soa.serial }));
}

const NO_RECORDS = {
  rows: { deletedIds: [], updated: [], created: [] },
  difference: { deleted: [], added: [] },
} as const;
