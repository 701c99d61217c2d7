import { z } from "zod";
import type { DomainName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { initialSerial } from "../../core/dns/serial.ts";
import type { SoaRdata } from "../../core/dns/soa.ts";
import { isForZone, judgeZone, type Token } from "../../core/dns/token.ts";
import { checkZoneName } from "../../core/dns/zone-checks.ts";
import { findWarnings } from "../../core/dns/zone-warnings.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { Sentence } from "../../core/sentences.ts";
import { createZone, type NewZone } from "../../operations/dns/zone-creation.ts";
import { deleteZone } from "../../operations/dns/zone-deletion.ts";
import { checkSoaNames } from "../../operations/dns/zone-soa.ts";
import type { RawReply } from "../../platform/http/endpoint.ts";
import { streamedReply } from "../../platform/http/streamed-reply.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { type ListPosition, listPublishedZones, setZoneSuspended } from "../../store/dns/zones.ts";
import { actorOf, scopeOf } from "../caller.ts";
import { type DnsApiContext, type DnsEndpoint, dnsEndpoint, type MakeEndpoints } from "../context.ts";
import { anyCrmId, domainParam, nameText, seconds, serial, warnings, withWarnings } from "../schemas.ts";
import { showSoa, soaReply } from "../soa-json.ts";
import { absoluteName, zoneTarget } from "../zone-target.ts";

/** Zones in one page of the domain list: what is held in memory of it at a time. */
const LIST_PAGE = 10_000;

const newZoneFields = z.object({
  crm_id: anyCrmId,
  mname: nameText,
  rname: nameText,
  refresh: seconds,
  retry: seconds,
  expire: seconds,
  minimum: seconds,
  ttl: seconds,
  serial_type: z.enum(["numeric", "calendar"], "one-of"),
  serial: serial.optional(),
});

const WARNINGS =
  "no NS records of the zone in the closest zone above, where that is signed and the caller's as well; an mname without an address in the zone; a name that begins with *, for which BIND refuses the zone; to the reseller's key also each zone of another company above or below, " +
  "by name where it is the reseller's own";

/** One path, one name for its parameter: OpenAPI knows no two that differ in that alone. */
const fqdnParam = z.object({ fqdn: z.string() });

/** Master zones: the list, creation, suspension, deletion. */
export const makeZoneEndpoints: MakeEndpoints = (context) => {
  const { db, keyRing, clock, announcer } = context;
  return [
    dnsEndpoint("read", {
      method: "GET",
      path: "/domain_list",
      summary: "List active zones, in canonical order",
      reply: z.object({
        domain_list: z.array(z.object({ domain: z.string(), crm_id: z.string(), reverse: z.boolean() })),
      }),
      act: async ({ caller, sharer }) => {
        const makePieces = () => writeDomainList(db, { scope: scopeOf(caller), token: caller.token });
        const reply = await streamedReply("application/json", makePieces, { sharer, holds: "page" });
        // There is always a piece.
        return reply.ok ? ok(reply.value as RawReply) : reply;
      },
    }),
    dnsEndpoint("zone_create", {
      method: "POST",
      path: "/master_zone/:fqdn",
      summary:
        "Create a master zone, with its SOA and an NS record for mname. Duplicated is a name that is a zone, that lies " +
        "below another reseller's, and to a company's key one above or below a zone of another company. One label and " +
        "public suffixes need the operator's leave",
      params: fqdnParam,
      fields: newZoneFields,
      reply: soaReply.extend({ warnings: warnings.meta({ description: WARNINGS }) }),
      act: async ({ caller, params, fields, headers }) => {
        const planned = planZone(caller, params.fqdn, fields, new Date(clock.nowMs()));
        if (!planned.ok) return planned;
        const owner = { ...scopeOf(caller), crmId: fields.crm_id };
        const created = await createZone(db, owner, planned.value, actorOf(caller));
        if (!created.ok) return created;
        const { zone, warnings: ofPlace } = created.value;
        announcer.announce([zone.id]);
        return ok({ ...showSoa(zone), ...withWarnings([...ofPlace, ...warningsOf(planned.value)], headers) });
      },
    }),
    suspensionEndpoint(context, "/suspend_zone/:domain", "Suspend a zone: it is no longer published", true),
    suspensionEndpoint(context, "/resume_zone/:domain", "Resume a zone", false),
    dnsEndpoint("zone_delete", {
      method: "DELETE",
      path: "/master_zone/:fqdn",
      summary: "Delete a zone with all its records",
      params: fqdnParam,
      reply: z.object({ msg: z.literal("deleted") }),
      act: async ({ caller, params: { fqdn: domain } }) => {
        const target = zoneTarget(caller, domain);
        if (!target.ok) return target;
        const deleted = await deleteZone(db, { ...target.value, signer: { keyRing, clock } });
        if (!deleted.ok) return deleted;
        announcer.announce([...deleted.value.zoneIds, ...deleted.value.parentIds]);
        return ok({ msg: "deleted" as const });
      },
    }),
  ];
};

function suspensionEndpoint(
  { db, announcer }: DnsApiContext,
  path: string,
  summary: string,
  suspended: boolean,
): DnsEndpoint {
  return dnsEndpoint("zone_delete", {
    method: "PUT",
    path,
    summary,
    params: domainParam,
    fields: z.object({ crm_id: anyCrmId }),
    reply: z.object({ domain: z.string(), suspended: z.boolean() }),
    act: async ({ caller, params, fields }) => {
      const target = zoneTarget(caller, params.domain);
      if (!target.ok) return target;
      const set = await setZoneSuspended(db, { ...target.value, crmId: fields.crm_id }, suspended);
      if (!set.ok) return set;
      if (set.value.changed) announcer.announce([set.value.zone.id]);
      return ok({ domain: set.value.zone.name, suspended });
    },
  });
}

/** Checks all that can be checked without looking at other zones. */
function planZone(
  { token }: DnsCaller,
  fqdn: string,
  fields: z.output<typeof newZoneFields>,
  now: Date,
): Result<NewZone, Refusal> {
  const apex = absoluteName("fqdn", fqdn);
  if (!apex.ok) return apex;
  const barred = token && judgeZone(token, apex.value);
  if (barred) return refuse(barred);
  const lawful = checkZoneName(apex.value);
  if (!lawful.ok) return refuse(invalidField("fqdn", lawful.error));
  const mname = absoluteName("mname", fields.mname);
  if (!mname.ok) return mname;
  const rname = absoluteName("rname", fields.rname);
  if (!rname.ok) return rname;
  const names = { mname: mname.value, rname: rname.value };
  const problem = checkSoaNames(names);
  if (problem) return refuse(problem);
  const first = initialSerial(fields.serial_type, now, fields.serial);
  if (!first.ok) return refuse(invalidField("serial", first.error));
  const { refresh, retry, expire, minimum, ttl, serial_type: serialType } = fields;
  const soa: SoaRdata = { ...names, serial: first.value, refresh, retry, expire, minimum };
  const ns: ResourceRecord = { owner: apex.value, type: TYPE.NS, ttl, rdata: mname.value.wire };
  return ok({ apex: apex.value, domain: fqdn, serialType, soa, ttl, records: [ns] });
}

function warningsOf({ apex, soa: { mname }, records }: NewZone): Sentence[] {
  const recordsAt = ({ key }: DomainName) => records.filter(({ owner }) => owner.key === key);
  return findWarnings({ apex, changed: records, mname }, { recordsAt, recordsBelow: () => [] });
}

async function* writeDomainList(
  db: Db,
  { scope, token }: { readonly scope: ReturnType<typeof scopeOf>; readonly token: Token | undefined },
): AsyncGenerator<string> {
  let separator = '{"domain_list":[';
  for (let after: ListPosition; ; ) {
    const page: Awaited<ReturnType<typeof listPublishedZones>> = await listPublishedZones(db, scope, LIST_PAGE, after);
    const zones = token ? page.zones.filter(({ name }) => isForZone(token, name)) : page.zones;
    const lines = zones.map(({ name, crmId, reverse }) => JSON.stringify({ domain: name, crm_id: crmId, reverse }));
    if (lines.length > 0) {
      yield separator + lines.join(",");
      separator = ",";
    }
    if (page.next === undefined) break;
    after = page.next;
  }
  yield separator === "," ? "]}" : `${separator}]}`;
}
