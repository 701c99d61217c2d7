import { hashApiKey } from "../../services/core/api-key.ts";
import { parseDomainName } from "../../services/core/dns/name.ts";
import { decodeSoaRdata } from "../../services/core/dns/soa.ts";
import { parseZoneFile } from "../../services/core/dns/zone-file/zone-file.ts";
import { zoneOctets } from "../../services/core/dns/zone-octets.ts";
import type { KeyRing } from "../../services/core/key-ring.ts";
import { hashPassword } from "../../services/core/password.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { octetsOfRecords } from "../../services/operations/dns/zone-changes.ts";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { addUser } from "../../services/store/console/users.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";

/** Whose all zones are but those of the others, and the key of every reseller. */
export const LARGE_RESELLER = "large";
/** Beside it there are one that is going to be deleted and one that works meanwhile. */
export const GOING_RESELLER = "going";
export const OTHER_RESELLER = "other";
export const API_KEY = "key-of-the-benchmark";
export const PASSWORD = "correct horse battery staple";

/** Zones of one company. */
const ZONES_A_COMPANY = 1_000;
/** Zones that one statement lays out, in a transaction of its own. */
const ZONES_A_STATEMENT = 50_000;

/** In front of the number in a zone's name; of one length, so that all zones take the same. */
const WORDS = ["garden", "bakery", "flower", "cinema", "museum", "studio", "market", "clinic"];
const NUMBER_DIGITS = 8;
/** No quota is what is measured. */
const LIMITS = { zones: 1e9, records: 1e10, octets: 1e13, changes_per_minute: 1e9 };

/** The name of a zone: its place in canonical order is not that of its making. */
export function zoneNameOf(number: number): string {
  return `${WORDS[number % WORDS.length]}-${String(number).padStart(NUMBER_DIGITS, "0")}.test`;
}

/** The company of the large reseller that a zone belongs to. */
export function companyOf(number: number): string {
  return `${LARGE_RESELLER}-${Math.floor(number / ZONES_A_COMPANY)}`;
}

/**
 * Lays out zones of seven records and a SOA as the API would have made them from a file: PostgreSQL makes the rows from
 * a series of numbers, 50,000 zones a statement, with foreign keys and triggers switched off for its session alone. The
 * tables are those of the migrations, with all their indexes. That the rows are as the API's is checked by `checkLayout`.
 */
export async function layOutZones(db: Db, keyRing: KeyRing, zones: number, going: number): Promise<void> {
  await layOutReseller(db, keyRing, { id: LARGE_RESELLER, first: 0, count: zones });
  await layOutReseller(db, keyRing, { id: GOING_RESELLER, first: zones, count: going });
  await layOutReseller(db, keyRing, { id: OTHER_RESELLER, first: zones + going, count: 100 });
  const passwordHash = await hashPassword(PASSWORD);
  await addUser(db, { login: "operator", role: "operator", scope: null, passwordHash });
  await db.raw("vacuum analyze");
}

/** Whether a database has zones already. */
export async function isLaidOut(db: Db): Promise<boolean> {
  return (await queryRows(db, "select from resellers limit 1")).length > 0;
}

async function layOutReseller(
  db: Db,
  keyRing: KeyRing,
  { id, first, count }: { readonly id: string; readonly first: number; readonly count: number },
): Promise<void> {
  const keyHash = hashApiKey(keyRing, "dns", `${API_KEY}-${id}`);
  await addReseller(db, { id, name: id, rpzLicence: false, keyHash });
  for (let company = 0; company * ZONES_A_COMPANY < count; company += 1) {
    const crmId = `${id}-${company}`;
    await addCompany(db, keyRing, { resellerId: id, crmId, name: crmId, apikey: `key-of-${crmId}` });
  }
  for (let from = first; from < first + count; from += ZONES_A_STATEMENT) {
    const to = Math.min(from + ZONES_A_STATEMENT, first + count) - 1;
    await db.transaction(async (transaction) => {
      await transaction.raw("set local session_replication_role = replica; set local synchronous_commit = off");
      const [ids] = await queryRows<{ from: number; to: number }>(transaction, ZONES_SQL, [
        ...[id, from, to, first, ZONES_A_COMPANY, OCTETS],
      ]);
      await queryRows(transaction, RECORDS_SQL, [ids!.from, ids!.to]);
      await queryRows(transaction, JOURNAL_SQL, [ids!.from, ids!.to]);
      await queryRows(transaction, BUCKETS_SQL, [ids!.from, ids!.to]);
    });
  }
  await queryRows(db, QUOTAS_SQL, [id, JSON.stringify(LIMITS)]);
}

/** The master file of every zone. */
export const ZONE_FILE = `$TTL 3600
@ SOA ns1.example.net. host.example.net. 1 7200 3600 1209600 300
@ A 192.0.2.1
@ NS ns1.example.net.
@ NS ns2.example.net.
@ MX 10 mail
@ TXT "v=spf1 mx -all"
mail A 192.0.2.25
www CNAME @
`;

/**
 * Compares a zone that was laid out with one that the API made of the same content.
 * @throws where a row differs but for what names and numbers it
 */
export async function checkLayout(db: Db, laidOut: string, made: string): Promise<void> {
  const [a, b] = [await contentOf(db, laidOut), await contentOf(db, made)];
  if (a !== b) throw new Error(`the zones that are laid out are none of the API's:\n${a}\n${b}`);
}

async function contentOf(db: Db, name: string): Promise<string> {
  const [zone] = await queryRows<Record<string, unknown> & { id: number; apex: Buffer }>(
    db,
    `select id, apex, name_key, kind, made_by, suspended, signed, serial_type, mname, rname, refresh, retry, expire,
            minimum, ttl, records, octets from zones where name = $1`,
    [name],
  );
  const { id, ...columns } = zone!;
  const records = await queryRows(
    db,
    "select owner, owner_key, type, ttl, rdata from records where zone_id = $1 order by owner_key, type, rdata",
    [id],
  );
  const label = zone!.apex.subarray(1, 1 + zone!.apex[0]!).toString("hex");
  return JSON.stringify({ columns, records }, (_key, value) =>
    value?.type === "Buffer" ? Buffer.from(value.data).toString("hex").replaceAll(label, "label") : value,
  );
}

/** What a zone takes, as quotas count it. */
const OCTETS = octetsOfZone();

function octetsOfZone(): number {
  const apex = parseDomainName(`${zoneNameOf(0)}.`);
  if (!apex.ok) throw new Error(apex.error.message);
  const file = parseZoneFile(ZONE_FILE, { origin: apex.value });
  if (!file.ok || !file.value.soa) throw new Error("the zone of the benchmark is none");
  return (
    zoneOctets(apex.value, decodeSoaRdata(file.value.soa.rdata)) +
    octetsOfRecords(file.value.records, apex.value.wire.length)
  );
}

const LABEL = `(array['${WORDS.join("','")}'])[n % ${WORDS.length} + 1] || '-' || lpad(n::text, ${NUMBER_DIGITS}, '0')`;

const ZONES_SQL = String.raw`
  with made as (
    insert into zones (reseller_id, company_id, made_by, name, name_key, apex, serial_type, serial, mname, rname, refresh,
                       retry, expire, minimum, ttl, records, octets, records_held, octets_held)
    select $1, c.id, 'reseller', label || '.test', 'test\000'::bytea || convert_to(label, 'utf8') || '\000'::bytea,
           set_byte('\000'::bytea, 0, length(label)) || convert_to(label, 'utf8') || '\004test\000'::bytea,
           'numeric', 1, '\003ns1\007example\003net\000'::bytea, '\004host\007example\003net\000'::bytea,
           7200, 3600, 1209600, 300, 3600, 7, $6::bigint, 7, $6::bigint
      from (select n, ${LABEL} as label from generate_series($2::int, $3::int) n) numbered
      join companies c on c.reseller_id = $1 and c.crm_id = $1 || '-' || (n - $4::int) / $5::int
     order by n
    returning id)
  select min(id) as from, max(id) as to from made`;

const RECORDS_SQL = String.raw`
  insert into records (zone_id, owner, owner_key, type, ttl, rdata)
  select z.id, label || z.apex, z.name_key || owner_key, type, 3600, rdata || case when relative then z.apex else '' end
    from zones z, (values
      (1, ''::bytea, ''::bytea, 1, '\xc0000201'::bytea, false),
      (2, '', '', 2, '\003ns1\007example\003net\000', false),
      (3, '', '', 2, '\003ns2\007example\003net\000', false),
      (4, '', '', 15, '\000\012\004mail', true),
      (5, '', '', 16, '\016v=spf1 mx -all', false),
      (6, '\004mail', 'mail\000', 1, '\xc0000219', false),
      (7, '\003www', 'www\000', 5, '', true)) as made (place, label, owner_key, type, rdata, relative)
   where z.id between $1 and $2 order by z.id, place`;

const JOURNAL_SQL = String.raw`
  insert into zone_journal (zone_id, version, serial, actor, deleted, added)
  select z.id, 1, 1, 'bench', '',
         z.apex || '\x00060001'::bytea || int4send(3600) || int2send(length(soa)::int2) || soa || string_agg(
           r.owner || int2send(r.type::int2) || '\x0001' || int4send(r.ttl::int) || int2send(length(r.rdata)::int2) || r.rdata,
           '' order by r.id)
    from zones z join records r on r.zone_id = z.id,
         lateral (select z.mname || z.rname || int4send(1) || int4send(7200) || int4send(3600) || int4send(1209600)
                         || int4send(300) as soa) s
   where z.id between $1 and $2 group by z.id, soa`;

const BUCKETS_SQL = `
  insert into zone_name_buckets as b (reseller_id, bucket, parts)
  select reseller_id, zone_name_bucket(name_key), bit_or(zone_name_parts(name)) from zones where id between $1 and $2
   group by 1, 2
  on conflict (reseller_id, bucket) do update set parts = b.parts | excluded.parts`;

const QUOTAS_SQL = `
  insert into quotas (reseller_id, company_id, limits, zones, records, octets)
  select $1, company_id, $2::jsonb, count(*), sum(records), sum(octets)
    from zones where reseller_id = $1 group by grouping sets ((company_id), ())`;
