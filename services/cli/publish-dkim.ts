import { parseDomainName } from "../core/dns/name.ts";
import { TYPE } from "../core/dns/rr-types.ts";
import { joinedText } from "../core/mail/domain-setup/record-values.ts";
import { dkimMatches, expectedDkim } from "../core/mail/sender-records.ts";
import { hostingZone } from "../operations/mail/domain-hosting.ts";
import { createMissingRecords } from "../operations/mail/sender-checks.ts";
import type { Db } from "../platform/postgres/db.ts";
import { readRecordsAt } from "../store/dns/records.ts";
import { listInstanceDomains } from "../store/mail/instances/instances.ts";
import type { CommandDatabase } from "./database.ts";
import { refusalText } from "./input.ts";
import { makeWriteZone } from "./write-zone.ts";

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
    const made = await createMissingRecords({ db }, { domain, checks: [check] }, makeWriteZone({ db, keyRing }));
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
  const records = await readRecordsAt(db, zone.id, [owner.value], [TYPE.TXT]);
  return records.map(({ rdata }) => joinedText(rdata));
}
