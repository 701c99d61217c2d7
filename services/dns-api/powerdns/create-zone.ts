import { z } from "zod";
import type { DomainName } from "../../core/dns/name.ts";
import { domainNameFromWire, parseDomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { initialSerial } from "../../core/dns/serial.ts";
import { judgeZone } from "../../core/dns/token.ts";
import { checkZoneName } from "../../core/dns/zone-checks.ts";
import { duplicatedZone } from "../../core/dns/zone-tenancy.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { createZone, type NewZone } from "../../operations/dns/zone-creation.ts";
import { checkRecords, readNewZone } from "../../operations/dns/zone-files.ts";
import { listCompanies } from "../../store/dns/companies.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { findPowerdnsZone, replaceComments, setPowerdnsSettings } from "../../store/dns/powerdns-zones.ts";
import { withinQuotas } from "../../store/dns/quotas.ts";
import { inTransaction } from "../../store/transactions.ts";
import { actorOf, scopeOf } from "../caller.ts";
import type { DnsApiContext } from "../context.ts";
import { ZONE_FILE_BOUNDS } from "../large-work.ts";
import { judgeComments } from "./comments.ts";
import { type ReadRrsets, readCanonical, readWhole, type rrsetFields } from "./read-rrsets.ts";
import { readSettings, type Settings, settingsFields } from "./zone-settings.ts";

/** TTL and times of a SOA that nobody gave, in seconds: those that PowerDNS gives. */
const DEFAULT_TTL = 3600;
const DEFAULT_TIMES = { refresh: 10_800, retry: 3_600, expire: 604_800, minimum: 3_600 };

/** A zone that is to be made. */
export const creationFields = settingsFields.extend({
  name: z.string(),
  nameservers: z.array(z.string()).nullable().optional(),
  zone: z.string().nullable().optional().meta({ description: "a master file" }),
  serial: z
    .int()
    .min(0)
    .max(2 ** 32 - 1)
    .optional(),
});
export type CreationFields = z.output<typeof creationFields> & {
  readonly rrsets?: readonly z.output<typeof rrsetFields>[] | null | undefined;
};

/** Makes a zone. @returns its name, and how it is to deny where it is to be signed */
export async function createPowerdnsZone(
  context: DnsApiContext,
  caller: DnsCaller,
  fields: CreationFields,
): Promise<Result<{ readonly apex: DomainName; readonly denial: Settings["denial"] }, Refusal>> {
  const settings = readSettings(fields);
  if (!settings.ok) return settings;
  if (settings.value.denial === "nsec3" && !settings.value.dnssec) {
    return refuse(unacceptable("not-signed", { domain: fields.name }));
  }
  const planned = await planZone(caller, fields, { settings: settings.value, now: new Date(context.clock.nowMs()) });
  if (!planned.ok) return refuse((await findDuplicate(context, caller, fields.name, planned.error)) ?? planned.error);
  const crmId = await companyOf(context, caller, fields.account ?? undefined);
  if (!crmId.ok) return crmId;
  const { added, comments } = planned.value;
  const tooMuch = await judgeComments(context.db, undefined, comments, undefined);
  if (tooMuch) return refuse(tooMuch);
  const { kind, soaEditApi, denial } = settings.value;
  const kept = { ...(kind && { kind }), ...(soaEditApi !== undefined && { soaEditApi }) };
  const created = await withinQuotas(context.db, () =>
    inTransaction(context.db, async (transaction) => {
      const owner = { ...scopeOf(caller), crmId: crmId.value };
      const zone = await createZone(transaction, owner, added, actorOf(caller));
      if (!zone.ok) return zone;
      const { id } = zone.value.zone;
      await setPowerdnsSettings(transaction, id, kept);
      await replaceComments(transaction, id, comments);
      return ok(id);
    }),
  );
  if (!created.ok) return created;
  context.announcer.announce([created.value]);
  return ok({ apex: added.apex, denial });
}

/** Programs ask for a zone by its name alone to learn whether it is there: then that is what they are told. */
async function findDuplicate(
  { db }: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  refusal: Refusal,
): Promise<Refusal | undefined> {
  if (refusal.kind !== "unacceptable" || refusal.code !== "pdns-no-nameservers") return undefined;
  const apex = parseDomainName(domain);
  const isThere = apex.ok && (await findPowerdnsZone(db, scopeOf(caller), apex.value)) !== undefined;
  return isThere ? duplicatedZone(domain) : undefined;
}

interface PlannedZone {
  readonly added: NewZone;
  readonly comments: ReadRrsets["comments"];
}

async function planZone(
  { token }: DnsCaller,
  fields: CreationFields,
  { settings, now }: { readonly settings: Settings; readonly now: Date },
): Promise<Result<PlannedZone, Refusal>> {
  const apex = readCanonical(fields.name);
  if (!apex.ok) return apex;
  const lawful = checkZoneName(apex.value);
  if (!lawful.ok) return refuse(unacceptable("pdns-no-name", { name: fields.name, reason: lawful.error }));
  const barred = token && judgeZone(token, apex.value);
  if (barred) return refuse(barred);
  const serialType = settings.serialType ?? "numeric";
  if (fields.zone) {
    if (fields.rrsets && fields.rrsets.length > 0) return refuse(unacceptable("pdns-zone-mixed"));
    const place = { apex: apex.value, domain: fields.name, bounds: ZONE_FILE_BOUNDS };
    const added = await readNewZone(fields.zone, place);
    return added.ok ? ok({ added: { ...added.value, serialType }, comments: [] }) : added;
  }
  return planOfRrsets(apex.value, fields, { serialType, now });
}

async function planOfRrsets(
  apex: DomainName,
  fields: CreationFields,
  { serialType, now }: { readonly serialType: NewZone["serialType"]; readonly now: Date },
): Promise<Result<PlannedZone, Refusal>> {
  const read = readWhole(fields.rrsets ?? [], apex, now);
  if (!read.ok) return read;
  const nameservers = readNameservers(fields.nameservers ?? [], apex);
  if (!nameservers.ok) return nameservers;
  const isNs = ({ owner, type }: ResourceRecord) => type === TYPE.NS && owner.key === apex.key;
  const hasNs = read.value.records.some(isNs);
  if (hasNs && nameservers.value.length > 0) return refuse(unacceptable("pdns-nameservers-mixed"));
  if (!hasNs && nameservers.value.length === 0) return refuse(unacceptable("pdns-no-nameservers"));
  const records = [...nameservers.value, ...read.value.records];
  // Programs send 0, or some number, whatever the serial is to be made of.
  const given = initialSerial(serialType, now, fields.serial);
  const serial = given.ok ? given : initialSerial(serialType, now);
  if (!serial.ok) return refuse(unacceptable(serial.error));
  const made = defaultSoa(apex, records.find(isNs)!, serial.value);
  const { soa, ttl } = read.value.soa ?? { soa: made, ttl: DEFAULT_TTL };
  const checked = await checkRecords(apex, records, soa);
  if (!checked.ok) return checked;
  const added = { apex, domain: fields.name, serialType, soa, ttl, records };
  return ok({ added, comments: read.value.comments });
}

function readNameservers(names: readonly string[], apex: DomainName): Result<ResourceRecord[], Refusal> {
  const records: ResourceRecord[] = [];
  for (const text of names) {
    const name = parseDomainName(text);
    if (!text.endsWith(".") || !name.ok) return refuse(unacceptable("pdns-nameserver", { name: text }));
    records.push({ owner: apex, type: TYPE.NS, ttl: DEFAULT_TTL, rdata: name.value.wire });
  }
  return ok(records);
}

/** The first name server for the primary, and `hostmaster` in the zone for whom to write to (RFC 2142 §7). */
function defaultSoa(apex: DomainName, { rdata }: ResourceRecord, serial: number): NewZone["soa"] {
  const mname = domainNameFromWire(rdata);
  const rname = parseDomainName("hostmaster", apex);
  return { mname: mname.ok ? mname.value : apex, rname: rname.ok ? rname.value : apex, serial, ...DEFAULT_TIMES };
}

/** Whose the zone is to be: the account's company, else the key's, else the only one that the reseller has. */
async function companyOf(
  { db }: DnsApiContext,
  caller: DnsCaller,
  account: string | undefined,
): Promise<Result<string, Refusal>> {
  if (caller.mode === "company") {
    const isOwn = !account || account.toLowerCase() === caller.crmId;
    return isOwn ? ok(caller.crmId) : refuse(unacceptable("pdns-account-other", { account: `${account}` }));
  }
  if (account) return ok(account);
  const companies = await listCompanies(db, caller.resellerId);
  const [only, another] = companies;
  if (only && !another) return ok(only.crmId);
  return refuse(unacceptable("pdns-account", { companies: companies.length }));
}
