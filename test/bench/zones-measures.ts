import { setTimeout as sleep } from "node:timers/promises";
import { parseDomainName } from "../../services/core/dns/name.ts";
import type { KeyRing } from "../../services/core/key-ring.ts";
import { addCatalog } from "../../services/operations/dns/catalogs.ts";
import { deleteReseller } from "../../services/operations/dns/resellers.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { print } from "./dns-report.ts";
import { percentile } from "./percentile.ts";
import { measureApis, zoneApi } from "./zones-apis.ts";
import { GOING_RESELLER, LARGE_RESELLER, OTHER_RESELLER, zoneNameOf } from "./zones-data.ts";
import { BenchSecondary, transferZone } from "./zones-secondary.ts";
import { type BenchPlace, type BenchService, startService } from "./zones-services.ts";

/** By what they are of, with their units. */
export type Figures = Record<string, number>;

export interface SizeToMeasure extends BenchPlace {
  readonly db: Db;
  readonly keyRing: KeyRing;
  /** Of the large reseller. */
  readonly zones: number;
  /** Of the reseller that is deleted at the end. */
  readonly going: number;
}

const RECORDS_A_ZONE = 8;
const CATALOG = "catalog.invalid";
const DNS_MEMORY = { PALOMAR_DNS_MEMORY: "4GiB", PALOMAR_DNS_WORKERS: "1" };
const API = { PALOMAR_API_REQUESTS_PER_SECOND: "100000" };

/** All figures of a size, in the order in which they are taken. */
export async function measureSize(size: SizeToMeasure): Promise<Figures> {
  const figures: Figures = {};
  const api = await startService("dns-api", size, API);
  const console = await startService("console", size, API);
  try {
    note(figures, await measureApis(size, api.addresses.dns_api!, console.addresses.console!));
    await console.stop();
    note(figures, await measureStarts(size));
    note(figures, await measureServer(size, api));
  } finally {
    await console.stop();
    await api.stop();
  }
  return figures;
}

function note(figures: Figures, more: Figures): void {
  for (const [name, figure] of Object.entries(more)) print(`  ${name}: ${figure.toPrecision(4)}`);
  Object.assign(figures, more);
}

/** A start from the database and one from the snapshot that the first one has left. */
async function measureStarts(size: SizeToMeasure): Promise<Figures> {
  const [{ empty } = { empty: 0 }] = [{ empty: await idleMemory(size) }];
  const server = await startService("dns-server", size, DNS_MEMORY);
  const published = await server.observed("zones-published");
  const octets = server.memory() - empty;
  const kept = await server.observed("snapshot-written");
  await server.stop();
  const records = published.zones * RECORDS_A_ZONE;
  // Port 9 of loopback is nobody's.
  const away = { ...size, databaseUrl: "postgres://palomar@127.0.0.1:9/palomar" };
  const lonely = await startService("dns-server", away, DNS_MEMORY);
  const { ms } = await lonely.observed("zones-from-snapshot");
  await lonely.stop();
  return {
    "start from PostgreSQL, s": published.ms / 1_000,
    "start from PostgreSQL, records/s": (records / published.ms) * 1_000,
    "start from PostgreSQL until ready, s": server.startMs / 1_000,
    "memory, octets/zone": octets / published.zones,
    "snapshot written, s": kept.ms / 1_000,
    "start from the snapshot, s": ms / 1_000,
    "start from the snapshot, records/s": (records / ms) * 1_000,
  };
}

/** What a server takes that holds no zones. */
async function idleMemory(size: SizeToMeasure): Promise<number> {
  const server = await startService("dns-server", size, { ...DNS_MEMORY, PALOMAR_DNS_RESELLERS: "nobody" });
  const octets = server.memory();
  await server.stop();
  return octets;
}

/** The catalog of all zones, NOTIFY, and the deletion of a reseller, with a server that answers meanwhile. */
async function measureServer(size: SizeToMeasure, api: BenchService): Promise<Figures> {
  const { db, keyRing } = size;
  const secondary = new BenchSecondary();
  const address = await secondary.listen();
  const acl = { name: "bench", blocks: ["127.0.0.1/32"], tsig: null, notify: [address] };
  await addAcl(db, keyRing, { ...acl, resellerId: LARGE_RESELLER, zones: [CATALOG] });
  await addAcl(db, keyRing, { ...acl, resellerId: GOING_RESELLER, zones: null });
  const server = await startService("dns-server", size, DNS_MEMORY);
  try {
    const dns = server.addresses.dns!.split(",")[0]!;
    await secondary.untilTold(size.going);
    return {
      ...(await measureCatalog(size, { dns, secondary, api: api.addresses.dns_api! })),
      ...(await measureNotify(size, secondary)),
      ...(await measureDeletion(size, api.addresses.dns_api!)),
    };
  } finally {
    await server.stop();
    secondary.close();
  }
}

interface Servers {
  readonly dns: string;
  readonly secondary: BenchSecondary;
  readonly api: string;
}

async function measureCatalog({ db, zones }: SizeToMeasure, { dns, secondary, api }: Servers): Promise<Figures> {
  const apex = parseDomainName(`${CATALOG}.`);
  if (!apex.ok) throw new Error(apex.error.message);
  secondary.reset();
  let at = performance.now();
  const added = await addCatalog(db, LARGE_RESELLER, apex.value, { actor: "bench", maker: "operator" });
  if (!added.ok) throw new Error(JSON.stringify(added.error));
  const makeMs = performance.now() - at;
  await notifyZones(db, [added.value.zone.id]);
  const loadMs = await secondary.untilTold(1);
  // NS and version, and the SOA at both ends.
  let members = zones + (await extraZones(db, zones));
  const whole = await transferZone(dns, CATALOG, { records: members + 4 });
  const known: number[] = [];
  const transferred: number[] = [];
  let { serial } = whole;
  for (let round = 0; round < 10; round += 1) {
    secondary.reset();
    at = performance.now();
    await zoneApi(api, LARGE_RESELLER).createZone(`listed-${round}.example.net`, `${LARGE_RESELLER}-0`);
    await secondary.untilTold(1);
    known.push(performance.now() - at);
    const found = await transferZone(dns, CATALOG, { records: 5, serial });
    if (found.records !== 5) throw new Error(`an IXFR of one member has ${found.records} records`);
    transferred.push(found.ms);
    ({ serial } = found);
    members += 1;
  }
  return {
    "catalog made, s": makeMs / 1_000,
    "catalog in the name server, s": loadMs / 1_000,
    "catalog by AXFR, s": whole.ms / 1_000,
    "zone added until NOTIFY of the catalog, median ms": percentile(known, 50),
    "catalog by IXFR after one zone, median ms": percentile(transferred, 50),
  };
}

/** Zones of the large reseller beside those that were laid out. */
async function extraZones(db: Db, zones: number): Promise<number> {
  const [row] = await queryRows<{ zones: number }>(
    db,
    "select count(*) as zones from zones where reseller_id = $1 and kind = 'primary'",
    [LARGE_RESELLER],
  );
  return row!.zones - zones;
}

/** All zones of a reseller change at once, each with a row in its journal, as by aliases of one target. */
async function measureNotify({ db, going }: SizeToMeasure, secondary: BenchSecondary): Promise<Figures> {
  await sleep(1_000);
  secondary.reset();
  const at = performance.now();
  await queryRows(db, CHANGE_SQL, [GOING_RESELLER]);
  const changeMs = performance.now() - at;
  await notifyZones(
    db,
    Array.from({ length: going }, (_, index) => index),
  );
  return {
    "change of the zones that are notified, in PostgreSQL, s": changeMs / 1_000,
    "all NOTIFYs of them, s": (await secondary.untilTold(going)) / 1_000,
    "NOTIFY messages a zone": secondary.messages / going,
  };
}

const SOA = (
  serial: string,
) => `(apex || '\\x0006000100000e10'::bytea || int2send((length(mname) + length(rname) + 20)::int2)
  || mname || rname || int4send((${serial})::int) || int4send(refresh::int) || int4send(retry::int) || int4send(expire::int)
  || int4send(minimum::int))`;
const CHANGE_SQL = `
  with changed as (
    update zones set serial = serial + 1, version = version + 1, changed_xid = pg_current_xact_id()
     where reseller_id = $1 returning *),
  added as (
    insert into records (zone_id, owner, owner_key, type, ttl, rdata)
    select id, '\\x03'::bytea || 'new' || apex, name_key || 'new\\000'::bytea, 1, 300, '\\xc0000263' from changed)
  insert into zone_journal (zone_id, version, serial_before, serial, actor, deleted, added)
  select id, version, serial - 1, serial, 'bench', ${SOA("serial - 1")},
         ${SOA("serial")} || '\\x03'::bytea || 'new' || apex || '\\x000100010000012c0004c0000263'::bytea from changed`;

/** A reseller is deleted with its zones, while another one works. */
async function measureDeletion({ db, keyRing, zones, going }: SizeToMeasure, url: string): Promise<Figures> {
  const other = zoneApi(url, OTHER_RESELLER);
  let isDone = false;
  const waits: number[] = [];
  const work = async () => {
    for (let count = 0; !isDone; count += 1) {
      const at = performance.now();
      await other.createRecord(zoneNameOf(zones + going + (count % 100)), `d${count}`);
      waits.push(performance.now() - at);
    }
  };
  const working = work();
  await sleep(1_000);
  const quiet = waits.splice(0);
  const at = performance.now();
  const deleted = await deleteReseller(db, GOING_RESELLER, { keyRing, clock: systemClock });
  const ms = performance.now() - at;
  isDone = true;
  await working;
  if (!deleted.ok || deleted.value !== going) throw new Error(`not deleted: ${JSON.stringify(deleted)}`);
  return {
    "deletion of a reseller, s": ms / 1_000,
    "others' creations before it, p95 ms": percentile(quiet, 95),
    "others' creations meanwhile, p95 ms": percentile(waits, 95),
    "others' creations meanwhile, most ms": Math.max(...waits),
  };
}
