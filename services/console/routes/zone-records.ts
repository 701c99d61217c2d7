import { z } from "zod";
import { FOLLOWED_TYPES } from "../../core/dns/follow/follower.ts";
import { formatRelative } from "../../core/dns/name.ts";
import { splitPriority } from "../../core/dns/rdata/rdata.ts";
import { typeCode, typeMnemonic } from "../../core/dns/rr-types.ts";
import type { StoredRecord } from "../../core/dns/zone-edit.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { RecordSearchTurns } from "../../operations/dns/record-search-turns.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readFollowers } from "../../store/dns/followers.ts";
import { type RecordPlace, searchRecords } from "../../store/dns/record-search.ts";
import { countRecordTypes } from "../../store/dns/records.ts";
import { findZone, type Zone } from "../../store/dns/zones.ts";
import { countLeftOut } from "../../store/dns/zones-left-out.ts";
import { type AdminCaller, areaOf, scopeOfManager, visibleZones, zoneSharerOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { readDomainName } from "../domain-name.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit, searchText } from "../schemas.ts";

/** A search ends then with what it has, and goes on where it is asked to. */
const LONGEST_MS = 3_000;

const area = areaOf("reseller", "company");
const zoneParam = z.object({ id: z.string(), domain: z.string() });

/** A zone of any size: its records, found by name or value and by type, page by page; and whether it is published. */
export const makeZoneRecordEndpoints: MakeConsoleEndpoints = (context) => [
  ...search(context, new RecordSearchTurns()),
  ...counts(context),
];

const search = (context: ConsoleContext, turns: RecordSearchTurns): readonly ConsoleEndpoint[] => [
  consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/zones/:domain/records",
    summary:
      "Records by any part of name or value, the SOA apart, in canonical order; a search that takes long ends early, with a `next`",
    authorise: area,
    params: zoneParam,
    fields: z.object({
      search: searchText,
      type: z.string().optional().meta({ description: "only records of this type" }),
      after: z.string().optional().meta({ description: "the `next` of the page before" }),
      limit: pageLimit,
    }),
    reply: z.object({
      records: z.array(
        z.object({
          rr_id: z.int(),
          name: z.string(),
          type: z.string(),
          ttl: z.int(),
          rr_prio: z.string().nullable(),
          value: z.string(),
          derived: z.literal(true).optional().meta({ description: "of an alias or a pool" }),
        }),
      ),
      next: z.string().nullable(),
    }),
    act: async ({ caller, params, fields }) => {
      const zone = await visibleZone(context, caller, params.id, params.domain);
      if (!zone.ok) return zone;
      const type = fields.type === undefined ? undefined : typeCode(fields.type);
      if (fields.type !== undefined && type === undefined) {
        return refuse(invalidField("type", "record-type-unknown", { text: fields.type.slice(0, 40) }));
      }
      const after = fields.after === undefined ? undefined : readPlace(fields.after);
      if (fields.after !== undefined && !after) return refuse(invalidField("after", "no-next"));
      const look = async () =>
        ok(
          await searchRecords(context.db, zone.value, {
            ...{ text: fields.search, valueOf: ({ type, rdata }) => splitPriority(type, rdata).value },
            ...{ type, after, limit: fields.limit, endsAtMs: performance.now() + LONGEST_MS },
          }),
        );
      // Without a wish the next page is where the one before ended.
      const isPlain = fields.search.trim() === "" && type === undefined;
      const searched = await (isPlain ? look() : turns.run(zoneSharerOf(caller, params.id), look));
      if (!searched.ok) return searched;
      const found = searched.value;
      const derived = await derivedAmong(context.db, zone.value, found.records);
      return ok({
        records: found.records.map((record) => {
          const shown = showRecord(record, zone.value);
          return derived.has(record.id) ? { ...shown, derived: true as const } : shown;
        }),
        next: found.next ? showPlace(found.next) : null,
      });
    },
  }),
];

function showRecord({ id, owner, type, ttl, rdata }: StoredRecord, { apex }: Zone) {
  const { prio, value } = splitPriority(type, rdata);
  return { rr_id: id, name: formatRelative(owner, apex), type: typeMnemonic(type), ttl, rr_prio: prio, value };
}

/** The ids of those records that an alias or a pool derives. */
async function derivedAmong(db: Db, zone: Zone, records: readonly StoredRecord[]): Promise<ReadonlySet<number>> {
  const addresses = zone.hasFollowers ? records.filter(({ type }) => FOLLOWED_TYPES.includes(type)) : [];
  const followers = await readFollowers(db, zone.id, { names: addresses.map(({ owner }) => owner) });
  const owners = new Set(followers.map(({ owner }) => owner.key));
  return new Set(addresses.filter(({ owner }) => owners.has(owner.key)).map(({ id }) => id));
}

/** Numbers about a whole zone. */
const counts: MakeConsoleEndpoints = (context) => [
  consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/zones/:domain/record_types",
    summary: "How many records of each type a zone has, its SOA apart",
    authorise: area,
    params: zoneParam,
    reply: z.object({ types: z.array(z.object({ type: z.string(), records: z.int() })) }),
    act: async ({ caller, params }) => {
      const zone = await visibleZone(context, caller, params.id, params.domain);
      if (!zone.ok) return zone;
      const counted = await countRecordTypes(context.db, zone.value.id);
      return ok({ types: counted.map(({ type, records }) => ({ type: typeMnemonic(type), records })) });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/resellers/:id/zones/:domain/publication",
    summary: "On how many name servers a zone is not published as it is, because it does not fit into their memory",
    authorise: area,
    params: zoneParam,
    reply: z.object({
      withheld: z.int().meta({ description: "name servers that do not answer for it" }),
      outdated: z.int().meta({ description: "name servers that answer with its last version that fitted" }),
    }),
    act: async ({ caller, params }) => {
      const zone = await visibleZone(context, caller, params.id, params.domain);
      return zone.ok ? ok(await countLeftOut(context.db, zone.value.id)) : zone;
    },
  }),
];

/** The zone of a path, when it is the caller's to manage; others are told what strangers are. */
async function visibleZone(
  { db }: Pick<ConsoleContext, "db">,
  caller: AdminCaller,
  reseller: string,
  domain: string,
): Promise<Result<Zone, Refusal>> {
  const visible = await visibleZones(db, caller, reseller);
  if (!visible.ok) return visible;
  const apex = readDomainName("domain", domain);
  if (!apex.ok) return apex;
  const scope = await scopeOfManager(db, visible.value);
  const zone = scope && (await findZone(db, scope, apex.value));
  return zone ? ok(zone) : refuse(problem("zone-unknown", { domain }));
}

function showPlace({ ownerKey, type, id }: RecordPlace): string {
  return `${type}.${id}.${Buffer.from(ownerKey).toString("base64url")}`;
}

function readPlace(text: string): RecordPlace | undefined {
  const [, type, id, key] = /^(\d{1,5})\.(\d{1,15})\.([\w-]{0,700})$/.exec(text) ?? [];
  if (type === undefined || id === undefined || key === undefined) return undefined;
  return { ownerKey: Buffer.from(key, "base64url"), type: Number(type), id: Number(id) };
}
