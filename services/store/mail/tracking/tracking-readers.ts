import type { Place } from "../../../platform/lookups/places.ts";
import { queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";
import type { MachineStretch } from "./touches.ts";

/** With what and where somebody reads; empty where that is not known. */
export interface ReaderTraits {
  readonly device: string;
  readonly deviceSubtypeId: number | null;
  readonly place?: Place | undefined;
}

/** What is kept of a request with its event. */
export interface KeptOfRequest {
  readonly userAgent: string;
  /** The client's address without its last part. */
  readonly network: string;
}

/** Reads once more what was kept of an earlier request. */
export type RecallReader = (kept: KeptOfRequest) => ReaderTraits;

/** How a contact was last seen; null stays as it was. */
export interface LastSeen {
  readonly instanceId: number;
  readonly contactId: number;
  readonly device: string | null;
  readonly deviceSubtypeId: number | null;
  readonly place: Place | null;
}

/** What a machine did that was taken for a person. */
export interface CaughtMachine extends MachineStretch {
  readonly machine: string;
  /** Whether its openings are among what is known to be its own, and not its clicks alone. */
  readonly opens: boolean;
  /** As whom it posed. */
  readonly visitor: ReaderTraits;
}

const UNKNOWN: KeptOfRequest = { userAgent: "", network: "" };
const NOWHERE: Place = { countryCode: "", regionCode: "", city: "" };

/**
 * How contacts were last seen before a machine posed as them: by the last event of a person, or not at all. What the
 * machine did not tell either was not changed by it.
 */
export async function recallReaders(
  transaction: Transaction,
  caught: readonly CaughtMachine[],
  recall: RecallReader,
): Promise<LastSeen[]> {
  const rows = await byInstance(transaction, caught, (own, instanceIds) =>
    queryRows<{ contactId: number; detail: KeptOfRequest | null }>(
      transaction,
      `with caught as materialized (
       select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::boolean[])
         as given (instance_id, contact_id, delivery_id, since, until, opens)
     )
     select whose.contact_id as "contactId", last.detail
     from (select distinct instance_id, contact_id from caught) as whose
     cross join lateral (
       select e.detail from events e
       where e.instance_id = any($10::bigint[]) and e.instance_id = whose.instance_id and e.contact_id = whose.contact_id and e.kind in ($7, $8) and not e.machine
         and not exists (select 1 from caught where caught.delivery_id = e.delivery_id and (e.kind = $9 or caught.opens)
           and e.at between caught.since and caught.until)
       order by e.at desc, e.id desc limit 1
     ) as last`,
      [
        own.map(({ instanceId }) => instanceId),
        own.map(({ contactId }) => contactId),
        own.map(({ deliveryId }) => deliveryId),
        own.map(({ since }) => since.toISOString()),
        own.map(({ until }) => until.toISOString()),
        own.map(({ opens }) => opens),
        EVENT_KINDS.viewed,
        EVENT_KINDS.clicked,
        EVENT_KINDS.clicked,
        instanceIds,
      ],
    ),
  );
  const kept = new Map(rows.map(({ contactId, detail }) => [contactId, detail ?? UNKNOWN]));
  const readers = new Map<number, LastSeen>();
  for (const { instanceId, contactId, visitor } of caught) {
    const { device, deviceSubtypeId, place = NOWHERE } = recall({ ...UNKNOWN, ...kept.get(contactId) });
    readers.set(contactId, {
      instanceId,
      contactId,
      device: visitor.device === "" ? null : device,
      deviceSubtypeId,
      place: visitor.place === undefined ? null : place,
    });
  }
  return [...readers.values()];
}

/** Writes with what and where contacts were last seen. @param seen each contact at most once */
export async function updateReaders(transaction: Transaction, seen: readonly LastSeen[]): Promise<void> {
  await byInstance(transaction, seen, (own, instanceIds) =>
    queryRows(
      transaction,
      `with seen as (
       select contacts.id, given.*
       from unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[])
         as given (instance_id, contact_id, device, subtype, country, region, city)
       join contacts on contacts.instance_id = given.instance_id and contacts.id = given.contact_id
       where contacts.instance_id = any($8::bigint[]) and ((given.device is not null
           and (contacts.device, contacts.device_subtype_id) is distinct from (given.device, given.subtype))
         or (given.country is not null and (country_code, region_code, contacts.city)
           is distinct from (given.country, given.region, given.city)))
       order by contacts.instance_id, contacts.email_key for no key update of contacts
     )
     update contacts set device = coalesce(seen.device, contacts.device),
       device_subtype_id = case when seen.device is null then device_subtype_id else seen.subtype end,
       country_code = coalesce(seen.country, country_code), region_code = coalesce(seen.region, region_code),
       city = coalesce(seen.city, contacts.city)
     from seen where contacts.instance_id = any($8::bigint[]) and contacts.instance_id = seen.instance_id and contacts.id = seen.id`,
      [
        own.map(({ instanceId }) => instanceId),
        own.map(({ contactId }) => contactId),
        own.map(({ device }) => device),
        own.map(({ deviceSubtypeId }) => deviceSubtypeId),
        own.map(({ place }) => place?.countryCode ?? null),
        own.map(({ place }) => place?.regionCode ?? null),
        own.map(({ place }) => place?.city ?? null),
        instanceIds,
      ],
    ),
  );
}
