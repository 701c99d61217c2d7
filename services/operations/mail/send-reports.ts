import { randomBytes, randomUUID } from "node:crypto";
import { type EmailAddress, validateAddress } from "../../core/mail/address.ts";
import { composeReport } from "../../core/mail/delivery-report.ts";
import type { Notification } from "../../core/mail/dsn-parameters.ts";
import { fillPlaces } from "../../core/mail/message-places.ts";
import { plainValues } from "../../core/mail/tracking-tokens.ts";
import { type Db, isAboutData, type Transaction } from "../../platform/postgres/db.ts";
import { allowedDomains } from "../../store/mail/instances/instances.ts";
import {
  countReport,
  type DueGroup,
  endReports,
  putOffReports,
  readReturned,
  takeDueGroup,
} from "../../store/mail/queue/delivery-reports.ts";
import { enqueue } from "../../store/mail/queue/queue.ts";
import { addMessages } from "../../store/mail/sends/messages.ts";
import { addBatches } from "../../store/mail/sends/open-batches.ts";
import { inTransaction } from "../../store/transactions.ts";

/** How senders are told (config/delivery.json). */
export interface ReportPolicy {
  /** What is due waits for so long for others of the message. */
  readonly gatherSeconds: number;
  readonly recipientsPerReport: number;
  /** To one sender of an instance. */
  readonly reportsPerHour: number;
  /** What is still due after so long, as the sender has had enough, is not told any more. */
  readonly withheldAfterHours: number;
  /** Of the message that is reported on: a larger one comes back as its header. */
  readonly returnedOctets: number;
}

interface ReportingHost {
  /** The name that reports come from. */
  readonly hostname: string;
  readonly giveUpHours: number;
  readonly now: Date;
}

/** What became of one group of recipients that were due together; `put-off`: of all that were due to their sender. */
interface ReportSent {
  readonly kind: Notification;
  readonly recipients: number;
  /** `put-off`: the sender has had enough within this hour. `withheld`: for good. */
  readonly outcome: "sent" | "put-off" | "withheld";
  /** Why it is withheld, where no report can be made of what is stored. */
  readonly unmade?: { readonly instance: string; readonly eeid: string; readonly err: unknown };
}

const PUT_OFF_SECONDS = 600;
const HOUR_MS = 3_600_000;

/**
 * Tells one sender of an instance what is due of one message: the report is in the queue, and noted, when this resolves, or neither is.
 * To be followed by `announceMail`. What no report can be made of is withheld.
 * @returns undefined where nothing is due
 */
export async function sendDueReport(
  db: Db,
  policy: ReportPolicy,
  host: ReportingHost,
  instanceId: number,
): Promise<ReportSent | undefined> {
  return inTransaction(db, async (transaction) => {
    const group = await takeDueGroup(transaction, instanceId, policy);
    if (group === undefined || group.recipients.length === 0) return undefined;
    const { kind, instanceName: instance, eeid } = group;
    try {
      return { kind, ...(await transaction.transaction((savepoint) => tell(savepoint, group, { policy, host }))) };
    } catch (err) {
      if (!isAboutData(err)) throw err;
      const outcome = await withhold(transaction, group);
      return { kind, recipients: group.recipients.length, outcome, unmade: { instance, eeid, err } };
    }
  });
}

async function tell(
  transaction: Transaction,
  group: DueGroup,
  { policy, host }: { readonly policy: ReportPolicy; readonly host: ReportingHost },
): Promise<Pick<ReportSent, "outcome" | "recipients">> {
  const recipients = group.recipients.length;
  const to = await senderOf(transaction, group);
  if (to === undefined) return { outcome: await withhold(transaction, group), recipients };
  if (!(await countReport(transaction, group.instanceId, to.key, policy.reportsPerHour))) {
    const since = new Date(host.now.getTime() - policy.withheldAfterHours * HOUR_MS);
    if (group.recipients.every(({ at }) => at < since))
      return { outcome: await withhold(transaction, group), recipients };
    const seconds = PUT_OFF_SECONDS;
    return { outcome: "put-off", recipients: await putOffReports(transaction, group, { seconds, since }) };
  }
  const octets = await compose(transaction, group, { to, policy, host });
  await endReports(transaction, group, await queueReport(transaction, group, to, octets));
  return { outcome: "sent", recipients };
}

async function withhold(transaction: Transaction, group: DueGroup): Promise<"withheld"> {
  await endReports(transaction, group, null);
  return "withheld";
}

/** Only an address of a domain that the instance may still use: a report is nobody's way to write to strangers. */
async function senderOf(db: Db, { instanceId, request }: DueGroup): Promise<EmailAddress | undefined> {
  const sender = validateAddress(request.mailFrom, { allowSmtputf8: true });
  if (!sender.ok) return undefined;
  const domains = await allowedDomains(db, instanceId);
  return domains.includes(sender.value.asciiDomain) ? sender.value : undefined;
}

async function compose(
  db: Db,
  group: DueGroup,
  { to, policy, host }: { readonly to: EmailAddress; readonly policy: ReportPolicy; readonly host: ReportingHost },
): Promise<Buffer> {
  const { kind, language, request, acceptedAt, recipients } = group;
  const { octets, isWhole, tracking } = await readReturned(db, group, policy.returnedOctets);
  const fillIn = isWhole && tracking !== null && octets.length > 0;
  return composeReport({
    ...{ kind, language, request, acceptedAt, recipients, to },
    hostname: host.hostname,
    international: request.international,
    retryUntil: new Date(acceptedAt.getTime() + host.giveUpHours * HOUR_MS),
    returned: { octets: fillIn ? fillPlaces(octets, tracking.places, plainValues(tracking.links)) : octets, isWhole },
    date: host.now,
    id: randomBytes(16).toString("hex"),
  });
}

/** A batch of its own, without contact and without event. @returns the id of its message */
async function queueReport(
  transaction: Transaction,
  { instanceId, campaignNumid }: DueGroup,
  to: EmailAddress,
  octets: Buffer,
): Promise<number> {
  const batch = { eeid: randomUUID(), instanceId, campaignNumid, isReport: true };
  await addBatches(transaction, [{ ...batch, creator: "smtp" }]);
  const [messageId] = await addMessages(transaction, [
    { ...batch, senderDomain: to.asciiDomain, archive: false, content: { kind: "finished", octets } },
  ]);
  const delivery = { contactId: null, role: "to" as const, recipient: to.asGiven, destination: to.asciiDomain };
  const deliveries = [{ ...delivery, personal: null }];
  await enqueue(transaction, [{ ...batch, messageId: messageId!, deliveries, goesAhead: true }]);
  return messageId!;
}
