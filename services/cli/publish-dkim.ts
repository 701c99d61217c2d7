import { createMissingRecords, hostingZone } from "../console/sender-domain.ts";
import { parseDomainName } from "../core/dns/name.ts";
import { parseRdata } from "../core/dns/rdata/rdata.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import { dkimMatches, type ExpectedRecord, expectedDkim } from "../core/mail/sender-records.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { changeRecords } from "../operations/dns/zone-records.ts";
import { systemClock } from "../platform/clock.ts";
import type { Db } from "../platform/postgres/db.ts";
import { readRecordsAt } from "../store/dns/records.ts";
import { notifyZones } from "../store/dns/zone-notices.ts";
import type { Zone } from "../store/dns/zones.ts";
import { listInstanceDomains } from "../store/mail/instances/instances.ts";
import type { CommandDatabase } from "./database.ts";
import { refusalText } from "./input.ts";

const ACTOR = "operator";

/**
 * Publishes the DKIM keys of an instance's sender domains in the zones that are hosted here. A name that has a key
 * already is left alone.
 * @param domains as A-labels in lower case
 * @returns a line for each key that was published, or could not be
 */
export async function publishDkim(
  { db, keyRing }: Pick<CommandDatabase, "db" | "keyRing">,
  instanceId: number,
  domains: readonly string[],
): Promise<string[]> {
  const lines: string[] = [];
  for (const { domain, dkimSelector, dkimRecord } of await listInstanceDomains(db, instanceId)) {
    const expected = expectedDkim(domain, dkimSelector, dkimRecord);
    const found = domains.includes(domain) ? await findHostedTexts(db, expected.name) : undefined;
    if (found === undefined || dkimMatches(found, dkimRecord)) continue;
    const check = { name: "dkim", expected: [expected], found, ok: false } as const;
    const made = await createMissingRecords({ db }, { domain, checks: [check] }, (zone, record) =>
      addRecord({ db, keyRing }, zone, record),
    );
    if (!made.ok) lines.push(`${expected.name} is not published: ${refusalText(made.error)}`);
    else {
      lines.push(...made.value.created.map(({ name }) => `${name} is published in the zone that is hosted here`));
      lines.push(...made.value.conflicts.map((conflict) => `not published: ${conflict}`));
    }
  }
  return lines;
}

async function addRecord(
  { db, keyRing }: Pick<CommandDatabase, "db" | "keyRing">,
  zone: Zone,
  { name, type, value }: ExpectedRecord,
): Promise<Result<void, Refusal>> {
  if (zone.signed && !keyRing.holds("dnssec-key")) {
    return refuse(unacceptable("signed-without-keys", { domain: zone.name }));
  }
  const owner = parseDomainName(name);
  if (!owner.ok) return refuse(unacceptable("for-name", { name, reason: owner.error.message }));
  const rdata = parseRdata(TYPE[type], value, owner.value, "value");
  if (!rdata.ok) return refuse(unacceptable("for-name", { name, reason: rdata.error.message }));
  const signer = { keyRing, clock: systemClock };
  const target = { scope: {}, apex: zone.apex, domain: zone.name, actor: ACTOR, signer };
  const creation = { owner: owner.value, type: TYPE[type], ttl: undefined, rdata: rdata.value };
  const edits = { creations: [creation], modifications: [], deletionIds: [] };
  const changed = await changeRecords(db, target, edits, new Date(systemClock.nowMs()));
  if (!changed.ok) return changed;
  await notifyZones(db, [zone.id]);
  return ok(undefined);
}

/** The texts that a name has in the zone that is hosted here; undefined when none is. */
async function findHostedTexts(db: Db, name: string): Promise<string[] | undefined> {
  const owner = parseDomainName(name);
  const zone = owner.ok ? await hostingZone({ db }, name) : undefined;
  if (!owner.ok || zone === undefined) return undefined;
  const records = await readRecordsAt(db, zone.id, [owner.value]);
  return records.filter(({ type }) => type === TYPE.TXT).map(({ rdata }) => joinStrings(rdata));
}

/** RFC 6376 §3.6.2.2: the strings of a record are joined without anything between them. */
function joinStrings(rdata: Uint8Array): string {
  const strings: Buffer[] = [];
  for (let at = 0; at < rdata.length; at += 1 + rdata[at]!) {
    strings.push(Buffer.from(rdata.subarray(at + 1, at + 1 + rdata[at]!)));
  }
  return Buffer.concat(strings).toString("latin1");
}
