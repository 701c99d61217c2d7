import { type Db, queryRows } from "../../../platform/postgres/db.ts";

/** What came back about a delivery and was understood: a report, a complaint, an automatic reply. */
export interface ReturnedReport {
  readonly id: number;
  readonly receivedAt: Date;
  /** As `palomar bounce classify` calls it. */
  readonly kind: string;
  /** Empty for <>. */
  readonly mailFrom: string;
  readonly octets: number;
}

/** Two indexes lead from a delivery to its reports. The sample of what nothing followed from is nobody's. */
const ABOUT = "(delivery_id = $1 or about_delivery_id = $1) and state = 'applied' and unexplained is null";
/** Intake takes only so many about one delivery. */
const MOST_LISTED = 100;

/** Oldest first, as far as they are kept. */
export async function listReturnedReports(db: Db, deliveryId: number): Promise<ReturnedReport[]> {
  return queryRows<ReturnedReport>(
    db,
    `select id, received_at as "receivedAt", coalesce(finding->>'kind', '') as kind, mail_from as "mailFrom",
       length(octets) as octets
     from inbound_messages where ${ABOUT} order by id limit ${MOST_LISTED}`,
    [deliveryId],
  );
}

/** The octets of a report about a delivery, as they were stored. */
export async function readReturnedReport(db: Db, deliveryId: number, id: number): Promise<Buffer | undefined> {
  const [row] = await queryRows<{ octets: Buffer }>(
    db,
    `select octets from inbound_messages where ${ABOUT} and id = $2`,
    [deliveryId, id],
  );
  return row?.octets;
}
