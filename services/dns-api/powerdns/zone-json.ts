import { z } from "zod";
import { type DomainName, formatDomainName } from "../../core/dns/name.ts";
import { formatRdata } from "../../core/dns/rdata/rdata.ts";
import { type ResourceRecord, rrsetKey } from "../../core/dns/record.ts";
import { TYPE, typeMnemonic } from "../../core/dns/rr-types.ts";
import { soaRecord } from "../../core/dns/soa.ts";
import { groupBy } from "../../core/groups.ts";
import type { PowerdnsZone, RrsetComment } from "../../store/dns/powerdns-zones.ts";

const recordJson = z.object({ content: z.string(), disabled: z.boolean() });
const commentJson = z.object({ content: z.string(), account: z.string(), modified_at: z.int() });
const rrsetJson = z.object({
  name: z.string(),
  type: z.string(),
  ttl: z.int(),
  records: z.array(recordJson),
  comments: z.array(commentJson),
});
export type RrsetJson = z.input<typeof rrsetJson>;

/** A zone as lists show it. */
export const listedZoneJson = z.object({
  id: z.string(),
  name: z.string(),
  url: z.string(),
  kind: z.string(),
  serial: z.int(),
  notified_serial: z.int(),
  edited_serial: z.int().optional(),
  dnssec: z.boolean().optional(),
  account: z.string().meta({ description: "the crm_id of its company" }),
  masters: z.array(z.string()),
  last_check: z.int(),
  catalog: z.string(),
});

export const zoneJson = listedZoneJson.extend({
  type: z.literal("Zone"),
  soa_edit: z.string(),
  soa_edit_api: z.string(),
  api_rectify: z.boolean(),
  nsec3param: z.string(),
  nsec3narrow: z.boolean(),
  master_tsig_key_ids: z.array(z.string()),
  slave_tsig_key_ids: z.array(z.string()),
  rrsets: z.array(rrsetJson).optional(),
});

/** A path's zone, as the name that its id stands for. */
export const zoneParam = z.object({ zone_id: z.string().transform(nameOfZoneId) });

/** Of operations that answer with nothing. */
export const NOTHING = { reply: z.undefined(), replyStatus: 204 } as const;

/** A name as PowerDNS writes it: in lower case, with the final dot. */
export function canonical(name: DomainName): string {
  return formatDomainName(name).toLowerCase();
}

/** What stands for a zone in paths: its name, with `=XX` for octets that have a meaning there. */
export function zoneId(name: string): string {
  return name.replaceAll(
    /[^A-Za-z0-9._-]/g,
    (octet) => `=${octet.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
}

/** The name that an id stands for. */
function nameOfZoneId(id: string): string {
  return id.replaceAll(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

export function showListedZone({ zone, settings }: PowerdnsZone, withDnssec = true): z.input<typeof listedZoneJson> {
  const name = canonical(zone.apex);
  const { serial } = zone.soa;
  return {
    ...{ id: zoneId(name), name, url: `/api/v1/servers/localhost/zones/${zoneId(name)}`, kind: settings.kind, serial },
    notified_serial: serial,
    ...(withDnssec ? { edited_serial: serial, dnssec: zone.signed } : {}),
    ...{ account: zone.crmId, masters: [], last_check: 0, catalog: "" },
  };
}

/** @param denial how a signed zone denies; its parameters are those of RFC 9276 */
export function showZone(found: PowerdnsZone, denial: "nsec" | "nsec3" | undefined): z.input<typeof zoneJson> {
  return {
    ...showListedZone(found),
    type: "Zone",
    soa_edit: "",
    soa_edit_api: found.settings.soaEditApi,
    api_rectify: true,
    nsec3param: denial === "nsec3" ? NSEC3PARAM : "",
    ...{ nsec3narrow: false, master_tsig_key_ids: [], slave_tsig_key_ids: [] },
  };
}

/** The only parameters that a zone has here: SHA-1, no opt-out, no further iterations, no salt (RFC 9276 §3.1). */
export const NSEC3PARAM = "1 0 0 -";

/** A record's content as PowerDNS writes it, that programs find what they have sent. */
export function contentOf({ type, rdata }: ResourceRecord): string {
  const content = formatRdata(type, rdata);
  if (content.startsWith("\\#") || ENDS_IN_HEX.has(type)) return content.toLowerCase();
  return SPELLINGS[type]?.(content, rdata) ?? content;
}

/** Numbers in CERT, octets in upper case in NID and L64, metres with centimetres in LOC, alpn without and ech with quotes. */
const SPELLINGS: Readonly<Record<number, (content: string, rdata: Uint8Array) => string>> = {
  [TYPE.CERT]: certContent,
  [TYPE.NID]: (content) => content.toUpperCase(),
  [TYPE.L64]: (content) => content.toUpperCase(),
  [TYPE.LOC]: (content) => content.replace(/(-?[\d.]+)m/g, (_, metres) => `${Number(metres).toFixed(2)}m`),
  [TYPE.SVCB]: serviceContent,
  [TYPE.HTTPS]: serviceContent,
};

function serviceContent(content: string): string {
  return content.replace(/ alpn="([\w.,/+-]*)"/, " alpn=$1").replace(/ ech=([\w+/=]+)/, ' ech="$1"');
}

function certContent(content: string, rdata: Uint8Array): string {
  const [, , , ...certificate] = content.split(" ");
  const [certificateType, keyTag] = [(rdata[0]! << 8) | rdata[1]!, (rdata[2]! << 8) | rdata[3]!];
  return [certificateType, keyTag, rdata[4], ...certificate].join(" ");
}

const ENDS_IN_HEX: ReadonlySet<number> = new Set([
  TYPE.DS,
  TYPE.CDS,
  TYPE.DLV,
  TYPE.SSHFP,
  TYPE.TLSA,
  TYPE.SMIMEA,
  TYPE.ZONEMD,
]);

/** Records that come by name as RRsets, those of a name together. */
export function rrsetsOf(
  records: readonly ResourceRecord[],
  comments: ReadonlyMap<string, readonly RrsetComment[]>,
): RrsetJson[] {
  const rrsets = new Map<string, RrsetJson & { readonly records: z.input<typeof recordJson>[] }>();
  for (const record of records) {
    const key = rrsetKey(record.owner, record.type);
    const rrset = rrsets.get(key) ?? {
      ...{ name: canonical(record.owner), type: typeMnemonic(record.type), ttl: record.ttl, records: [] },
      comments: (comments.get(key) ?? []).map(showComment),
    };
    rrset.records.push({ content: contentOf(record), disabled: false });
    rrsets.set(key, rrset);
  }
  for (const { records: own } of rrsets.values()) own.sort((a, b) => (a.content < b.content ? -1 : 1));
  return [...rrsets.values()];
}

/** The remarks of a zone by their RRset. */
export function commentsByRrset(comments: readonly RrsetComment[]): ReadonlyMap<string, readonly RrsetComment[]> {
  return groupBy(comments, ({ owner, type }) => rrsetKey(owner, type));
}

function showComment({ content, account, modifiedAt }: RrsetComment): z.input<typeof commentJson> {
  return { content, account, modified_at: Math.floor(modifiedAt.getTime() / 1000) };
}

/** The SOA record of a zone. */
export function soaOfZone({ zone }: Pick<PowerdnsZone, "zone">): ResourceRecord {
  return soaRecord(zone.apex, zone.soa, zone.ttl);
}
