import { type EntryKind, KINDS_BY_WEIGHT, type ListingWords } from "../../../core/mail/suppression.ts";
import { type Db, queryRows, type Transaction } from "../../../platform/postgres/db.ts";
import { EVENT_KINDS } from "../events/event-kinds.ts";

/** Whose list: an instance's, or the operator's, which holds for all. */
export type SuppressionOwner = { readonly instanceId: number } | "operator";

/** A row about to be kept. */
export interface NewSuppression extends ListingWords {
  /** See `SuppressionTarget`. */
  readonly key: string;
  readonly text: string;
  readonly kind: EntryKind;
}

/** SQL of the key under which an erased address stays: who has the database and the address can tell, nobody can read it. */
export function erasedKey(emailKey: string, instanceId: string): string {
  return `'#' || encode(sha256(convert_to(${instanceId} || ':' || ${emailKey}, 'UTF8')), 'hex')`;
}

function keysOf(emailKey: string): string {
  return `${emailKey}, '@' || split_part(${emailKey}, '@', 2)`;
}

/** In SQL, whose list an address may be on. */
export interface SuppressingInstance {
  readonly id: string;
  /** The condition on a table that its rows are of that instance. */
  readonly owns: (table: string) => string;
}

const FIRST_PARAMETER: SuppressingInstance = {
  id: "$1::bigint",
  owns: (table) => `${table}.instance_id = $1::bigint`,
};

/**
 * A condition in SQL: an address of an instance, $1 unless given, is not to be mailed, itself or its domain. Where nobody is
 * listed it costs two probes, a statement or, of instances that are given by rows, a recipient, else two a recipient more.
 * @param emailKey SQL of the address's key
 */
export function isSuppressed(emailKey: string, { id, owns }: SuppressingInstance = FIRST_PARAMETER): string {
  return `case when (select exists (select 1 from suppressions as any_row where ${owns("any_row")})
        or exists (select 1 from global_suppressions))
      then exists (select 1 from suppressions as listed where ${owns("listed")}
          and listed.key = any(array[${keysOf(emailKey)}, ${erasedKey(emailKey, id)}]))
        or exists (select 1 from global_suppressions as listed where listed.key = any(array[${keysOf(emailKey)}]))
      else false end`;
}

/** Which of these addresses, contacts or not, are not to be mailed. */
export async function findSuppressed(
  db: Db,
  instanceId: number,
  emailKeys: readonly string[],
): Promise<ReadonlySet<string>> {
  if (emailKeys.length === 0) return new Set();
  const rows = await queryRows<{ key: string }>(
    db,
    `select given.key from unnest($2::text[]) as given (key) where ${isSuppressed("given.key")}`,
    [instanceId, emailKeys],
  );
  return new Set(rows.map(({ key }) => key));
}

const WEIGHTS = `array[${KINDS_BY_WEIGHT.map((kind) => `'${kind}'`).join(", ")}]`;

/**
 * Keeps rows; one that is there already gets the new kind and words, unless its own kind weighs more, and keeps its beginning.
 * One of the same kind and words stays as it is.
 * @param entries each key once
 */
export async function addSuppressions(
  db: Db,
  owner: SuppressionOwner,
  entries: readonly NewSuppression[],
): Promise<void> {
  if (entries.length === 0) return;
  const inOrder = entries.toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const { table, columns, values, conflict } =
    owner === "operator"
      ? { table: "global_suppressions", columns: "", values: "", conflict: "key" }
      : { table: "suppressions", columns: "instance_id,", values: "$7::bigint,", conflict: "instance_id, key" };
  await queryRows(
    db,
    `insert into ${table} as kept (${columns} key, kind, target, note, creator, since)
     select ${values} key, kind, target, note, creator, coalesce(since, now())
     from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
       as given (key, kind, target, note, creator, since)
     on conflict (${conflict}) do update set kind = excluded.kind, target = excluded.target, note = excluded.note,
       creator = excluded.creator
       where array_position(${WEIGHTS}, excluded.kind) >= array_position(${WEIGHTS}, kept.kind)
         and (excluded.kind, excluded.note) is distinct from (kept.kind, kept.note)`,
    [
      inOrder.map(({ key }) => key),
      inOrder.map(({ kind }) => kind),
      inOrder.map(({ text }) => text),
      inOrder.map(({ note }) => note),
      inOrder.map(({ creator }) => creator),
      inOrder.map(({ since }) => since?.toISOString() ?? null),
      ...(owner === "operator" ? [] : [owner.instanceId]),
    ],
  );
}

/**
 * Takes a row off.
 * @param only.kind where it is of this kind
 * @param only.readable not where all that is kept of the address is a digest
 * @returns whether there was one
 */
export async function removeSuppression(
  db: Db,
  owner: SuppressionOwner,
  key: string,
  only: { readonly kind?: EntryKind | "erased" | undefined; readonly readable?: true } = {},
): Promise<boolean> {
  const kind = only.kind ?? null;
  const rows =
    owner === "operator"
      ? await queryRows(
          db,
          "delete from global_suppressions where key = $1 and ($2::text is null or kind = $2) returning 1",
          [key, kind],
        )
      : await queryRows(
          db,
          `delete from suppressions where key in ($1, ${erasedKey("$1::text", "$3::bigint")})
             and ($2::text is null or kind = $2) and instance_id = $3 and (kind <> 'erased' or not $4) returning 1`,
          [key, kind, owner.instanceId, only.readable ?? false],
        );
  return rows.length > 0;
}

/** Keeps an erased address from being mailed again, by its digest alone. */
export async function keepErased(transaction: Transaction, instanceId: number, emailKey: string): Promise<void> {
  await queryRows(
    transaction,
    `insert into suppressions (instance_id, key, kind) select $1, ${erasedKey("$2::text", "$1::bigint")}, 'erased'
     on conflict do nothing`,
    [instanceId, emailKey],
  );
}

/** Whether the person behind an address has asked this instance to stop: unsubscribed from it, or complained. */
export async function hasObjected(db: Db, instanceId: number, contactId: number): Promise<boolean> {
  const [row] = await queryRows<{ objected: boolean }>(
    db,
    `select unsubscribed_at is not null
       or exists (select 1 from events e where e.contact_id = contacts.id and e.instance_id = $1
         and (e.kind = $3 or e.kind = $4 and e.detail ->> 'reason' = 'complaint')) as objected
     from contacts where instance_id = $1 and id = $2`,
    [instanceId, contactId, EVENT_KINDS.complained, EVENT_KINDS.invalidated],
  );
  return row?.objected ?? false;
}

/** Forgets what was brought in about the validity of addresses. */
export async function removeValidityRows(
  transaction: Transaction,
  instanceId: number,
  emailKeys: readonly string[],
): Promise<void> {
  if (emailKeys.length === 0) return;
  await queryRows(
    transaction,
    "delete from suppressions where instance_id = $1 and key = any($2::text[]) and kind in ('invalid', 'complaint')",
    [instanceId, emailKeys],
  );
}
