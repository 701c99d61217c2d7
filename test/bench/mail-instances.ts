import { setTimeout as sleep } from "node:timers/promises";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { ensureEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { announceMail } from "../../services/store/mail/queue/queue.ts";

/** How many instances have mail at the same time, and how much. */
export interface InstancesLoad {
  readonly instances: number;
  readonly recipients: number;
  readonly html: string;
}

/** On Citus each look costs a statement on every machine. */
const POLL_MS = 500;

/** Gives each of many instances a few recipients at the same moment. @returns messages a second */
export async function measureInstances(db: Db, { instances, recipients, html }: InstancesLoad): Promise<number> {
  await ensureEventMonths(db, [new Date()]);
  const template = JSON.stringify({
    from: { name: "Bench", address: "info@many.example.org" },
    subject: "For XYZNOMBREXYZ",
    html,
  });
  await db.transaction(async (transaction) => {
    await transaction.raw(
      `create temporary table many on commit drop as
       select n, gen_random_uuid() as eeid, null::bigint as instance_id from generate_series(1, :instances) as n`,
      { instances },
    );
    await transaction.raw(
      `with made as (
         insert into instances (name, host, key_hash, archive)
         select 'many' || n, 'many' || n || '.test', sha256(('many' || n)::bytea), false from many returning id, name
       )
       update many set instance_id = made.id from made where made.name = 'many' || many.n`,
    );
    await transaction.raw(
      `insert into batches (eeid, instance_id, campaign_numid, creator) select eeid, instance_id, 1, 'bench' from many`,
    );
    await transaction.raw(
      `insert into messages (instance_id, eeid, campaign_numid, sender_domain, template, content_octets)
       select instance_id, eeid, 1, 'many.example.org', :template::jsonb, length(:template) from many`,
      { template },
    );
    await transaction.raw(
      `insert into partitions (instance_id, eeid, message_id, destination, recipients)
       select m.instance_id, m.eeid, m.id, 'd' || place || '.example.net', 1
       from messages m join many using (eeid), generate_series(1, :recipients) as place`,
      { recipients },
    );
    await transaction.raw(
      `insert into deliveries (instance_id, partition_id, role, recipient, personal)
       select p.instance_id, p.id, 'to', 'reader' || p.id || '@' || destination, '{"tags": {"NOMBRE": "Ana"}}'
       from partitions p join many using (eeid)`,
    );
    await transaction.raw("insert into mail_work select instance_id, now() from many");
  });
  const startedAt = await momentOf(db, "now()");
  await announceMail(db);
  const left = () => db("partitions").whereNot({ state: "finished" }).first("id");
  while ((await left()) !== undefined) await sleep(POLL_MS);
  const endedAt = await momentOf(db, "(select max(modified_at) from partitions)");
  return (instances * recipients * 1000) / (endedAt - startedAt);
}

/** @param sql of a moment of the database's clock @returns in milliseconds */
async function momentOf(db: Db, sql: string): Promise<number> {
  const [row] = await queryRows<{ ms: number }>(db, `select (extract(epoch from ${sql}) * 1000)::float8 as ms`);
  return row!.ms;
}
