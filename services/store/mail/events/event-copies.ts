import { addressKeyOf, type EmailAddress } from "../../../core/mail/address.ts";
import type { ContactEvent } from "../../../core/mail/contact.ts";
import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import { CONTACT_EVENT_COLUMNS, type ContactEventRow, toContactEvent } from "./event-pages.ts";

/** The events of copies to a local part, of $2: those that have an index. */
export const OF_COPIES = "events.contact_id is null and split_part(events.email, '@', 1) = $2";

/** Copies have no contact: their events name the address, with whatever labels it was given. */
export async function findCopySpellings(db: Db, instanceId: number, address: EmailAddress): Promise<string[]> {
  const rows = await queryRows<{ email: string }>(
    db,
    `select distinct email from events where instance_id = $1 and ${OF_COPIES}`,
    [instanceId, address.local],
  );
  return rows.map(({ email }) => email).filter((email) => addressKeyOf(email) === address.key);
}

/** All events of copies to an address, oldest first. */
export async function listCopyEvents(db: Db, instanceId: number, address: EmailAddress): Promise<ContactEvent[]> {
  const spellings = await findCopySpellings(db, instanceId, address);
  if (spellings.length === 0) return [];
  const rows = await queryRows<ContactEventRow>(
    db,
    `select ${CONTACT_EVENT_COLUMNS}
     from events left join campaigns
       on campaigns.instance_id = events.instance_id and campaigns.numid = events.campaign_numid
     where events.instance_id = $1 and ${OF_COPIES} and events.email = any($3)
     order by events.at, events.id`,
    [instanceId, address.local, spellings],
  );
  return rows.map(toContactEvent);
}
