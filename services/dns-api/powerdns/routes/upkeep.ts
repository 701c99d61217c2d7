import { z } from "zod";
import { type Refusal, unacceptable } from "../../../core/refusal.ts";
import { ok, type Result, refuse } from "../../../core/result.ts";
import type { DnsCaller } from "../../../store/dns/dns-callers.ts";
import { readSigning } from "../../../store/dns/dnssec-keys.ts";
import { changeMetadata, findPowerdnsZone, type PowerdnsZone } from "../../../store/dns/powerdns-zones.ts";
import { zoneDoesNotExist } from "../../../store/dns/zones.ts";
import { type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../../context.ts";
import { zoneTarget } from "../../zone-target.ts";
import { NOTHING, NSEC3PARAM, zoneParam } from "../zone-json.ts";
import { noMeaning } from "../zone-settings.ts";

const kindParam = zoneParam.extend({ metadata_kind: z.string() });
const metadataJson = z.object({ type: z.literal("Metadata"), kind: z.string(), metadata: z.array(z.string()) });
const values = z.array(z.string().max(4_000)).max(100);
const resultJson = z.object({ result: z.string() });

/** Metadata of zones, and what PowerDNS has to be told to do and happens here by itself. */
export const makePowerdnsUpkeepEndpoints: MakeEndpoints = (context) => [
  ...readingMetadata(context),
  ...changingMetadata(context),
  ...doing(context),
];

const readingMetadata: MakeEndpoints = (context) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/zones/:zone_id/metadata",
    summary: "Metadata of a zone",
    params: zoneParam,
    reply: z.array(metadataJson),
    act: async ({ caller, params }) => {
      const metadata = await readMetadata(context, caller, params.zone_id);
      if (!metadata.ok) return metadata;
      return ok(Object.entries(metadata.value).map(([kind, own]) => show(kind, own)));
    },
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/zones/:zone_id/metadata/:metadata_kind",
    summary: "Metadata of one kind; empty where there is none",
    params: kindParam,
    reply: metadataJson,
    act: async ({ caller, params: { zone_id, metadata_kind: kind } }) => {
      const metadata = await readMetadata(context, caller, zone_id);
      if (!metadata.ok) return metadata;
      return ok(show(kind, Object.hasOwn(metadata.value, kind) ? metadata.value[kind]! : []));
    },
  }),
];

const changingMetadata: MakeEndpoints = (context) => [
  dnsEndpoint("transfer", {
    method: "POST",
    path: "/localhost/zones/:zone_id/metadata",
    summary: "Add metadata of a kind that begins with X-; what has a place of its own is set there",
    params: zoneParam,
    fields: z.object({ kind: z.string(), metadata: values }),
    reply: metadataJson,
    replyStatus: 201,
    act: async ({ caller, params: { zone_id }, fields: { kind, metadata } }) => {
      const kept = await keep(context, caller, { domain: zone_id, kind, change: (before) => [...before, ...metadata] });
      return kept.ok ? ok(show(kind, kept.value)) : kept;
    },
  }),
  dnsEndpoint("transfer", {
    method: "PUT",
    path: "/localhost/zones/:zone_id/metadata/:metadata_kind",
    summary: "Set metadata of a kind that begins with X-",
    params: kindParam,
    fields: z.object({ metadata: values }),
    reply: metadataJson,
    act: async ({ caller, params: { zone_id, metadata_kind: kind }, fields: { metadata } }) => {
      const kept = await keep(context, caller, { domain: zone_id, kind, change: () => metadata });
      return kept.ok ? ok(show(kind, kept.value)) : kept;
    },
  }),
  dnsEndpoint("transfer", {
    method: "DELETE",
    path: "/localhost/zones/:zone_id/metadata/:metadata_kind",
    summary: "Delete metadata of a kind that begins with X-",
    params: kindParam,
    ...NOTHING,
    act: async ({ caller, params: { zone_id, metadata_kind: kind } }) => {
      const kept = await keep(context, caller, { domain: zone_id, kind, change: () => [] });
      return kept.ok ? ok(undefined) : kept;
    },
  }),
];

const doing: MakeEndpoints = (context) => [
  // A change of a record does the same, and programs ask for it after each.
  dnsEndpoint("records", {
    method: "PUT",
    path: "/localhost/zones/:zone_id/notify",
    summary: "Hasten the name servers, which tell the secondaries of every new serial by themselves",
    params: zoneParam,
    reply: resultJson,
    act: async ({ caller, params }) => {
      const found = await find(context, caller, params.zone_id);
      if (!found.ok) return found;
      context.announcer.announce([found.value.zone.id]);
      return ok({ result: "Notification queued" });
    },
  }),
  dnsEndpoint("read", {
    method: "PUT",
    path: "/localhost/zones/:zone_id/rectify",
    summary: "Nothing to do: names are in order as they are stored",
    params: zoneParam,
    reply: resultJson,
    act: async ({ caller, params }) => {
      const found = await find(context, caller, params.zone_id);
      return found.ok ? ok({ result: "Nothing to rectify: zones are in order by themselves" }) : found;
    },
  }),
  dnsEndpoint("transfer", {
    method: "PUT",
    path: "/localhost/zones/:zone_id/axfr-retrieve",
    summary: "Refused: zones are not transferred from elsewhere",
    params: zoneParam,
    fields: z.looseObject({}),
    reply: resultJson,
    act: async ({ caller, params }) => {
      const found = await find(context, caller, params.zone_id);
      return found.ok ? refuse(noMeaning("axfr-retrieve", "the zone's primary is this server")) : found;
    },
  }),
];

/** Of the metadata of a zone together, as JSON. */
const MOST_METADATA_OCTETS = 2 ** 16;

/** Where kinds of metadata that PowerDNS knows are set here. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map(
  Object.entries({
    "ALLOW-AXFR-FROM": "access lists say who may transfer",
    "TSIG-ALLOW-AXFR": "access lists say who may transfer with which key",
    "ALSO-NOTIFY": "access lists say who is told of changes",
    "AXFR-MASTER-TSIG": "zones are not transferred from elsewhere",
    "ALLOW-DNSUPDATE-FROM": "tokens with a TSIG key say who may update, and from where",
    "TSIG-ALLOW-DNSUPDATE": "tokens with a TSIG key say who may update",
    "SOA-EDIT-API": "it is set with the zone: soa_edit_api",
    NSEC3PARAM: "it is set with the zone: nsec3param",
  }),
);

async function find(context: DnsApiContext, caller: DnsCaller, domain: string): Promise<Result<PowerdnsZone, Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const found = await findPowerdnsZone(context.db, target.value.scope, target.value.apex);
  return found ? ok(found) : refuse(zoneDoesNotExist(domain));
}

async function readMetadata(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
): Promise<Result<Readonly<Record<string, readonly string[]>>, Refusal>> {
  const found = await find(context, caller, domain);
  if (!found.ok) return found;
  const { zone, settings } = found.value;
  const isNsec3 = zone.signed && (await readSigning(context.db, zone.id))?.denial === "nsec3";
  return ok({
    ...(settings.soaEditApi === "" ? {} : { "SOA-EDIT-API": [settings.soaEditApi] }),
    ...(isNsec3 ? { NSEC3PARAM: [NSEC3PARAM] } : {}),
    ...settings.metadata,
  });
}

async function keep(
  context: DnsApiContext,
  caller: DnsCaller,
  wanted: {
    readonly domain: string;
    readonly kind: string;
    readonly change: (before: readonly string[]) => readonly string[];
  },
): Promise<Result<readonly string[], Refusal>> {
  const { domain, kind, change } = wanted;
  const found = await find(context, caller, domain);
  if (!found.ok) return found;
  if (!/^X-[A-Za-z0-9-]{1,60}$/.test(kind)) {
    const known = ELSEWHERE.get(kind);
    if (known !== undefined) return refuse(noMeaning(`metadata ${kind}`, known));
    return refuse(
      unacceptable("as-stated", { text: `Unsupported metadata kind '${kind.slice(0, 60)}': X-… is kept as it is` }),
    );
  }
  let values: readonly string[] = [];
  let isTooMuch = false;
  await changeMetadata(context.db, found.value.zone.id, (before) => {
    const { [kind]: own = [], ...others } = before;
    values = change(own);
    const after = values.length > 0 ? { ...others, [kind]: values } : others;
    isTooMuch = Buffer.byteLength(JSON.stringify(after)) > MOST_METADATA_OCTETS;
    return isTooMuch ? before : after;
  });
  return isTooMuch
    ? refuse(unacceptable("pdns-too-much", { field: "metadata", most: MOST_METADATA_OCTETS }))
    : ok(values);
}

function show(kind: string, metadata: readonly string[]): z.input<typeof metadataJson> {
  return { type: "Metadata", kind, metadata: [...metadata] };
}
