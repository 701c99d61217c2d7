import { ZoneAudit, type ZoneFinding } from "../../core/dns/zone-audit.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { type AccountedZone, readAuditPage, readMakers } from "../../store/dns/zone-names.ts";
import { streamInSnapshot } from "../../store/transactions.ts";

/** A finding, and who made the zones: as the history names them, by id; nobody where it does not reach back so far. */
export interface AccountedFinding {
  readonly finding: ZoneFinding<AccountedZone>;
  readonly actors: ReadonlyMap<number, string>;
}

/** Zones read at a time. */
const PAGE = 5_000;

/** All that breaks the rule for names, in canonical order, out of one snapshot; of the zones only a page is in memory. */
export function auditZones(db: Db): AsyncGenerator<AccountedFinding> {
  return streamInSnapshot(db, async function* (snapshot) {
    const audit = new ZoneAudit<AccountedZone>();
    let after: Buffer | undefined = Buffer.alloc(0);
    while (after !== undefined) {
      const page = await readAuditPage(snapshot, after, PAGE);
      const findings = page.zones.flatMap((zone) => [...audit.look(zone)]);
      const actors = await findMakers(snapshot, findings);
      for (const finding of findings) yield { finding, actors };
      after = page.next;
    }
  });
}

async function findMakers(
  snapshot: Db,
  findings: readonly ZoneFinding<AccountedZone>[],
): Promise<ReadonlyMap<number, string>> {
  const zones = findings.flatMap((found) => (found.kind === "pair" ? [found.above, found.below] : [found.zone]));
  return readMakers(snapshot, [...new Set(zones.map(({ id }) => id))]);
}
