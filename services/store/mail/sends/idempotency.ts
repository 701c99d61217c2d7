import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";

/** A call that may be repeated: equal keys of one instance stand for one call. */
export interface IdempotentCall {
  readonly instanceId: number;
  readonly key: string;
  /** SHA-256 of what the call asks for. */
  readonly bodyHash: Buffer;
}

export type Claim<Answer> =
  | { readonly kind: "new" }
  | { readonly kind: "answered"; readonly answer: Answer }
  /** The key was used for another call. */
  | { readonly kind: "conflict" };

const KEPT_HOURS = 24;

/**
 * Claims a key for the caller's transaction. Another call with the same key waits here until this transaction ends:
 * then it gets the answer, or, when this one was rolled back, the key.
 */
export async function claimCall<Answer>(transaction: Transaction, call: IdempotentCall): Promise<Claim<Answer>> {
  const claimed = await queryRows(
    transaction,
    `insert into idempotency_keys as known (instance_id, key, body_hash, answer) values ($1, $2, $3, '{}')
     on conflict (instance_id, key) do update
       set body_hash = excluded.body_hash, answer = excluded.answer, created_at = excluded.created_at
       where excluded.created_at - known.created_at > make_interval(hours => $4)
     returning key`,
    [call.instanceId, call.key, call.bodyHash, KEPT_HOURS],
  );
  if (claimed.length > 0) return { kind: "new" };
  const known = await transaction("idempotency_keys")
    .where({ instance_id: call.instanceId, key: call.key })
    .first("body_hash", "answer");
  return compareCalls<Answer>(known, call.bodyHash);
}

/** What a key stands for already, without claiming it; undefined when it is free. */
export async function findCall<Answer>(
  db: Db,
  { instanceId, key, bodyHash }: IdempotentCall,
): Promise<Exclude<Claim<Answer>, { kind: "new" }> | undefined> {
  const [known] = await queryRows<{ body_hash: Buffer; answer: Answer }>(
    db,
    `select body_hash, answer from idempotency_keys
     where instance_id = $1 and key = $2 and created_at >= now() - make_interval(hours => $3)`,
    [instanceId, key, KEPT_HOURS],
  );
  return known && compareCalls(known, bodyHash);
}

/** Keeps the answer to a claimed call. */
export async function answerCall(transaction: Transaction, call: IdempotentCall, answer: object): Promise<void> {
  await transaction("idempotency_keys")
    .where({ instance_id: call.instanceId, key: call.key })
    .update({ answer: JSON.stringify(answer) });
}

/** Gives a claimed key back: the call was refused. */
export async function withdrawCall(transaction: Transaction, { instanceId, key }: IdempotentCall): Promise<void> {
  await transaction("idempotency_keys").where({ instance_id: instanceId, key }).delete();
}

/** Forgets the keys that no longer bind anybody. */
export async function purgeCalls(db: Db): Promise<void> {
  await db.raw("delete from idempotency_keys where created_at < now() - make_interval(hours => ?)", [KEPT_HOURS]);
}

function compareCalls<Answer>(
  known: { readonly body_hash: Buffer; readonly answer: Answer },
  bodyHash: Buffer,
): Exclude<Claim<Answer>, { kind: "new" }> {
  return bodyHash.equals(known.body_hash) ? { kind: "answered", answer: known.answer } : { kind: "conflict" };
}
