import { createMissingRecords, hostingZone } from "../console/sender-domain.ts";
import { parseDomainName } from "../core/dns/name.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import { dkimMatches, expectedDkim } from "../core/mail/sender-records.ts";
import { systemClock } from "../platform/clock.ts";
import type { Db } from "../platform/db.ts";
import { readRecordsAt } from "../store/dns/records.ts";
import { listInstanceDomains } from "../store/mail/instances.ts";
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
  { db, secret }: Pick<CommandDatabase, "db" | "secret">,
  instanceId: number,
  domains: readonly string[],
): Promise<string[]> {
  const lines: string[] = [];
  for (const { domain, dkimSelector, dkimRecord } of await listInstanceDomains(db, instanceId)) {
    const expected = expectedDkim(domain, dkimSelector, dkimRecord);
    const found = domains.includes(domain) ? await findHostedTexts(db, expected.name) : undefined;
    if (found === undefined || dkimMatches(found, dkimRecord)) continue;
    const check = { name: "dkim", expected: [expected], found, ok: false } as const;
    const made = await createMissingRecords({ db, secret, clock: systemClock }, [check], ACTOR);
    if (!made.ok) lines.push(`${expected.name} is not published: ${refusalText(made.error)}`);
    else {
      lines.push(...made.value.created.map(({ name }) => `${name} is published in the zone that is hosted here`));
      lines.push(...made.value.conflicts.map((conflict) => `not published: ${conflict}`));
    }
  }
  return lines;
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
