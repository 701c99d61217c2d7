import { hashApiKey } from "../../../core/api-key.ts";
import type { KeyRing } from "../../../core/key-ring.ts";
import { generateDkimKey, type NewDkimKey } from "../../../core/mail/dkim.ts";
import type { ReportLanguage } from "../../../core/mail/report-words.ts";
import { seal } from "../../../core/secret-box.ts";
import { type Db, isUniqueViolation, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { onPresent } from "../machines.ts";
import { addNewKeys, DKIM_KEY_PURPOSE } from "./dkim-keys.ts";
import { addDomainUpkeep } from "./domain-upkeep.ts";

/** A mail customer: its own host, key, contacts and campaigns. */
export interface Instance {
  readonly id: number;
  readonly name: string;
  /** Lower case, without a port. */
  readonly host: string;
  /** The licence to archive what is sent. */
  readonly archive: boolean;
  /** IANA name of the zone that the API's timestamps are in. */
  readonly timeZone: string;
  /** Clicked links carry a conversion token. */
  readonly conversions: boolean;
  /** Null: kept for ever. */
  readonly eventRetentionDays: number | null;
  readonly archiveRetentionDays: number | null;
  /** Of batches with their messages and deliveries; at least `LEAST_MESSAGE_DAYS`. */
  readonly messageRetentionDays: number | null;
  /** Its users may add the records of its sender domains to zones that are hosted here. */
  readonly createsRecords: boolean;
  /** Messages carry Feedback-ID. */
  readonly feedbackId: boolean;
  /** Messages carry CFBL-Address (RFC 9477). */
  readonly feedbackAddress: boolean;
  /** Failures are reported to programs that submit messages and do not ask for it as well. */
  readonly failureReports: boolean;
  /** What reports to senders are written in. */
  readonly language: ReportLanguage;
}

/** A sender domain of an instance, and what publishes its DKIM key. */
export interface InstanceDomain {
  /** A-labels in lower case. */
  readonly domain: string;
  readonly dkimSelector: string;
  /** The TXT value that publishes the key. */
  readonly dkimRecord: string;
}

interface NewInstance {
  readonly name: string;
  readonly host: string;
  readonly key: string;
  readonly archive: boolean;
  /** UTC unless given. */
  readonly timeZone?: string;
  /** Sender domains, as A-labels in lower case; each gets DKIM keys. */
  readonly domains: readonly string[];
  /** Where their keys come from; each is generated unless given. */
  readonly makeDkimKey?: () => Promise<NewDkimKey>;
}

export type InstanceConflict = "name-taken" | "host-taken" | "key-taken";

/** Unsubscribe links work for 30 days after the sending: 15 U.S.C. 7704(a)(3)(A)(ii). */
export const LEAST_MESSAGE_DAYS = 30;

const DKIM_SELECTOR = "palomar";

/** @returns what is taken, or undefined when the instance was added */
export async function addInstance(
  db: Db,
  keyRing: KeyRing,
  instance: NewInstance,
): Promise<InstanceConflict | undefined> {
  return db.transaction(async (transaction) => {
    const [added] = await transaction("instances")
      .insert({
        name: instance.name,
        host: instance.host,
        key_hash: hashApiKey(keyRing, "instance", instance.key),
        archive: instance.archive,
        time_zone: instance.timeZone,
      })
      .onConflict()
      .ignore()
      .returning("id");
    if (added === undefined) return findConflict(transaction, instance);
    const makeKey = instance.makeDkimKey ?? makeDkimKey;
    for (const domain of instance.domains.toSorted())
      await insertDomain(transaction, keyRing, { instanceId: added.id, domain, key: await makeKey() });
    return undefined;
  });
}

async function findConflict(db: Db, { name, host }: NewInstance): Promise<InstanceConflict> {
  const isTaken = async (column: object) => (await db("instances").where(column).first("id")) !== undefined;
  if (await isTaken({ name })) return "name-taken";
  return (await isTaken({ host })) ? "host-taken" : "key-taken";
}

/**
 * The instance that a key belongs to, a former key until its grace ends, if the request came to a host that it may be
 * used at: the instance's own, or one that no instance has.
 * @param host of the request, lower case, without a port
 */
export async function findInstanceByKey(db: Db, keyHash: Buffer, host: string): Promise<Instance | undefined> {
  const [row] = await queryRows<InstanceRow>(
    db,
    `select * from instances as own
      where (key_hash = $1 or previous_key_hash = $2 and previous_key_until > now())
        and not exists (select 1 from instances as other where other.host = $3 and other.id <> own.id)
      order by key_hash = $4 desc limit 1`,
    [keyHash, keyHash, host, keyHash],
  );
  return row && toInstance(row);
}

/** @param host lower case, without a port */
export async function isInstanceHost(db: Db, host: string): Promise<boolean> {
  if (host.includes("\0")) return false;
  return (await queryRows(db, "select 1 from instances where host = $1", [host])).length > 0;
}

export async function findInstanceByName(db: Db, name: string): Promise<Instance | undefined> {
  const row = await db("instances").where({ name }).first();
  return row && toInstance(row);
}

/** All of them; without its domains one whose machine does not answer. */
export async function listInstances(db: Db): Promise<(Instance & { readonly domains: readonly string[] })[]> {
  // Joined, Citus 13 would leave out instances of which no domain is read.
  const rows = await queryRows<InstanceRow>(db, "select * from instances order by name");
  const owned = await queryRows<{ instance_id: number; domains: string[] }>(
    db,
    `select instance_id, array_agg(domain order by domain) as domains from instance_domains
     where ${onPresent(db)} group by instance_id`,
  );
  const domainsOf = new Map(owned.map(({ instance_id, domains }) => [instance_id, domains]));
  return rows.map((row) => ({ ...toInstance(row), domains: domainsOf.get(row.id) ?? [] }));
}

export type InstanceSettings = Partial<
  Pick<
    Instance,
    | "host"
    | "archive"
    | "timeZone"
    | "conversions"
    | "eventRetentionDays"
    | "archiveRetentionDays"
    | "messageRetentionDays"
    | "createsRecords"
    | "feedbackId"
    | "feedbackAddress"
    | "failureReports"
    | "language"
  >
>;

/** Changes the settings that are given. @returns what is taken; then none is changed */
export async function setInstanceSettings(
  db: Db,
  id: number,
  settings: InstanceSettings,
): Promise<Extract<InstanceConflict, "host-taken"> | undefined> {
  if (Object.values(settings).every((value) => value === undefined)) return undefined;
  const row = {
    host: settings.host,
    archive: settings.archive,
    time_zone: settings.timeZone,
    conversions: settings.conversions,
    event_retention_days: settings.eventRetentionDays,
    archive_retention_days: settings.archiveRetentionDays,
    message_retention_days: settings.messageRetentionDays,
    creates_records: settings.createsRecords,
    feedback_id: settings.feedbackId,
    feedback_address: settings.feedbackAddress,
    failure_reports: settings.failureReports,
    language: settings.language,
  };
  try {
    await db("instances").where({ id }).update(row);
    return undefined;
  } catch (error) {
    if (isUniqueViolation(error)) return "host-taken";
    throw error;
  }
}

/** Sender domains that an instance may use: A-labels in lower case, each for itself and no subdomains. */
export async function allowedDomains(db: Db, instanceId: number): Promise<string[]> {
  return db("instance_domains").where({ instance_id: instanceId }).orderBy("domain").pluck("domain");
}

export async function listInstanceDomains(db: Db, instanceId: number): Promise<InstanceDomain[]> {
  const rows = await db("instance_domains").where({ instance_id: instanceId }).orderBy("domain");
  return rows.map((row) => ({
    domain: row.domain,
    dkimSelector: row.dkim_selector,
    dkimRecord: row.dkim_record,
  }));
}

const makeDkimKey = () => generateDkimKey("rsa");

/** Adds a sender domain with new DKIM keys. @returns false when the instance has it already; its key is then kept */
export async function addInstanceDomain(
  db: Db,
  keyRing: KeyRing,
  instanceId: number,
  domain: string,
): Promise<boolean> {
  const key = await makeDkimKey();
  return db.transaction((transaction) => insertDomain(transaction, keyRing, { instanceId, domain, key }));
}

interface NewDomain {
  readonly instanceId: number;
  readonly domain: string;
  readonly key: NewDkimKey;
}

async function insertDomain(
  transaction: Transaction,
  keyRing: KeyRing,
  { instanceId, domain, key }: NewDomain,
): Promise<boolean> {
  const added = await transaction("instance_domains")
    .insert({
      instance_id: instanceId,
      domain,
      dkim_selector: await freeSelector(transaction, instanceId, domain),
      dkim_key_sealed: seal(keyRing, DKIM_KEY_PURPOSE, key.privateKeyPem),
      dkim_record: key.record,
    })
    .onConflict(["instance_id", "domain"])
    .ignore()
    .returning("domain");
  if (added.length === 0) return false;
  await addDomainUpkeep(transaction, instanceId, domain);
  const [clock] = await queryRows<{ at: Date }>(transaction, "select now() as at");
  // Signed with once it is published (RFC 8463 §3): whoever sets the domain up sees both keys from the start.
  await addNewKeys(transaction, keyRing, { instanceId, domain }, { algorithms: ["ed25519"], now: clock!.at });
  return true;
}

/** Instances with one domain have a key each: under one name only one of them could be published. */
async function freeSelector(transaction: Transaction, instanceId: number, domain: string): Promise<string> {
  await transaction.raw("select pg_advisory_xact_lock(hashtextextended(?, 0))", [domain]);
  const taken = await transaction("instance_domains").where({ domain, dkim_selector: DKIM_SELECTOR }).first();
  return taken === undefined ? DKIM_SELECTOR : `${DKIM_SELECTOR}-${instanceId}`;
}

/** Removes a sender domain with its DKIM key. @returns false when the instance has no such domain */
export async function removeInstanceDomain(db: Db, instanceId: number, domain: string): Promise<boolean> {
  return (await db("instance_domains").where({ instance_id: instanceId, domain }).delete()) > 0;
}

interface InstanceRow {
  id: number;
  name: string;
  host: string;
  archive: boolean;
  time_zone: string;
  conversions: boolean;
  event_retention_days: number | null;
  archive_retention_days: number | null;
  message_retention_days: number | null;
  creates_records: boolean;
  feedback_id: boolean;
  feedback_address: boolean;
  failure_reports: boolean;
  language: ReportLanguage;
}

function toInstance(row: InstanceRow): Instance {
  return {
    id: row.id,
    name: row.name,
    host: row.host,
    archive: row.archive,
    timeZone: row.time_zone,
    conversions: row.conversions,
    eventRetentionDays: row.event_retention_days,
    archiveRetentionDays: row.archive_retention_days,
    messageRetentionDays: row.message_retention_days,
    createsRecords: row.creates_records,
    feedbackId: row.feedback_id,
    feedbackAddress: row.feedback_address,
    failureReports: row.failure_reports,
    language: row.language,
  };
}
