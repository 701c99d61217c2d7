import { messageTerms, senderTerm } from "../../services/core/mail/message-terms.ts";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { ensureAttemptWeeks } from "../../services/store/mail/attempts/attempt-weeks.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";

/** What is laid out: deliveries of the last days, of one customer among others. */
export interface ExplorerData {
  readonly deliveries: number;
  readonly days: number;
}

/** Every fifth delivery is a submitted message of its own; the others are of batches with so many recipients each. */
export const BATCH_RECIPIENTS = 4_000;
const SENDER = "ana@sender.example.org";
export const SUBJECTS = [
  "Your invoice",
  "Password changed",
  "Pedido recibido",
  "Weekly news",
  "Welcome",
  "Delivery note",
];
export const REPLIES = [
  ["delivered", 250, "2.0.0", "", "250 2.0.0 Ok: queued as *"],
  ["deferred", 450, "4.2.0", "undefined", "450 4.2.0 * greylisted, try again later"],
  ["deferred", 421, "4.7.0", "ratelimited", "421 4.7.0 * too many messages from your address"],
  ["deferred", 0, "", "expired", "connect ETIMEDOUT *"],
  ["bounced", 550, "5.1.1", "userunknown", "550 5.1.1 * User unknown"],
  ["bounced", 552, "5.2.2", "mailboxfull", "552 5.2.2 Mailbox full"],
  ["bounced", 550, "5.7.1", "spamdetected", "550 5.7.1 Message rejected as spam"],
  ["deferred", 451, "4.3.0", "systemerror", "451 4.3.0 the exceptional trouble of one in a million"],
] as const;

/** Destination of delivery n: two in five are of the largest provider, and there are 20,000 small domains. */
const DESTINATION = `case when n % 10 < 4 then 'large.example.org' when n % 10 < 6 then 'second.example.org'
  else 'd' || (n * 7919 % 20000) || '.example.net' end`;

/**
 * Fills an empty, migrated database. Each delivery has three attempts: two that were put off, and the last; one in twenty
 * bounces, one in two hundred is queued still. Indexes are made behind the rows.
 */
export async function layOutExplorerData(db: Db, { deliveries, days }: ExplorerData): Promise<void> {
  const start = new Date(Date.now() - days * 86_400_000);
  const moments = Array.from({ length: days + 1 }, (_, day) => new Date(start.getTime() + day * 86_400_000));
  await ensureAttemptWeeks(db, moments);
  await ensureEventMonths(db, moments);
  await queryRows(db, "insert into instances (name, host, key_hash) values ('bench', 'bench.test', 'bench')");
  const indexes = await dropIndexes(db);
  await db.transaction(async (transaction) => {
    await transaction.raw("set local session_replication_role = replica");
    await transaction.raw("set local synchronous_commit = off");
    for (const [statement, values] of statements(deliveries, start, days)) {
      const beganAt = performance.now();
      await queryRows(transaction, statement, values);
      print(statement, beganAt);
    }
  });
  for (const index of indexes) {
    const beganAt = performance.now();
    await db.raw(index);
    print(index, beganAt);
  }
  await db.raw("vacuum analyze");
}

function print(statement: string, beganAtMs: number): void {
  const what = statement.trim().slice(0, 60).replace(/\s+/g, " ");
  process.stdout.write(`${what} … ${Math.round(performance.now() - beganAtMs)} ms\n`);
}

const TABLES = ["contacts", "batches", "messages", "partitions", "deliveries", "events", "delivery_attempts"];

async function dropIndexes(db: Db): Promise<string[]> {
  const rows = await queryRows<{ name: string; definition: string }>(
    db,
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
     where indrelid = any($1::regclass[]) and not indisprimary and not indisunique`,
    [TABLES],
  );
  for (const { name } of rows) await db.raw("drop index ??", [name]);
  return rows.map(({ definition }) => definition.replace(" ON ONLY ", " ON "));
}

type Statement = readonly [sql: string, values: readonly unknown[]];

function statements(deliveries: number, start: Date, days: number): Statement[] {
  const accepted = `$2::timestamptz + make_interval(secs => $3::float8 * 86400 * n / $1::bigint)`;
  const shared = [deliveries, start, days];
  const isSingle = "n % 5 = 0";
  const call = `case when ${isSingle} then n else ${deliveries} + n / (${BATCH_RECIPIENTS} * 5 / 4) end`;
  const calls = `select ${call} as call, min(n) as n from generate_series(1, $1::bigint) n group by 1`;
  const partition = `case when ${isSingle} then n else ${deliveries} + n / 500 * 5 + n % 5 end`;
  const eeid = "md5('eeid ' || call)::uuid";
  return [
    [
      `insert into contacts (id, instance_id, email, email_key) overriding system value
       select n, 1, 'r' || n || '@' || ${DESTINATION}, 'r' || n || '@' || ${DESTINATION}
       from generate_series(1, $1::bigint) n`,
      [Math.ceil(deliveries / 10)],
    ],
    [
      `insert into batches (eeid, instance_id, campaign_numid, creator, created_at, modified_at)
       select ${eeid}, 1, call % 50 + 1, case when call <= $1 then 'smtp' else 'api' end, ${accepted}, ${accepted}
       from (${calls}) calls`,
      shared,
    ],
    [
      `insert into messages (id, instance_id, eeid, campaign_numid, sender_domain, octets, content_octets, created_at, subject,
         sender, message_id, terms) overriding system value
       select call, 1, ${eeid}, call % 50 + 1, 'sender.example.org', 'x', 1, ${accepted},
         ($4::text[])[call % $5 + 1] || case when call % 100003 = 7 then ' unusual' else '' end, '${SENDER}',
         '<' || call || '@app.example.org>',
         array[($6::bigint[])[call % $5 + 1], ($7::bigint[])[call % $5 + 1],
           $9::bigint, ('x' || substr(md5('message ' || call), 1, 16))::bit(64)::bigint]
           || case when call % 100003 = 7 then $8::bigint[] else '{}' end
       from (${calls}) calls`,
      [
        ...shared,
        SUBJECTS,
        SUBJECTS.length,
        SUBJECTS.map(firstTerm),
        SUBJECTS.map(lastTerm),
        termsOf("unusual"),
        senderTerm(1, SENDER),
      ],
    ],
    [
      `insert into partitions (id, instance_id, eeid, message_id, destination, state, recipients, taken_at) overriding system value
       select id, 1, md5('eeid ' || call)::uuid, call, destination, case when id % 200 = 1 then 'deferred' else 'finished' end,
         100, now()
       from (select ${partition} as id, min(${call}) as call, min(${DESTINATION}) as destination
         from generate_series(1, $1::bigint) n group by 1) parts`,
      [deliveries],
    ],
    [
      `insert into deliveries (id, instance_id, partition_id, contact_id, role, recipient, state, attempts, reply, finished_at,
         bounce, bounced_at) overriding system value
       select n, 1, ${partition}, n % ($1 / 10) + 1, 'to', 'r' || n % ($1 / 10) + 1 || '@' || ${DESTINATION},
         case when ${partition} % 200 = 1 then 'queued' when n % 20 = 3 then 'refused' else 'delivered' end, 3,
         case when n % 20 = 3 then '550 5.1.1 User unknown' else '250 2.0.0 Ok: queued as ' || md5(n::text) end, ${accepted},
         case when n % 20 = 3 then 'hard' end, case when n % 20 = 3 then date_trunc('milliseconds', ${accepted}) end
       from generate_series(1, $1::bigint) n`,
      shared,
    ],
    [
      `insert into events (instance_id, at, kind, contact_id, campaign_numid, delivery_id, detail)
       select 1, date_trunc('milliseconds', ${accepted}), 4, n % ($1 / 10) + 1, 1, n,
         jsonb_build_object('reason', case when n % 100003 = 3 then 'virusdetected' else 'userunknown' end)
       from generate_series(3, $1::bigint, 20) n`,
      shared,
    ],
    [
      `insert into attempt_paths (id, instance_id, exchanger, address, source, tls, cipher, certificate, policy)
         overriding system value
       select n, 1, 'mx' || n || '.example.org', '192.0.2.' || n % 250, '198.51.100.' || n % 20, 'TLSv1.3', 'x', 'valid', ''
       from generate_series(1, 2000) n`,
      [],
    ],
    [
      `insert into attempt_results (id, instance_id, outcome, stage, code, status, reason, words) overriding system value
       select row_number() over (), 1, outcome, '', code, status, reason, words
       from jsonb_to_recordset($1) as given (outcome text, code smallint, status text, reason text, words text)
       union all select 1000 + n, 1, 'deferred', '', 450, '4.0.0', 'undefined', '450 4.0.0 words of system' || n
       from generate_series(1, 5000) n`,
      [
        JSON.stringify(
          REPLIES.map(([outcome, code, status, reason, words]) => ({ outcome, code, status, reason, words })),
        ),
      ],
    ],
    [
      `insert into delivery_attempts (instance_id, at, delivery_id, path_id, result_id, attempt, duration_ms, reply)
       select 1, date_trunc('milliseconds', ${accepted}) + make_interval(secs => 300 * attempt), n, n % 2000 + 1,
         case when attempt < 3 then case when n % 1000003 = 5 then 8 when n % 50 = 7 then 1001 + n % 5000 else 2 + n % 3 end
           when n % 20 = 3 then 5 else 1 end,
         attempt, 20, case when attempt = 3 then '250 2.0.0 Ok: queued as ' || md5(n::text) end
       from generate_series(1, $1::bigint) n, generate_series(1, 3) attempt`,
      shared,
    ],
  ];
}

/** The instance is the first. */
function termsOf(subject: string): string[] {
  return messageTerms(1, { subject, sender: null, messageId: null });
}

const firstTerm = (subject: string) => termsOf(subject)[0]!;
const lastTerm = (subject: string) => termsOf(subject).at(-1)!;
