import { createPrivateKey } from "node:crypto";
import type { KeyRing } from "../../../core/key-ring.ts";
import { type DkimKey, generateDkimKey } from "../../../core/mail/dkim.ts";
import type { DkimAlgorithm, RotatingKey, RotationStep } from "../../../core/mail/domain-setup/dkim-rotation.ts";
import { open, seal } from "../../../core/secret-box.ts";
import { type Db, isUniqueViolation, queryRows } from "../../../platform/postgres/db.ts";
import { inTransaction } from "../../transactions.ts";

/** What DKIM keys are sealed for. */
export const DKIM_KEY_PURPOSE = "dkim-key";

/** A sender domain of an instance. */
export interface DomainOfInstance {
  readonly instanceId: number;
  /** A-labels in lower case. */
  readonly domain: string;
}

/** A key beside the one that a sender domain began with. */
export interface FurtherKey extends RotatingKey {
  readonly selector: string;
  /** The TXT value that publishes it. */
  readonly record: string;
  readonly madeAt: Date;
}

/** What delivery needs to know of a message's sender. */
interface SenderKeys {
  /** Selectors and PKCS #8 PEMs, RSA first. */
  readonly keys: readonly { readonly selector: string; readonly privateKeyPem: string }[];
  readonly instanceName: string;
  readonly feedbackId: boolean;
  readonly feedbackAddress: boolean;
  /** Where recipients' links lead, when it leads here. */
  readonly linkHost: string | undefined;
}

/** A sender domain's keys, ready to sign. */
export function dkimKeys(domain: string, { keys }: Pick<SenderKeys, "keys">): DkimKey[] {
  return keys.map(({ selector, privateKeyPem }) => ({ domain, selector, privateKey: createPrivateKey(privateKeyPem) }));
}

/**
 * The keys that sign for a sender domain of an instance, and what its messages carry beside; undefined when it does not
 * have the domain. @throws when a key was sealed under another secret
 */
export async function findSenderKeys(
  db: Db,
  keyRing: KeyRing,
  { instanceId, domain }: DomainOfInstance,
): Promise<SenderKeys | undefined> {
  const rows = await queryRows<SenderRow>(
    db,
    `select d.dkim_selector as selector, d.dkim_key_sealed as sealed, i.name, i.feedback_id, i.feedback_address,
       case when u.links_ready then u.tracking_host end as link_host
     from instance_domains d join instances i on i.id = d.instance_id
     left join domain_upkeep u on u.instance_id = d.instance_id and u.domain = d.domain
     where d.instance_id = $1 and d.domain = $2
     union all
     select selector, key_sealed, '', false, false, null from dkim_keys
     where instance_id = $3 and domain = $4 and state = 'signing'`,
    [instanceId, domain, instanceId, domain],
    { name: "find-sender-keys" },
  );
  const [first] = rows;
  if (first === undefined) return undefined;
  const keys = rows.map(({ selector, sealed }) => ({ selector, privateKeyPem: openKey(keyRing, domain, sealed) }));
  return {
    keys,
    instanceName: first.name,
    feedbackId: first.feedback_id,
    feedbackAddress: first.feedback_address,
    linkHost: first.link_host ?? undefined,
  };
}

interface SenderRow {
  selector: string;
  sealed: string;
  name: string;
  feedback_id: boolean;
  feedback_address: boolean;
  link_host: string | null;
}

function openKey(keyRing: KeyRing, domain: string, sealed: string): string {
  const opened = open(keyRing, DKIM_KEY_PURPOSE, sealed);
  if (!opened.ok) throw new Error(`the DKIM key of ${domain} was sealed under another keyRing`);
  return opened.value.toString("utf8");
}

/** The instance that has a domain for the longest, if one has. */
export async function findHolderOf(db: Db, domain: string): Promise<number | undefined> {
  const [row] = await queryRows<{ instance_id: number }>(
    db,
    "select instance_id from instance_domains where domain = $1 order by instance_id limit 1",
    [domain],
  );
  return row?.instance_id;
}

/** The keys of a domain beside its first, the oldest first. */
export async function listFurtherKeys(db: Db, { instanceId, domain }: DomainOfInstance): Promise<FurtherKey[]> {
  const rows = await queryRows<KeyRow>(
    db,
    `select id, selector, algorithm, record, state, made_at, seen_since, retired_at from dkim_keys
     where instance_id = $1 and domain = $2 order by id`,
    [instanceId, domain],
  );
  return rows.map(({ made_at, seen_since, retired_at, ...row }) => ({
    ...row,
    madeAt: made_at,
    seenSince: seen_since,
    retiredAt: retired_at,
  }));
}

interface KeyRow {
  id: number;
  selector: string;
  algorithm: DkimAlgorithm;
  record: string;
  state: RotatingKey["state"];
  made_at: Date;
  seen_since: Date | null;
  retired_at: Date | null;
}

/**
 * Makes keys that are to take over, one of each algorithm, unless there are new ones of it already.
 * @returns how many were made
 */
export async function addNewKeys(
  db: Db,
  keyRing: KeyRing,
  of: DomainOfInstance,
  { algorithms, now }: { readonly algorithms: readonly DkimAlgorithm[]; readonly now: Date },
): Promise<number> {
  let made = 0;
  for (const algorithm of algorithms) {
    const { privateKeyPem, record } = await generateDkimKey(algorithm);
    const sealed = seal(keyRing, DKIM_KEY_PURPOSE, privateKeyPem);
    const added = await insertKey(db, of, { algorithm, record, sealed, now });
    made += added ? 1 : 0;
  }
  return made;
}

interface SealedKey {
  readonly id: number;
  readonly algorithm: DkimAlgorithm;
  readonly sealed: string;
  readonly state: RotatingKey["state"];
}

/**
 * Has new keys sign at once in the place of those that the key ring does not open, as nothing can be signed with these: the
 * secret that they were sealed under is lost. Their records stay published for a while, as those of any old key. May be
 * called again after it was cut off anywhere.
 * @returns how many it did without
 */
export async function replaceLostKeys(db: Db, keyRing: KeyRing, of: DomainOfInstance, now: Date): Promise<number> {
  const lost = await listLostKeys(db, keyRing, of);
  if (lost.length === 0) return 0;
  const [signing, waiting] = (["signing", "new"] as const).map((state) => lost.filter((key) => key.state === state));
  await queryRows(
    db,
    "delete from dkim_keys where instance_id = $1 and domain = $2 and id = any($3::bigint[]) and state = 'new'",
    [of.instanceId, of.domain, waiting!.map(({ id }) => id)],
  );
  const algorithms = new Set([...signing!, ...waiting!].map(({ algorithm }) => algorithm));
  await addNewKeys(db, keyRing, of, { algorithms: [...algorithms], now });
  await inTransaction(db, async (transaction) => {
    await lockDomain(transaction, of);
    const fresh = (await listFurtherKeys(transaction, of)).filter(({ state }) => state === "new");
    for (const { id, algorithm } of fresh) {
      if (signing!.some((key) => key.algorithm === algorithm)) await takeOver(transaction, of, { id, now });
    }
    // What nobody can open is nothing.
    await queryRows(
      transaction,
      `update dkim_keys set key_sealed = $1
       where instance_id = $2 and domain = $3 and key_sealed = any($4::text[]) and state in ('old', 'done')`,
      [seal(keyRing, DKIM_KEY_PURPOSE, ""), of.instanceId, of.domain, lost.map(({ sealed }) => sealed)],
    );
  });
  return lost.length;
}

async function listLostKeys(db: Db, keyRing: KeyRing, { instanceId, domain }: DomainOfInstance): Promise<SealedKey[]> {
  const keys = await queryRows<SealedKey>(
    db,
    `select 0::bigint as id, 'rsa' as algorithm, dkim_key_sealed as sealed, 'signing' as state from instance_domains
     where instance_id = $1 and domain = $2
     union all
     select id, algorithm, key_sealed, state from dkim_keys where instance_id = $3 and domain = $4`,
    [instanceId, domain, instanceId, domain],
  );
  return keys.filter(({ sealed }) => !open(keyRing, DKIM_KEY_PURPOSE, sealed).ok);
}

interface NewKey {
  readonly algorithm: DkimAlgorithm;
  readonly record: string;
  readonly sealed: string;
  readonly now: Date;
}

const MOST_TRIES = 10;

/** Selectors have the instance in them, as instances with one domain share its names; one that was used is passed over. */
async function insertKey(db: Db, of: DomainOfInstance, key: NewKey): Promise<boolean> {
  const { instanceId, domain } = of;
  const base = `p${instanceId}-${key.now.toISOString().slice(0, 10).replaceAll("-", "")}${key.algorithm === "rsa" ? "r" : "e"}`;
  for (let tried = 0; tried < MOST_TRIES; tried += 1) {
    try {
      const rows = await queryRows(
        db,
        `insert into dkim_keys (instance_id, domain, selector, algorithm, key_sealed, record, state, made_at)
         select $1, $2, $3, $4, $5, $6, 'new', $7
         where exists (select 1 from instance_domains where instance_id = $8 and domain = $9 for update)
           and not exists (select 1 from dkim_keys
             where instance_id = $10 and domain = $11 and algorithm = $12 and state = 'new') returning id`,
        [
          ...[instanceId, domain, tried === 0 ? base : `${base}${tried + 1}`, key.algorithm, key.sealed, key.record],
          ...[key.now.toISOString(), instanceId, domain, instanceId, domain, key.algorithm],
        ],
      );
      return rows.length > 0;
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
    }
  }
  throw new Error(`no selector is free for ${domain}`);
}

/** Takes a step of a domain's rotation: all of it or nothing, and once only. */
export async function takeRotationStep(db: Db, of: DomainOfInstance, step: RotationStep, now: Date): Promise<void> {
  await inTransaction(db, async (transaction) => {
    await lockDomain(transaction, of);
    for (const [id, since] of step.seenSince) {
      await queryRows(
        transaction,
        "update dkim_keys set seen_since = $1 where instance_id = $2 and id = $3 and state = 'new'",
        [since?.toISOString() ?? null, of.instanceId, id],
      );
    }
    for (const id of step.takeOver) await takeOver(transaction, of, { id, now });
    await queryRows(
      transaction,
      "update dkim_keys set state = 'done' where instance_id = $1 and id = any($2::bigint[]) and state = 'old'",
      [of.instanceId, [...step.finish]],
    );
  });
}

async function lockDomain(db: Db, { instanceId, domain }: DomainOfInstance): Promise<void> {
  await queryRows(db, "select from instance_domains where instance_id = $1 and domain = $2 for update", [
    instanceId,
    domain,
  ]);
}

/** A new key is signed with; the one of its algorithm is no longer. The RSA key that signs stands with the domain itself. */
async function takeOver(
  db: Db,
  { instanceId, domain }: DomainOfInstance,
  { id, now }: { readonly id: number; readonly now: Date },
): Promise<void> {
  const at = now.toISOString();
  await queryRows(
    db,
    `update dkim_keys old set state = 'old', retired_at = $1 from dkim_keys fresh
     where fresh.instance_id = $2 and fresh.id = $3 and fresh.state = 'new' and old.instance_id = $2
       and old.domain = fresh.domain and old.algorithm = fresh.algorithm and old.state = 'signing'`,
    [at, instanceId, id],
  );
  // The two change places: what signed until now stays known as an old one.
  await queryRows(
    db,
    `with fresh as (select * from dkim_keys where instance_id = $2 and id = $1 and state = 'new' and algorithm = 'rsa'),
       before as (select d.* from instance_domains d, fresh where d.instance_id = $2 and d.domain = $3),
       swapped as (
         update instance_domains d set dkim_selector = fresh.selector, dkim_key_sealed = fresh.key_sealed, dkim_record = fresh.record
         from fresh where d.instance_id = $2 and d.domain = fresh.domain)
     update dkim_keys k set selector = before.dkim_selector, key_sealed = before.dkim_key_sealed,
       record = before.dkim_record, state = 'old', retired_at = $4, seen_since = null
     from before where k.instance_id = $2 and k.id = $1`,
    [id, instanceId, domain, at],
  );
  await queryRows(db, "update dkim_keys set state = 'signing' where instance_id = $1 and id = $2 and state = 'new'", [
    instanceId,
    id,
  ]);
  await queryRows(db, "update domain_upkeep set rotated_at = $1 where instance_id = $2 and domain = $3", [
    at,
    instanceId,
    domain,
  ]);
}

/** Forgets keys that are out of the zone. */
export async function removeDoneKeys(db: Db, instanceId: number, ids: readonly number[]): Promise<void> {
  await queryRows(db, "delete from dkim_keys where instance_id = $1 and id = any($2::bigint[]) and state = 'done'", [
    instanceId,
    [...ids],
  ]);
}
