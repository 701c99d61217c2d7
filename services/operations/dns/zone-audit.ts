import { nameFromStoredWire } from "../../core/dns/name.ts";
import { type AuditedZone, ZoneAudit, type ZoneFinding } from "../../core/dns/zone-audit.ts";
import { type Db, queryRows } from "../../platform/postgres/db.ts";
import { streamInSnapshot } from "../../store/transactions.ts";
import { type PlacedRow, placedZone } from "./zone-tenancy.ts";

/** A zone, and whom to ask about it. */
export interface AccountedZone extends AuditedZone {
  readonly domain: string;
  readonly crmId: string;
  readonly createdAt: Date;
}

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
      const page = await readPage(snapshot, after);
      const findings = page.zones.flatMap((zone) => [...audit.look(zone)]);
      const actors = await findMakers(snapshot, findings);
      for (const finding of findings) yield { finding, actors };
      after = page.next;
    }
  });
}

interface Row extends PlacedRow {
  readonly name: string;
  readonly name_key: Buffer;
  readonly apex: Buffer;
  readonly crm_id: string;
  readonly created_at: Date;
  readonly is_allowed: boolean;
  readonly predecessors: readonly string[] | null;
}

async function readPage(snapshot: Db, after: Buffer): Promise<{ zones: AccountedZone[]; next: Buffer | undefined }> {
  const rows = await queryRows<Row>(
    snapshot,
    `select z.id, z.name, z.name_key, z.apex, z.reseller_id, z.company_id, c.crm_id, z.made_by, z.created_at,
            allowed.name is not null as is_allowed, first.names as predecessors
       from (select * from zones where kind = 'primary' and name_key > ? order by name_key limit ?) z
       join companies c on c.id = z.company_id
       left join zone_permissions allowed on allowed.name = z.name and allowed.reseller_id = z.reseller_id
       left join (select zone_id, array_agg(reseller_id || ' ' || name || '.') as names
                    from zone_predecessors group by zone_id) first
              on first.zone_id = z.id
      order by z.name_key`,
    [after, PAGE],
  );
  return { zones: rows.map(accountedZone), next: rows.length < PAGE ? undefined : rows.at(-1)!.name_key };
}

function accountedZone(row: Row): AccountedZone {
  return {
    ...placedZone(row),
    apex: nameFromStoredWire(row.apex),
    isAllowed: row.is_allowed,
    predecessors: new Set(row.predecessors),
    domain: row.name,
    crmId: row.crm_id,
    createdAt: row.created_at,
  };
}

async function findMakers(
  snapshot: Db,
  findings: readonly ZoneFinding<AccountedZone>[],
): Promise<ReadonlyMap<number, string>> {
  const zones = findings.flatMap((found) => (found.kind === "pair" ? [found.above, found.below] : [found.zone]));
  if (zones.length === 0) return new Map();
  const rows = await queryRows<{ zone_id: number; actor: string }>(
    snapshot,
    "select zone_id, actor from zone_journal where zone_id = any(?::bigint[]) and version = 1 and serial_before is null",
    [[...new Set(zones.map(({ id }) => id))]],
  );
  return new Map(rows.map(({ zone_id, actor }) => [zone_id, actor]));
}
