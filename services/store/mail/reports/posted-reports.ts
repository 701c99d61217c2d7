import { type Db, queryRows } from "../../../platform/postgres/db.ts";
import type { InboundRoom } from "../inbound/inbound.ts";

/**
 * Has a report that came by HTTPS wait for the bounce workers, as one that came by mail does.
 * @param report.octets a message with it
 * @returns false when there is no room
 */
export async function addPostedReport(
  db: Db,
  report: { readonly reportAddress: string; readonly clientAddress: string; readonly octets: Buffer },
  room: InboundRoom,
): Promise<boolean> {
  const added = await queryRows(
    db,
    `insert into inbound_messages (feedback_address, is_report, mail_from, client_address, octets)
     select $1, true, '', $2, $3
      from (select count(*) as messages, coalesce(sum(length(octets)), 0) as octets from inbound_messages
             where state in ('waiting', 'leased') and is_report) waiting
      where messages < $4 and octets < $5
     returning id`,
    [report.reportAddress, report.clientAddress, report.octets, room.messages, room.octets],
  );
  return added.length > 0;
}
