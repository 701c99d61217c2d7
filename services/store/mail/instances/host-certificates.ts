import type { KeyRing } from "../../../core/key-ring.ts";
import { open, seal } from "../../../core/secret-box.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import type { DomainOfInstance } from "./dkim-keys.ts";

const CERTIFICATE_PURPOSE = "host-certificate";
const ACCOUNT_PURPOSE = "acme-account";

/** A host of a sender domain that is to have a certificate. */
interface CertifiedHost extends DomainOfInstance {
  readonly host: string;
}

/** What there is for a host. */
export interface HostCertificate extends CertifiedHost {
  readonly notAfter: Date | null;
  /** TXT value that an order before this one has put into the zone. */
  readonly challenge: string | null;
  readonly failures: number;
  /** Why there is none, or no newer one; empty: nothing is wrong. */
  readonly failure: string;
}

const COLUMNS = `instance_id as "instanceId", domain, host, not_after as "notAfter", challenge, failures, failure`;

/** Has one obtained, and renewed. */
export async function wantCertificate(db: Db, { instanceId, domain, host }: CertifiedHost): Promise<void> {
  await queryRows(
    db,
    "insert into host_certificates (instance_id, domain, host) values ($1, $2, $3) on conflict do nothing",
    [instanceId, domain, host],
  );
}

/** Has none obtained any more; one that is there serves until it is over. */
export async function dropCertificates(db: Db, { instanceId, domain }: DomainOfInstance): Promise<void> {
  await queryRows(db, "delete from host_certificates where instance_id = $1 and domain = $2", [instanceId, domain]);
}

export async function readCertificateState(
  db: Db,
  { instanceId, domain, host }: CertifiedHost,
): Promise<HostCertificate | undefined> {
  const [row] = await queryRows<HostCertificate>(
    db,
    `select ${COLUMNS} from host_certificates where instance_id = $1 and domain = $2 and host = $3`,
    [instanceId, domain, host],
  );
  return row;
}

/** How many orders there may be within 24 hours, and how long somebody waits after a failure. */
interface OrderLimits {
  readonly perDay: number;
  readonly perInstanceAndDay: number;
  readonly retrySeconds: number;
  readonly mostRetrySeconds: number;
}

/**
 * Takes a host whose certificate is due, and counts the order. Nobody else takes it until it is tried again, each time after
 * twice as long: so does what a process had in hand that died.
 * @returns undefined where none is due, or there were enough orders
 */
export async function takeDueCertificate(
  transaction: Transaction,
  limits: OrderLimits,
): Promise<HostCertificate | undefined> {
  const { perDay, perInstanceAndDay, retrySeconds, mostRetrySeconds } = limits;
  // Orders are counted one after another.
  await queryRows(transaction, "select pg_advisory_xact_lock(hashtextextended('certificate orders', 0))");
  await queryRows(transaction, "delete from certificate_orders where ordered_at < now() - interval '1 day'");
  const [row] = await queryRows<HostCertificate>(
    transaction,
    `select ${COLUMNS} from host_certificates
     where try_at <= now() and (renew_at is null or renew_at <= now())
       and (select count(*) from certificate_orders) < $1
       and instance_id not in (select instance_id from certificate_orders group by 1 having count(*) >= $2)
     order by try_at limit 1`,
    [perDay, perInstanceAndDay],
  );
  if (row === undefined) return undefined;
  const { instanceId, domain, host } = row;
  await queryRows(transaction, "insert into certificate_orders (instance_id, host) values ($1, $2)", [
    instanceId,
    host,
  ]);
  await queryRows(
    transaction,
    `update host_certificates set try_at = now() + make_interval(secs => least($1::float8 * 2 ^ least($6::integer, 20), $2))
     where instance_id = $3 and domain = $4 and host = $5`,
    [retrySeconds, mostRetrySeconds, instanceId, domain, host, row.failures],
  );
  return row;
}

/** Notes what is about to be put into the zone, so that it is taken away whatever happens. */
export async function noteChallenge(
  db: Db,
  { instanceId, domain, host }: CertifiedHost,
  challenge: string | null,
): Promise<void> {
  await queryRows(
    db,
    "update host_certificates set challenge = $1 where instance_id = $2 and domain = $3 and host = $4",
    [challenge, instanceId, domain, host],
  );
}

export async function noteNoCertificate(
  db: Db,
  { instanceId, domain, host }: CertifiedHost,
  failure: string,
): Promise<void> {
  await queryRows(
    db,
    `update host_certificates set failure = $1, failures = failures + 1
     where instance_id = $2 and domain = $3 and host = $4`,
    [failure, instanceId, domain, host],
  );
}

export async function storeCertificate(
  db: Db,
  keyRing: KeyRing,
  { instanceId, domain, host }: CertifiedHost,
  issued: { readonly chain: string; readonly keyPem: string; readonly notAfter: Date; readonly renewAt: Date },
): Promise<void> {
  await queryRows(
    db,
    `update host_certificates set chain = $1, key_sealed = $2, not_after = $3, renew_at = $4, failures = 0, failure = ''
     where instance_id = $5 and domain = $6 and host = $7`,
    [
      ...[issued.chain, seal(keyRing, CERTIFICATE_PURPOSE, issued.keyPem)],
      ...[issued.notAfter.toISOString(), issued.renewAt.toISOString(), instanceId, domain, host],
    ],
  );
}

/** The certificate that a host is served with, the one that lasts longest. @throws when it was sealed under another secret */
export async function findServedCertificate(
  db: Db,
  keyRing: KeyRing,
  host: string,
): Promise<{ readonly cert: string; readonly key: string } | undefined> {
  const [row] = await queryRows<{ chain: string; sealed: string }>(
    db,
    `select chain, key_sealed as sealed from host_certificates
     where host = $1 and chain is not null and not_after > now() order by not_after desc limit 1`,
    [host],
  );
  if (row === undefined) return undefined;
  const key = open(keyRing, CERTIFICATE_PURPOSE, row.sealed);
  if (!key.ok) throw new Error(`the key of ${host} was sealed under another secret`);
  return { cert: row.chain, key: key.value.toString("utf8") };
}

/** An account at an authority. */
interface AcmeAccount {
  readonly keyPem: string;
  readonly url: string;
}

/** @throws when its key was sealed under another secret */
export async function findAcmeAccount(db: Db, keyRing: KeyRing, directory: string): Promise<AcmeAccount | undefined> {
  const [row] = await queryRows<{ url: string; sealed: string }>(
    db,
    "select account_url as url, key_sealed as sealed from acme_accounts where directory = $1",
    [directory],
  );
  if (row === undefined) return undefined;
  const key = open(keyRing, ACCOUNT_PURPOSE, row.sealed);
  if (!key.ok) throw new Error(`the key of the account at ${directory} was sealed under another secret`);
  return { keyPem: key.value.toString("utf8"), url: row.url };
}

/** Keeps an account; of several that were made at once, the first. */
export async function keepAcmeAccount(
  db: Db,
  keyRing: KeyRing,
  directory: string,
  { keyPem, url }: AcmeAccount,
): Promise<void> {
  await queryRows(
    db,
    "insert into acme_accounts (directory, account_url, key_sealed) values ($1, $2, $3) on conflict do nothing",
    [directory, url, seal(keyRing, ACCOUNT_PURPOSE, keyPem)],
  );
}
