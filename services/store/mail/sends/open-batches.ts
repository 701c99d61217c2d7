import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { byInstance } from "../by-instance.ts";
import {
  type JudgedSource,
  readSendingState,
  SENDING_STATES,
  type SendingState,
  type SendingStateRow,
  sourceValues,
  toSendingState,
} from "../guard/sending-counts.ts";
import type { NewBatch } from "./batches.ts";

/** When something of an instance was accepted, by the database's clock. */
export interface OpenedBatches {
  readonly instanceId: number;
  readonly at: Date;
  /** What its sends are judged by; undefined where it may send without bounds. */
  readonly state: SendingState | undefined;
}

/** Who is judged by what their instances may send. */
interface Judging {
  readonly sources: readonly JudgedSource[];
  /** Instances without a guard of their own are judged as well. */
  readonly everybody: boolean;
}

type OpenedRow = Pick<OpenedBatches, "instanceId" | "at"> & { readonly guarded: boolean };

const WITH_GUARD = `select opened.instance_id as "instanceId", opened.at, guard.instance_id is not null as guarded
     from opened left join instance_guards guard on guard.instance_id = opened.instance_id`;

/** @returns one for each at least, in no order */
export async function addBatches(
  transaction: Transaction,
  batches: readonly NewBatch[],
  judging: Judging = { sources: [], everybody: false },
): Promise<OpenedBatches[]> {
  const guesses = guessesOf(transaction);
  const isLikely = judging.everybody || batches.some(({ instanceId }) => guesses.has(instanceId));
  const opened = isLikely
    ? await addJudgedBatches(transaction, batches, judging)
    : await readStates(transaction, await addFreeBatches(transaction, batches), judging);
  for (const { instanceId, state } of opened) {
    if (state === undefined) guesses.delete(instanceId);
    else guesses.add(instanceId);
  }
  return opened;
}

/** Instances that were judged when batches of theirs were opened last, by what all handles to one pool share. */
const judgedLast = new WeakMap<object, Set<number>>();

/** Only a guess: where it is wrong, it costs a statement more, or a longer one. */
function guessesOf(db: Db): Set<number> {
  const { config } = db.client;
  const guesses = judgedLast.get(config) ?? new Set();
  judgedLast.set(config, guesses);
  return guesses;
}

function addFreeBatches(transaction: Transaction, batches: readonly NewBatch[]): Promise<OpenedRow[]> {
  if (batches.length === 0) return Promise.resolve([]);
  return queryRows<OpenedRow>(
    transaction,
    `with opened as (
       insert into batches (eeid, instance_id, campaign_numid, creator, is_report)
       select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::boolean[])
       returning instance_id, created_at as at
     )
     ${WITH_GUARD} and guard.instance_id = any($2::bigint[])`,
    batchValues(batches),
    { name: "open-batches" },
  );
}

/** With what sends are judged by in the same statement, of which a transaction has few. */
async function addJudgedBatches(
  transaction: Transaction,
  batches: readonly NewBatch[],
  { sources, everybody }: Judging,
): Promise<OpenedBatches[]> {
  const rows = await byInstance(transaction, batches, (own, instanceIds) =>
    queryRows<SendingStateRow>(
      transaction,
      `with opened as (
         insert into batches (eeid, instance_id, campaign_numid, creator, is_report)
         select * from unnest($5::uuid[], $6::bigint[], $7::bigint[], $8::text[], $9::boolean[])
       )
       ${SENDING_STATES}`,
      [instanceIds, ...sourceValues(sources), ...batchValues(own)],
      { name: "open-judged-batches" },
    ),
  );
  return rows.map((row) => {
    const { instanceId, at } = row;
    return { instanceId, at, state: everybody || row.guarded ? toSendingState(row) : undefined };
  });
}

function batchValues(batches: readonly NewBatch[]): unknown[] {
  return [
    batches.map(({ eeid }) => eeid),
    batches.map(({ instanceId }) => instanceId),
    batches.map(({ campaignNumid }) => campaignNumid),
    batches.map(({ creator }) => creator),
    batches.map(({ isReport = false }) => String(isReport)),
  ];
}

/** Locks a batch that a send joins. @returns undefined where it is cancelled, or not kept any more */
export async function touchBatch(
  transaction: Transaction,
  { eeid, instanceId }: Pick<NewBatch, "eeid" | "instanceId">,
  judging: Judging,
): Promise<OpenedBatches | undefined> {
  const touched = await queryRows<OpenedRow>(
    transaction,
    `with opened as (
       update batches set modified_at = now()
       where eeid = $1 and instance_id = $2 and expired_at is null and cancelled_at is null
       returning instance_id, modified_at as at
     )
     ${WITH_GUARD} and guard.instance_id = $2`,
    [eeid, instanceId],
  );
  return (await readStates(transaction, touched, judging))[0];
}

/** Once for each instance that is judged. */
async function readStates(
  transaction: Transaction,
  opened: readonly OpenedRow[],
  { sources, everybody }: Judging,
): Promise<OpenedBatches[]> {
  const states = new Map<number, SendingState | undefined>();
  for (const { instanceId, guarded } of opened) {
    if (states.has(instanceId) || !(guarded || everybody)) continue;
    const own = sources.filter((source) => source.instanceId === instanceId);
    states.set(instanceId, await readSendingState(transaction, instanceId, own));
  }
  return opened.map(({ instanceId, at }) => ({ instanceId, at, state: states.get(instanceId) }));
}
