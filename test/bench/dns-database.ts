import { nameSortKey, parseDomainName } from "../../services/core/dns/name.ts";
import { decodeSoaRdata } from "../../services/core/dns/soa.ts";
import { parseZoneFile } from "../../services/core/dns/zone-file/zone-file.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { insertRecords } from "../../services/store/dns/zone-changes.ts";
import { zoneName } from "../../services/store/dns/zones.ts";
import type { BenchZone } from "./dns-data.ts";

/** Zones that one transaction takes. */
const ZONES_A_STEP = 100;

/** Fills an empty migrated database with zones as the API would have them, fast. */
export async function fillDatabase(db: Db, zones: readonly BenchZone[]): Promise<void> {
  await db("resellers").insert({ id: "bench", name: "bench", key_hash: Buffer.from("bench") });
  const [company] = await db("companies")
    .insert({
      reseller_id: "bench",
      crm_id: "bench",
      name: "bench",
      apikey_sealed: "",
      apikey_hash: Buffer.from("bench"),
    })
    .returning("id");
  for (let start = 0; start < zones.length; start += ZONES_A_STEP) {
    await db.transaction(async (transaction) => {
      for (const zone of zones.slice(start, start + ZONES_A_STEP)) await insertZone(transaction, company.id, zone);
    });
  }
  await db.raw("analyze");
}

async function insertZone(db: Db, companyId: number, { name, text }: BenchZone): Promise<void> {
  const apex = parseDomainName(`${name}.`);
  if (!apex.ok) throw new Error(apex.error.message);
  const file = parseZoneFile(text, { origin: apex.value });
  if (!file.ok || !file.value.soa) throw new Error(`${name}: not a zone`);
  const soa = decodeSoaRdata(file.value.soa.rdata);
  const [zone] = await db("zones")
    .insert({
      reseller_id: "bench",
      company_id: companyId,
      name: zoneName(apex.value),
      name_key: Buffer.from(nameSortKey(apex.value.wire)),
      apex: Buffer.from(apex.value.wire),
      serial_type: "numeric",
      serial: soa.serial,
      mname: Buffer.from(soa.mname.wire),
      rname: Buffer.from(soa.rname.wire),
      refresh: soa.refresh,
      retry: soa.retry,
      expire: soa.expire,
      minimum: soa.minimum,
      ttl: file.value.soa.ttl,
    })
    .returning("id");
  await insertRecords(db, zone.id, file.value.records);
}

/** Fills a database in PowerDNS' own schema with the same zones. */
export async function fillPowerDnsDatabase(db: Db, schema: string, zones: readonly BenchZone[]): Promise<void> {
  await db.raw(schema.replaceAll("?", "\\?"));
  for (let start = 0; start < zones.length; start += ZONES_A_STEP) {
    await db.transaction(async (transaction) => {
      for (const zone of zones.slice(start, start + ZONES_A_STEP)) await insertPowerDnsZone(transaction, zone);
    });
  }
  await db.raw("analyze");
}

async function insertPowerDnsZone(db: Db, { name, text }: BenchZone): Promise<void> {
  const [domain] = await db("domains").insert({ name, type: "NATIVE" }).returning("id");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("$"));
  const rows = lines.map((line) => powerDnsRow(domain.id, name, line));
  await db("records").insert(rows);
}

/** A line of a benchmark's master file as PowerDNS stores it: names absolute without the final dot, priority apart. */
function powerDnsRow(domainId: number, zone: string, line: string): Record<string, unknown> {
  const [owner = "", type = "", ...rest] = line.split(" ");
  const absolute = (label: string) => (label === "@" ? zone : `${label}.${zone}`);
  const row = { domain_id: domainId, name: absolute(owner), type, ttl: 3600, prio: 0, auth: true };
  if (type === "SOA") {
    const [mname = "", rname = "", ...times] = rest;
    return { ...row, content: [absolute(mname), absolute(rname), ...times].join(" ") };
  }
  if (type === "MX") return { ...row, prio: Number(rest[0]), content: absolute(rest[1]!) };
  if (type === "SRV") return { ...row, prio: Number(rest[0]), content: `${rest[1]} ${rest[2]} ${absolute(rest[3]!)}` };
  if (type === "NS" || type === "CNAME") return { ...row, content: absolute(rest[0]!) };
  return { ...row, content: rest.join(" ") };
}
