import { z } from "zod";
import { coversZone } from "../../../core/dns/access-policy.ts";
import { parseDomainName } from "../../../core/dns/name.ts";
import { TYPE, typeCode } from "../../../core/dns/rr-types.ts";
import { judgeRrset, judgeVerb, mayRead, type Token } from "../../../core/dns/token.ts";
import { type Refusal, unacceptable } from "../../../core/refusal.ts";
import { ok, type Result, refuse } from "../../../core/result.ts";
import type { ZoneTarget } from "../../../operations/dns/zone-changes.ts";
import { deleteZone } from "../../../operations/dns/zone-deletion.ts";
import { replaceRecords } from "../../../operations/dns/zone-files.ts";
import { changeRrsets } from "../../../operations/dns/zone-records.ts";
import { enableSigning } from "../../../operations/dns/zone-signing-switch.ts";
import { RawReply, type Sharer } from "../../../platform/http/endpoint.ts";
import { jsonArray, replyJson } from "../../../platform/http/streamed-json.ts";
import type { Db } from "../../../platform/postgres/db.ts";
import type { DnsCaller } from "../../../store/dns/dns-callers.ts";
import { readSigning } from "../../../store/dns/dnssec-keys.ts";
import {
  type CommentChange,
  findPowerdnsZone,
  type PowerdnsZone,
  readComments,
  replaceComments,
  setPowerdnsSettings,
  setSerialType,
} from "../../../store/dns/powerdns-zones.ts";
import { recordPages, wholeRrsets } from "../../../store/dns/records.ts";
import { findZone, type Zone, zoneDoesNotExist } from "../../../store/dns/zones.ts";
import { scopeOf } from "../../caller.ts";
import { admitJson, type DnsApiContext, dnsEndpoint, type MakeEndpoints } from "../../context.ts";
import { askParentBefore, changeSigningOf, stopSigning } from "../../signing-changes.ts";
import { replyFromZone } from "../../zone-reply.ts";
import { changeAndAnnounce, zoneTarget } from "../../zone-target.ts";
import { judgeComments } from "../comments.ts";
import { type CreationFields, createPowerdnsZone, creationFields } from "../create-zone.ts";
import { type ReadRrsets, readChanges, readWhole, rrsetFields } from "../read-rrsets.ts";
import {
  canonical,
  commentsByRrset,
  contentOf,
  listedZoneJson,
  NOTHING,
  type RrsetJson,
  rrsetsOf,
  showListedZone,
  showZone,
  soaOfZone,
  zoneJson,
  zoneParam,
} from "../zone-json.ts";
import { zonePages } from "../zone-pages.ts";
import { noMeaning, readSettings, settingsFields } from "../zone-settings.ts";

/** Zones that one statement of a list reads. */
const LIST_PAGE = 2_000;

const truth = z.enum(["true", "false"]);

/** Zones and their RRsets. */
export const makePowerdnsZoneEndpoints: MakeEndpoints = (context) => [
  ...listing(context),
  ...reading(context),
  ...making(context),
  ...changing(context),
];

const listing: MakeEndpoints = ({ db }) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/zones",
    summary: "List zones; with zone one of them",
    fields: z.object({ zone: z.string().optional(), dnssec: truth.optional() }),
    reply: z.array(listedZoneJson),
    act: async ({ caller, sharer, fields }) => {
      const withDnssec = fields.dnssec !== "false";
      const apex = fields.zone === undefined ? undefined : parseDomainName(fields.zone);
      if (apex && !apex.ok) return ok([]);
      if (apex) {
        const found = await findPowerdnsZone(db, scopeOf(caller), apex.value);
        const isCovered = !caller.token || coversZone(caller.token.policy, apex.value);
        return ok(found && isCovered ? [showListedZone(found, withDnssec)] : []);
      }
      const list = () =>
        jsonArray(zonePages(db, caller, { limit: LIST_PAGE }), (zone) => showListedZone(zone, withDnssec));
      return replyJson(list, sharer, "memory");
    },
  }),
];

const zoneQuery = z.object({
  rrsets: z.string().optional(),
  rrset_name: z.string().optional(),
  rrset_type: z.string().optional(),
  include_disabled: z.string().optional(),
});
type ZoneQuery = z.output<typeof zoneQuery>;

const reading: MakeEndpoints = ({ db }) => [
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/zones/:zone_id",
    summary: "A zone with its RRsets; rrsets=false without, rrset_name and rrset_type some of them",
    params: zoneParam,
    fields: zoneQuery,
    reply: zoneJson,
    act: async ({ caller, sharer, params: { zone_id: domain }, fields }) => {
      const wrong = checkTruth("rrsets", fields.rrsets) ?? checkTruth("include_disabled", fields.include_disabled);
      if (wrong) return refuse(wrong);
      return showWhole(db, caller, { domain, sharer, fields });
    },
  }),
  dnsEndpoint("read_all", {
    method: "GET",
    path: "/localhost/zones/:zone_id/export",
    summary: "The zone as a master file; as JSON where the caller accepts that",
    params: zoneParam,
    reply: z.string(),
    replyType: "text/plain",
    jsonReply: z.object({ zone: z.string() }),
    act: async ({ caller, sharer, params: { zone_id: domain }, headers }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const { scope, apex } = target.value;
      const isJson = headers.accept?.includes("application/json") ?? false;
      const contentType = isJson ? "application/json" : "text/plain";
      return replyFromZone(db, contentType, { sharer, domain }, async function* (snapshot) {
        const zone = await findZone(snapshot, scope, apex);
        if (zone) yield* isJson ? exportJson(snapshot, zone) : exportLines(snapshot, zone);
      });
    },
  }),
];

function checkTruth(name: string, value: string | undefined): Refusal | undefined {
  if (value === undefined || value === "true" || value === "false") return undefined;
  return unacceptable("pdns-parameter", { name, value: value.slice(0, 40) });
}

async function* exportJson(snapshot: Db, zone: Zone): AsyncGenerator<string> {
  yield '{"zone":"';
  for await (const lines of exportLines(snapshot, zone)) yield JSON.stringify(lines).slice(1, -1);
  yield '"}';
}

async function* exportLines(snapshot: Db, zone: Zone): AsyncGenerator<string> {
  const line = (record: Parameters<typeof contentOf>[0]) => {
    const [rrset] = rrsetsOf([record], new Map());
    return `${rrset!.name}\t${record.ttl}\tIN\t${rrset!.type}\t${contentOf(record)}\n`;
  };
  yield line(soaOfZone({ zone }));
  for await (const page of recordPages(snapshot, zone.id)) yield page.map(line).join("");
}

/** A zone as it is: a large one piece by piece. */
async function showWhole(
  db: Db,
  caller: DnsCaller,
  { domain, sharer, fields }: { readonly domain: string; readonly sharer: Sharer; readonly fields: ZoneQuery },
): Promise<Result<RawReply, Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const { scope, apex } = target.value;
  return replyFromZone(db, "application/json", { sharer, domain }, async function* (snapshot) {
    const found = await findPowerdnsZone(snapshot, scope, apex);
    if (!found) return;
    const denial = found.zone.signed ? (await readSigning(snapshot, found.zone.id))?.denial : undefined;
    const head = JSON.stringify(showZone(found, denial));
    if (fields.rrsets === "false") return yield head;
    let separator = `${head.slice(0, -1)},"rrsets":[`;
    for await (const rrsets of rrsetPages(snapshot, found, { fields, token: caller.token })) {
      if (rrsets.length === 0) continue;
      yield separator + rrsets.map((rrset) => JSON.stringify(rrset)).join(",");
      separator = ",";
    }
    yield separator === "," ? "]}" : `${separator}]}`;
  });
}

/** RRsets of a zone that are asked for and that a token may read, the SOA first. */
async function* rrsetPages(
  snapshot: Db,
  found: PowerdnsZone,
  { fields, token }: { readonly fields: ZoneQuery; readonly token: Token | undefined },
): AsyncGenerator<RrsetJson[]> {
  const { zone } = found;
  const comments = commentsByRrset(await readComments(snapshot, zone.id));
  const name = fields.rrset_name === undefined ? undefined : parseDomainName(fields.rrset_name);
  if (name && !name.ok) return;
  const type = fields.rrset_type === undefined ? undefined : (typeCode(fields.rrset_type.toUpperCase()) ?? -1);
  const isAsked = (record: ReturnType<typeof soaOfZone>) =>
    (!name || record.owner.key === name.value.key) &&
    (type === undefined || record.type === type) &&
    mayRead(token, record);
  yield rrsetsOf([soaOfZone(found)].filter(isAsked), comments);
  const pages = recordPages(snapshot, zone.id, name?.value);
  for await (const page of wholeRrsets(pages)) yield rrsetsOf(page.filter(isAsked), comments);
}

const making: MakeEndpoints = (context) => [
  dnsEndpoint("zone_create", {
    method: "POST",
    path: "/localhost/zones",
    summary: "Create a zone of nameservers, of RRsets, or of a master file",
    fields: creationFields.extend({
      rrsets: z
        .union([z.array(rrsetFields), z.string()])
        .nullable()
        .optional(),
    }),
    admit: admitJson(context),
    queryFields: ["rrsets"],
    reply: zoneJson,
    replyStatus: 201,
    act: async ({ caller, sharer, fields }) => {
      // The same word stands in the query string for whether RRsets are shown.
      const shown = typeof fields.rrsets === "string" ? fields.rrsets : undefined;
      const rrsets = typeof fields.rrsets === "string" ? undefined : fields.rrsets;
      const barred = caller.token && fields.dnssec && judgeVerb(caller.token, "sign");
      if (barred) return refuse(barred);
      const created = await createPowerdnsZone(context, caller, { ...fields, rrsets } satisfies CreationFields);
      if (!created.ok) return created;
      const domain = canonical(created.value.apex);
      if (fields.dnssec) {
        const signed = await setSigned(context, caller, domain, { isSigned: true, denial: created.value.denial });
        if (!signed.ok) {
          // Not one transaction: others would wait for the row of the reseller's quotas until all is signed.
          await removeZone(context, caller, domain);
          return signed;
        }
      }
      return showWhole(context.db, caller, { domain, sharer, fields: { rrsets: shown } });
    },
  }),
  dnsEndpoint("zone_delete", {
    method: "DELETE",
    path: "/localhost/zones/:zone_id",
    summary: "Delete a zone with all that it has",
    params: zoneParam,
    ...NOTHING,
    act: async ({ caller, params: { zone_id: domain } }) => {
      const deleted = await removeZone(context, caller, domain);
      if (!deleted.ok) return deleted;
      return ok(undefined);
    },
  }),
];

async function removeZone(
  { db, keyRing, clock, announcer }: DnsApiContext,
  caller: DnsCaller,
  domain: string,
): Promise<Result<void, Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const deleted = await deleteZone(db, { ...target.value, signer: { keyRing, clock } });
  if (!deleted.ok) return deleted;
  announcer.announce([...deleted.value.zoneIds, ...deleted.value.parentIds]);
  return ok(undefined);
}

const changing: MakeEndpoints = (context) => [
  dnsEndpoint("records", {
    method: "PATCH",
    path: "/localhost/zones/:zone_id",
    summary: "Change RRsets, all or none: REPLACE, EXTEND, PRUNE, DELETE",
    params: zoneParam,
    fields: z.object({ rrsets: z.array(rrsetFields) }),
    admit: admitJson(context),
    ...NOTHING,
    act: async ({ caller, params: { zone_id: domain }, fields }) => {
      const target = zoneTarget(caller, domain);
      if (!target.ok) return target;
      const now = new Date(context.clock.nowMs());
      const read = readChanges(fields.rrsets, target.value.apex, now);
      if (!read.ok) return read;
      const before = await findZone(context.db, target.value.scope, target.value.apex);
      if (!before) return refuse(zoneDoesNotExist(domain));
      const barred = await judgeComments(context.db, caller.token, read.value.comments, before.id);
      if (barred) return refuse(barred);
      const changed = await changeAndAnnounce(context, caller, domain, (whole) =>
        changeRrsets(context.db, withComments(whole, commentsAfter(read.value)), read.value, now),
      );
      if (!changed.ok) return changed;
      return ok(
        new RawReply("application/json", "", 200, {
          "X-PDNS-Old-Serial": String(before.soa.serial),
          "X-PDNS-New-Serial": String(changed.value.zone.soa.serial),
        }),
      );
    },
  }),
  dnsEndpoint("records", {
    method: "PUT",
    path: "/localhost/zones/:zone_id",
    summary: "Set what is kept with a zone, whether it is signed, or all of its RRsets",
    params: zoneParam,
    fields: putFields,
    admit: admitJson(context),
    ...NOTHING,
    act: async ({ caller, params: { zone_id: domain }, fields }) => {
      const put = await putZone(context, caller, domain, fields);
      return put.ok ? ok(undefined) : put;
    },
  }),
];

/** What becomes of remarks by changes of RRsets: one that is deleted takes its own along. */
function commentsAfter({ changes, comments }: ReadRrsets): readonly CommentChange[] {
  const deleted = changes.filter(({ verb }) => verb === "delete");
  return [...deleted.map(({ owner, type }) => ({ owner, type, comments: [] })), ...comments];
}

/** A zone whose change is to put remarks in place as well. */
function withComments<Target extends ZoneTarget>(target: Target, comments: readonly CommentChange[]): Target {
  if (comments.length === 0) return target;
  return { ...target, alsoWrite: (db, zoneId) => replaceComments(db, zoneId, comments) };
}

/** What programs send of a zone that they were shown: what is so already asks for nothing. */
const putFields = settingsFields.extend({
  rrsets: z.array(rrsetFields).nullable().optional(),
  name: z.string().nullable().optional(),
  nameservers: z.array(z.string()).nullable().optional(),
});
type PutFields = z.output<typeof putFields>;

function findUnchangeable({ name, nameservers }: PutFields, zone: Zone): Refusal | undefined {
  if (name && canonical(zone.apex).toLowerCase() !== `${name.toLowerCase().replace(/\.$/, "")}.`) {
    return noMeaning("name", "a zone keeps its name");
  }
  if (nameservers && nameservers.length > 0) return noMeaning("nameservers", "they are the NS records at the apex");
  return undefined;
}

const NO_SOA = "Must give SOA record for zone when replacing all RR sets";

async function putZone(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  fields: PutFields,
): Promise<Result<void, Refusal>> {
  const target = zoneTarget(caller, domain);
  if (!target.ok) return target;
  const settings = readSettings(fields);
  if (!settings.ok) return settings;
  const { db, clock } = context;
  const zone = await findZone(db, target.value.scope, target.value.apex);
  if (!zone) return refuse(zoneDoesNotExist(domain));
  const unchangeable = findUnchangeable(fields, zone);
  if (unchangeable) return refuse(unchangeable);
  const { account } = fields;
  if (account && account.toLowerCase() !== zone.crmId) return refuse(unacceptable("pdns-account-other", { account }));
  const { kind, soaEditApi, serialType, dnssec, denial } = settings.value;
  const isSigned = dnssec ?? zone.signed;
  if (denial === "nsec3" && !isSigned) return refuse(unacceptable("not-signed", { domain }));
  const setsMore = kind !== undefined || soaEditApi !== undefined;
  const barred = caller.token && setsMore && judgeSettings(caller.token, zone);
  if (barred) return refuse(barred);
  if (fields.rrsets) {
    const now = new Date(clock.nowMs());
    const read = readWhole(fields.rrsets, target.value.apex, now);
    if (read.ok && !read.value.soa) return refuse(unacceptable("as-stated", { text: NO_SOA }));
    if (!read.ok) return read;
    const unwanted = await judgeComments(db, caller.token, read.value.comments, zone.id);
    if (unwanted) return refuse(unwanted);
    const replaced = await changeAndAnnounce(context, caller, domain, (whole) =>
      replaceRecords(db, withComments(whole, read.value.comments), read.value, now),
    );
    if (!replaced.ok) return replaced;
  }
  if (dnssec !== undefined || (denial !== undefined && isSigned)) {
    const signed = await setSigned(context, caller, domain, { isSigned, denial });
    if (!signed.ok) return signed;
  }
  if (setsMore) {
    await setPowerdnsSettings(db, zone.id, { ...(kind && { kind }), ...(soaEditApi !== undefined && { soaEditApi }) });
  }
  if (serialType) await setSerialType(db, zone.id, serialType);
  return ok(undefined);
}

async function setSigned(
  context: DnsApiContext,
  caller: DnsCaller,
  domain: string,
  { isSigned, denial }: { readonly isSigned: boolean; readonly denial: "nsec" | "nsec3" | undefined },
) {
  const barred = caller.token && judgeVerb(caller.token, "sign");
  if (barred) return refuse(barred);
  if (isSigned) {
    return changeSigningOf(context, caller, domain, (target) =>
      enableSigning(context.db, target, { denial, keys: undefined }),
    );
  }
  const lookUpDs = await askParentBefore(context, caller, domain);
  return changeSigningOf(context, caller, domain, (target) => stopSigning(context.db, target, lookUpDs));
}

/** What is kept with a zone is like its SOA: of the whole of it. */
function judgeSettings(token: Token, { apex }: Zone): Refusal | undefined {
  return judgeRrset(token, { owner: apex, type: TYPE.SOA, verb: "modify" });
}
