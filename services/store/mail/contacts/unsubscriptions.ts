import { BROUGHT_IN, OWN_UNSUBSCRIPTION } from "../../../core/mail/suppression.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";
import type { ContactOfInstance } from "./contacts.ts";

/** SQL of what the newest event of a `contact` of the instance $1 says, among some. @param which SQL over `e` */
export function newestDetail(which: string): string {
  return `select e.at, e.detail from events e
    where e.contact_id = contact.id and e.instance_id = $1::bigint and ${which} order by e.at desc, e.id desc limit 1`;
}

/** SQL: an event `e` of an unsubscription from everything. */
export const OF_EVERYTHING = `e.kind = ${EVENT_KINDS.unsubscribed} and e.detail ->> 'reason' in ('${BROUGHT_IN}', '${OWN_UNSUBSCRIPTION}')`;

/** SQL: a `contact` of the instance $1 that unsubscribed from everything was brought in so, and its person has not said it since. */
const IS_BROUGHT_IN = `coalesce((select why.detail ->> 'reason' from (${newestDetail(OF_EVERYTHING)}) as why), '') = '${BROUGHT_IN}'`;

/** @returns whether it was done now; false also for a contact or campaign that the instance does not have */
export async function addUnsubscription(
  transaction: Transaction,
  { instanceId, contactId, campaignNumid, at }: Unsubscription,
): Promise<boolean> {
  const rows = await queryRows(
    transaction,
    `insert into campaign_unsubscriptions (instance_id, contact_id, campaign_numid, at)
     select $2, contacts.id, campaigns.numid, $1 from contacts join campaigns on campaigns.instance_id = $2
     where contacts.instance_id = $2 and contacts.id = $3 and campaigns.numid = $4
     on conflict do nothing returning 1`,
    [at, instanceId, contactId, campaignNumid],
  );
  if (rows.length === 0) {
    // Of who was brought in as unsubscribed from everything, the person's own word is kept.
    const own = await queryRows(
      transaction,
      `update campaign_unsubscriptions as unsubscription set at = $2 from contacts as contact
       where contact.instance_id = $1::bigint and contact.id = $3 and unsubscription.instance_id = $1::bigint
         and unsubscription.contact_id = contact.id and unsubscription.campaign_numid = $4
         and unsubscription.at = contact.unsubscribed_at and ${IS_BROUGHT_IN} returning 1`,
      [instanceId, at, contactId, campaignNumid],
    );
    if (own.length === 0) return false;
  }
  await transaction("contacts")
    .where({ instance_id: instanceId, id: contactId })
    .update({ last_operation: "unsubscribed", updated_at: transaction.fn.now() });
  return true;
}

/** A contact that takes itself off a campaign's recipients. */
export interface Unsubscription {
  readonly instanceId: number;
  readonly contactId: number;
  readonly campaignNumid: number;
  readonly at: Date;
}

/** Whether a contact that unsubscribed from everything was brought in so, and its person has not said it since. */
export async function isUnsubscriptionBroughtIn(db: Db, { instanceId, id }: ContactOfInstance): Promise<boolean> {
  const rows = await queryRows(
    db,
    `select 1 from contacts as contact where instance_id = $1::bigint and id = $2 and unsubscribed_at is not null
       and ${IS_BROUGHT_IN}`,
    [instanceId, id],
  );
  return rows.length > 0;
}

/** Ends an unsubscription from everything. What the person left of single campaigns stays. */
export async function endUnsubscription(
  transaction: Transaction,
  { instanceId, id }: ContactOfInstance,
): Promise<void> {
  await queryRows(
    transaction,
    `delete from campaign_unsubscriptions as unsubscription using contacts as contact
     where contact.instance_id = $1::bigint and contact.id = $2 and unsubscription.instance_id = $1::bigint
       and unsubscription.contact_id = $2 and unsubscription.at = contact.unsubscribed_at`,
    [instanceId, id],
  );
  await transaction("contacts")
    .where({ instance_id: instanceId, id })
    .update({ unsubscribed_at: null, last_operation: "modified", updated_at: transaction.fn.now() });
}
